//! The bodies on the wire, declared once for server, client and tests.
//!
//! What a caller sends refuses unknown fields; what a node answers may grow, so its readers ignore what they
//! don't know. No answer leaves a member out where it has no value: it says `null`.
mod cluster;
mod lease;
mod resource;
mod run;
#[cfg(feature = "openapi")]
pub mod schema;
mod token;
mod verify;

pub use cluster::{ClusterStatus, NodeState, NodeStatus};
pub use lease::{
    AcquireLease, Actions, Conflict, Lease, LeaseState, MAX_ACTIONS, MAX_WRITE_SET, Previous, RenewLease,
    WriteSetEntry,
};
pub use resource::{Holder, Resource, Waiter};
pub use run::{Authority, CreateRun, EndRun, MAX_LABELS, Run, RunState};
pub use token::{CreateToken, Token};
pub use verify::{Verdict, Verify};

use alloc::{string::String, vec::Vec};
use serde::{Deserialize, Serialize};

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// What is on this page.
    pub items: Vec<T>,
    /// Where the next page begins; `null` on the last one.
    pub next_cursor: Option<String>,
}

/// The most items of a page.
pub const MAX_PAGE: usize = 1000;
/// The items of a page where the caller doesn't say.
pub const DEFAULT_PAGE: usize = 100;
