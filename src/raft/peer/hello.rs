//! The handshake: which cluster, which life of it, which node, and which data folder.
//!
//! A node of another cluster, or of an earlier life of this one, is refused; so is a node whose folder was wiped, as
//! it may have forgotten votes and entries that it had acknowledged.
use ringfence_protocol::id::{ClusterId, Incarnation};
use serde::{Deserialize, Serialize};

/// The version of what nodes say to each other.
pub(crate) const PEER_VERSION: u16 = 1;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// Asking who is there, before there is a cluster.
    Probe,
    /// What Raft says: one question, one answer.
    Raft,
    /// What clients asked a follower for: many questions at once.
    Forward,
}

/// Which cluster, and which life of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Life {
    pub(crate) cluster: ClusterId,
    pub(crate) incarnation: Incarnation,
}

/// The first thing that is said on a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) version: u16,
    /// `cluster.name` of the configuration: keeps test and production apart before there is an id.
    pub(crate) name: String,
    /// `None` with [`Purpose::Probe`] only.
    pub(crate) life: Option<Life>,
    pub(crate) from: u64,
    pub(crate) from_storage: String,
    pub(crate) to: u64,
    /// Whom the membership expects there; `None` with [`Purpose::Probe`] only.
    pub(crate) to_storage: Option<String>,
    pub(crate) purpose: Purpose,
}

/// The answer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Greeting {
    /// Come in.
    Welcome(Welcome),
    /// Stay out.
    Refused(HelloRefusal),
}

/// Who is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Welcome {
    pub(crate) storage: String,
    pub(crate) api: String,
    pub(crate) life: Option<Life>,
}

/// Why a connection is refused, in words for whoever reads the log of the node that asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub(crate) enum HelloRefusal {
    #[error("the peer speaks version {theirs} of the peer protocol, this node {ours}: upgrade one of them")]
    Version { ours: u16, theirs: u16 },
    #[error("`cluster.name` is `{ours}` there and `{theirs}` here: one of the two configurations is wrong")]
    Name { ours: String, theirs: String },
    #[error("node {ours} listens there, not node {asked}: check `cluster.initial` and `peer.listen`")]
    Node { ours: u64, asked: u64 },
    #[error(
        "node {node} has another data folder than the one that joined: it was wiped or replaced. Remove it from \
             the cluster and add it under a new id"
    )]
    WipedThere { node: u64 },
    #[error(
        "node {node} knocks with another data folder than the one that joined: it was wiped or replaced. Remove \
             it from the cluster and add it under a new id"
    )]
    WipedHere { node: u64 },
    #[error(
        "the peer belongs to another cluster, or to another life of this one (a restore): it must not be mixed in"
    )]
    OtherLife,
    #[error("the peer has not joined a cluster yet")]
    NotJoined,
}

/// Who this node is, as far as the handshake goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Local {
    pub(crate) name: String,
    pub(crate) node: u64,
    pub(crate) storage: String,
    pub(crate) api: String,
    pub(crate) life: Option<Life>,
}

/// What becomes of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Come in.
    Enter(Welcome),
    /// Come in: this node has no cluster yet and joins the one that knows its folder by name.
    Join(Life, Welcome),
    /// Stay out.
    Refuse(HelloRefusal),
}

/// Judges a handshake; `known_storage` is what the membership says of the node that knocks.
pub(crate) fn admit(local: &Local, hello: &Hello, known_storage: Option<&str>) -> Admission {
    match check(local, hello, known_storage) {
        Err(refusal) => Admission::Refuse(refusal),
        Ok(joined) => {
            let welcome = Welcome {
                storage: local.storage.clone(),
                api: local.api.clone(),
                life: local.life.or(joined),
            };
            match joined {
                Some(life) => Admission::Join(life, welcome),
                None => Admission::Enter(welcome),
            }
        }
    }
}

/// `Ok(Some(_))`: this node joins that cluster.
fn check(local: &Local, hello: &Hello, known_storage: Option<&str>) -> Result<Option<Life>, HelloRefusal> {
    if hello.version != PEER_VERSION {
        return Err(HelloRefusal::Version { ours: PEER_VERSION, theirs: hello.version });
    }
    if hello.name != local.name {
        return Err(HelloRefusal::Name { ours: local.name.clone(), theirs: hello.name.clone() });
    }
    if hello.to != local.node {
        return Err(HelloRefusal::Node { ours: local.node, asked: hello.to });
    }
    if hello.purpose == Purpose::Probe {
        return Ok(None);
    }
    if hello.to_storage.as_ref() != Some(&local.storage) {
        return Err(HelloRefusal::WipedThere { node: local.node });
    }
    if known_storage.is_some_and(|storage| storage != hello.from_storage) {
        return Err(HelloRefusal::WipedHere { node: hello.from });
    }
    match (local.life, hello.life) {
        (_, None) => Err(HelloRefusal::NotJoined),
        // The folder's random id was named: only a cluster whose membership has it could know it.
        (None, Some(life)) => Ok(Some(life)),
        (Some(ours), Some(theirs)) if ours == theirs => Ok(None),
        (Some(_), Some(_)) => Err(HelloRefusal::OtherLife),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Life = Life { cluster: ClusterId::from_bits(1), incarnation: Incarnation::from_bits(2) };

    fn local() -> Local {
        Local { name: "a".into(), node: 2, storage: "s2".into(), api: "http://h:1".into(), life: Some(LIFE) }
    }

    fn hello() -> Hello {
        Hello {
            version: PEER_VERSION,
            name: "a".into(),
            life: Some(LIFE),
            from: 1,
            from_storage: "s1".into(),
            to: 2,
            to_storage: Some("s2".into()),
            purpose: Purpose::Raft,
        }
    }

    fn refusal(local: &Local, hello: &Hello) -> Option<HelloRefusal> {
        match admit(local, hello, Some("s1")) {
            Admission::Refuse(refusal) => Some(refusal),
            Admission::Enter(_) | Admission::Join(..) => None,
        }
    }

    #[test]
    fn a_member_of_this_life_enters() {
        assert!(matches!(admit(&local(), &hello(), Some("s1")), Admission::Enter(_)));
        assert!(matches!(admit(&local(), &hello(), None), Admission::Enter(_)));
    }

    #[test]
    fn another_cluster_or_an_earlier_life_is_refused() {
        let other = Life { cluster: ClusterId::from_bits(9), ..LIFE };
        let earlier = Life { incarnation: Incarnation::from_bits(1), ..LIFE };
        for life in [other, earlier] {
            assert_eq!(
                refusal(&local(), &Hello { life: Some(life), ..hello() }),
                Some(HelloRefusal::OtherLife)
            );
        }
        assert_eq!(refusal(&local(), &Hello { life: None, ..hello() }), Some(HelloRefusal::NotJoined));
        assert!(refusal(&local(), &Hello { name: "b".into(), ..hello() }).is_some());
        assert!(refusal(&local(), &Hello { to: 3, ..hello() }).is_some());
        assert!(refusal(&local(), &Hello { version: 2, ..hello() }).is_some());
    }

    #[test]
    fn a_wiped_folder_is_refused_on_either_side() {
        let knocks = Hello { from_storage: "fresh".into(), ..hello() };
        assert_eq!(refusal(&local(), &knocks), Some(HelloRefusal::WipedHere { node: 1 }));
        let fresh = Local { storage: "fresh".into(), life: None, ..local() };
        assert_eq!(refusal(&fresh, &hello()), Some(HelloRefusal::WipedThere { node: 2 }));
    }

    #[test]
    fn an_empty_node_joins_only_who_names_its_folder() {
        let empty = Local { life: None, ..local() };
        assert!(matches!(admit(&empty, &hello(), None), Admission::Join(LIFE, _)));
        let probe = Hello { life: None, to_storage: None, purpose: Purpose::Probe, ..hello() };
        assert!(matches!(admit(&empty, &probe, None), Admission::Enter(Welcome { life: None, .. })));
    }
}
