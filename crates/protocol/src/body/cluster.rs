//! The cluster's own state.
use crate::id::{ClusterId, Incarnation};
use alloc::{string::String, vec::Vec};
use serde::{Deserialize, Serialize};

/// What a node is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// It leads.
    Leader,
    /// It follows.
    Follower,
    /// It learns and does not vote.
    Learner,
    /// The node that answers can't tell: it is not the leader, or has not heard of it.
    Unknown,
    /// The leader has not heard of it for longer than an election.
    Unreachable,
}

/// One member of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NodeStatus {
    /// Its number.
    pub id: u64,
    /// Where its API listens.
    pub api: String,
    /// Where its peers find it.
    pub peer: String,
    /// What it is doing.
    pub state: NodeState,
    /// Whether it votes.
    pub voter: bool,
    /// How many log entries it is behind, where the node that answers knows.
    pub lag: Option<u64>,
}

/// `GET /v1/cluster`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClusterStatus {
    /// The cluster's id: `iss` of its grants.
    pub cluster: ClusterId,
    /// Its present life: `inc` of its grants.
    pub incarnation: Incarnation,
    /// The most that one change of leader adds to a lease.
    pub grace_ms: u64,
    /// Its members.
    pub nodes: Vec<NodeStatus>,
    /// Who leads; `null`: nobody, as far as this node knows.
    pub leader: Option<u64>,
    /// The term of Raft.
    pub term: u64,
    /// The revision that this was answered at.
    pub revision: String,
}
