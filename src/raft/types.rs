//! The types that openraft is told to work with.
use bytes::Bytes;
use ringfence_core::Outcome;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

openraft::declare_raft_types!(
    /// Standard Raft: one leader a term, numbered nodes, commands as encoded bytes.
    pub(crate) TypeConfig:
        D = Payload,
        R = Applied,
        NodeId = u64,
        Node = Member,
        LeaderId = openraft::impls::leader_id_std::LeaderId<Self::Term, Self::NodeId>,
        AsyncRuntime = openraft_rt_tokio::TokioRuntime,
);

pub(crate) type LogId = openraft::type_config::alias::LogIdOf<TypeConfig>;
pub(crate) type Entry = openraft::type_config::alias::EntryOf<TypeConfig>;
pub(crate) type Vote = openraft::type_config::alias::VoteOf<TypeConfig>;
pub(crate) type StoredMembership = openraft::type_config::alias::StoredMembershipOf<TypeConfig>;

/// An encoded command: encoded once by the leader, then only copied until it is applied.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Payload(pub(crate) Bytes);

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesVisitor;

        impl de::Visitor<'_> for BytesVisitor {
            type Value = Payload;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an encoded command")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Payload, E> {
                Ok(Payload(Bytes::copy_from_slice(bytes)))
            }
        }

        deserializer.deserialize_bytes(BytesVisitor)
    }
}

/// What applying an entry gave: `None` for entries of Raft itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Applied {
    /// The entry's index.
    pub(crate) index: u64,
    /// What the command gave.
    pub(crate) outcome: Option<Outcome>,
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Applied({})", self.index)
    }
}

/// A member of the cluster, as the membership remembers it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Member {
    /// Where its peers find it.
    pub(crate) peer: String,
    /// Where its API listens.
    pub(crate) api: String,
    /// The random id of its data folder: a wiped node is another one.
    pub(crate) storage: String,
}
