//! What this node does for its peers.
use super::{
    peer::{
        hello::{self, Admission, Hello, Local},
        message::{ForwardAnswer, ForwardCall, RaftAnswer, RaftCall},
        server::PeerService,
    },
    proposals::Proposals,
    reads::Reads,
    shared::Shared,
    types::TypeConfig,
};
use crate::storage::identity::Identity;
use bytes::Bytes;
use openraft::type_config::alias::{SnapshotMetaOf, SnapshotOf};
use ringfence_core::command::Request;
use std::{fmt::Display, io, path::PathBuf, sync::Arc};

/// Answers peers from this node's Raft.
pub(super) struct Service {
    pub(super) shared: Arc<Shared>,
    pub(super) proposals: Proposals,
    pub(super) reads: Reads,
    pub(super) data_dir: PathBuf,
}

fn answer<T, E: Display>(result: Result<T, E>, wrap: impl FnOnce(T) -> RaftAnswer) -> RaftAnswer {
    result.map_or_else(|error| RaftAnswer::Failed(error.to_string()), wrap)
}

impl PeerService for Service {
    async fn admit(&self, hello: &Hello) -> io::Result<Admission> {
        let local = self.shared.myself.get();
        let known = self.shared.storage_of(hello.from);
        let admission = hello::admit(&local, hello, known.as_deref());
        if let Admission::Join(life, _) = &admission {
            let joined = Local { life: Some(*life), ..local };
            save_identity(&self.data_dir, &joined).await?;
            tracing::info!(cluster = %life.cluster, incarnation = %life.incarnation, "joined a cluster");
            self.shared.myself.set(joined);
        }
        Ok(admission)
    }

    async fn raft(&self, call: RaftCall, parts: &mut Vec<u8>) -> RaftAnswer {
        let raft = &self.shared.raft;
        match call {
            RaftCall::Append(rpc) => answer(raft.append_entries(rpc).await, RaftAnswer::Append),
            RaftCall::Vote(rpc) => answer(raft.vote(rpc).await, RaftAnswer::Vote),
            RaftCall::PreVote(rpc) => answer(raft.pre_vote(rpc).await, RaftAnswer::Vote),
            RaftCall::TransferLeader(rpc) => {
                answer(raft.handle_transfer_leader(rpc).await, RaftAnswer::TransferLeader)
            }
            RaftCall::SnapshotPart(part) => {
                parts.extend_from_slice(&part);
                RaftAnswer::PartTaken
            }
            RaftCall::SnapshotEnd { vote, last_log_id, membership } => {
                let snapshot = SnapshotOf::<TypeConfig, Bytes> {
                    meta: SnapshotMetaOf::<TypeConfig> { last_log_id, last_membership: membership },
                    snapshot: Bytes::from(std::mem::take(parts)),
                };
                answer(raft.install_full_snapshot(vote, snapshot).await, RaftAnswer::Snapshot)
            }
        }
    }

    async fn forward(&self, call: ForwardCall) -> ForwardAnswer {
        match call {
            // Never forwarded again: a node that does not lead says so.
            ForwardCall::Propose(request) => {
                ForwardAnswer::Proposed(Box::new(self.proposals.propose(Request::Client(*request)).await))
            }
            ForwardCall::ReadPoint => ForwardAnswer::ReadPoint(self.reads.confirm().await),
        }
    }
}

/// Writes who this node is, durably, off the raft thread.
pub(super) async fn save_identity(data_dir: &std::path::Path, local: &Local) -> io::Result<()> {
    let identity = Identity {
        cluster_id: local.life.map(|life| life.cluster.to_string()),
        incarnation: local.life.map(|life| life.incarnation.to_string()),
        node_id: local.node,
        storage_id: local.storage.clone(),
        log_started: true,
    };
    let folder = data_dir.to_owned();
    let save = move || identity.save(&folder).map_err(io::Error::other);
    tokio::task::spawn_blocking(save).await.map_err(io::Error::other)?
}
