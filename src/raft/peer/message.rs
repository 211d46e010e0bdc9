//! What nodes say to each other.
use crate::raft::{
    ReadPoint, Unavailable,
    types::{Applied, LogId, StoredMembership, TypeConfig, Vote},
};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use ringfence_core::command::ClientRequest;
use serde::{Deserialize, Serialize};

/// What Raft asks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum RaftCall {
    Append(AppendEntriesRequest<TypeConfig>),
    Vote(VoteRequest<TypeConfig>),
    PreVote(VoteRequest<TypeConfig>),
    TransferLeader(TransferLeaderRequest<TypeConfig>),
    /// A part of a snapshot, in order.
    SnapshotPart(Vec<u8>),
    /// The snapshot is complete: put it in place.
    SnapshotEnd {
        vote: Vote,
        last_log_id: Option<LogId>,
        membership: StoredMembership,
    },
}

/// What Raft answers; `Failed` where this node's Raft has stopped.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum RaftAnswer {
    Append(AppendEntriesResponse<TypeConfig>),
    Vote(VoteResponse<TypeConfig>),
    TransferLeader(TransferLeaderResponse<TypeConfig>),
    PartTaken,
    Snapshot(SnapshotResponse<TypeConfig>),
    Failed(String),
}

/// What a follower asks the leader for on behalf of a client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ForwardCall {
    Propose(Box<ClientRequest>),
    ReadPoint,
}

/// What the leader answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ForwardAnswer {
    Proposed(Box<Result<Applied, Unavailable>>),
    ReadPoint(Result<ReadPoint, Unavailable>),
}

/// A message on a shared connection: answers name the question.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Numbered<T> {
    pub(crate) id: u64,
    pub(crate) body: T,
}
