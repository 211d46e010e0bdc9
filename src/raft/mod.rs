//! Consensus: what is proposed here is applied on every node in one order, or not at all.
//!
//! The only module that knows openraft. To the rest of the node it is a [`Consensus`]: [`Consensus::propose`] puts a
//! request into the log and gives back what applying it gave; [`Consensus::read_point`] waits until this node's state
//! is at least as new as everything acknowledged before; [`Consensus::read`] reads that state.
//!
//! In reading order: `types`, `log_clock` (log time), `log_store`, `replica` (the state), `peer` (the wire),
//! `network`, `proposals` (batching), `reads` (the read barrier), `ticks`, `service` (what peers ask for),
//! `bootstrap`, `config` and `open`, `shared`, `consensus`.
//!
//! *Invariant:* no type of openraft leaves this module. *Invariant:* reads are confirmed by a round of heartbeats
//! (ReadIndex), never by a clock.
mod bootstrap;
mod config;
mod consensus;
mod log_clock;
mod log_store;
mod network;
mod open;
mod peer;
mod proposals;
mod reads;
mod replica;
mod service;
mod shared;
#[cfg(test)]
mod suite_tests;
mod ticks;
mod types;

pub use bootstrap::BootstrapError;
pub use config::ConsensusConfig;
pub use consensus::{Consensus, MemberStatus, Status};
pub use open::StartError;

use serde::{Deserialize, Serialize};

/// Why a request got no outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Unavailable {
    /// Nobody leads, or nobody that this node can reach. It was not applied and will not be.
    #[error("the cluster has no leader that this node can reach")]
    NoLeader,
    /// The bounded queue before the log is full. It was not applied and will not be.
    #[error("the queue in front of the log is full")]
    Overloaded,
    /// The disk is nearly full. It was not applied and will not be.
    #[error("the disk of the node that leads is nearly full")]
    StorageFull,
    /// The node is stopping. It was not applied and will not be.
    #[error("the node is stopping")]
    ShuttingDown,
    /// It may have been applied, or may still be.
    #[error("the node lost its place before it knew the outcome")]
    Uncertain,
}

/// A moment at which everything acknowledged before is in this node's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadPoint {
    /// The index that has been applied at least.
    pub index: u64,
    /// The leader's log time: no lease that ends later than this is over.
    pub log_ms: u64,
}
