//! What a command gives back: an answer or a refusal, and the events that it caused, in order.
use alloc::{boxed::Box, string::String, vec::Vec};
use ringfence_protocol::{
    Action, Fence, LeaseId, Principal, ResourceId, RunId, Scope, Tenant,
    body::{Authority, Conflict, Lease, Run, RunState, Token},
    problem::EndReason,
};
use serde::{Deserialize, Serialize};

/// What a command gives back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The answer to whoever asked.
    pub reply: Result<Done, Refusal>,
    /// What it caused, in order: ends that were due first.
    pub events: Vec<Event>,
}

/// An accepted request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// What came of it.
    pub reply: Reply,
    /// Whether it was done by an earlier request with the same key.
    pub replayed: bool,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Nothing to say.
    Nothing,
    /// The run, as it is now.
    Run(Box<Run>),
    /// The lease, as it is now, and what its grant needs beside it.
    Lease(Box<Granted>),
    /// The token, without its secret.
    Token(Box<Token>),
}

/// A lease and what its signed grant says beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// The lease, its `grant` still empty.
    pub lease: Lease,
    /// The tenant.
    pub tenant: Tenant,
    /// The principal of its run.
    pub principal: Principal,
    /// What its run's grants are good for.
    pub authority: Authority,
}

/// Something that happened, in the order of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A lease was granted.
    Granted {
        /// The tenant.
        tenant: Tenant,
        /// The lease.
        lease: LeaseId,
        /// Its run.
        run: RunId,
        /// Its fence.
        fence: Fence,
    },
    /// A lease is over.
    Ended {
        /// The tenant.
        tenant: Tenant,
        /// The lease.
        lease: LeaseId,
        /// Its run.
        run: RunId,
        /// Its fence.
        fence: Fence,
        /// Why.
        reason: EndReason,
        /// The fence that the end took, unless it was a clean release.
        end_fence: Option<Fence>,
    },
    /// A run is over.
    RunOver {
        /// The tenant.
        tenant: Tenant,
        /// The run.
        run: RunId,
        /// How: its state now.
        state: RunState,
    },
}

/// Why a request was refused. A refused request has changed nothing (but time, which moves with every entry).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// There is no state yet: the cluster's first command has not been applied.
    NotReady,
    /// The cluster has begun already.
    AlreadyBegun,
    /// No such token or run.
    Unauthenticated,
    /// The run's lifetime is over.
    CredentialExpired,
    /// The token or run was revoked.
    CredentialRevoked,
    /// The caller may not do this; says why.
    Forbidden(String),
    /// The run itself is over.
    RunEnded(RunId),
    /// Nothing here, or nothing that the caller's tenant has.
    NotFound(Thing),
    /// It is in a state that does not allow this; says which.
    InvalidTransition(String),
    /// A field can't be taken.
    InvalidField {
        /// Its path.
        field: String,
        /// What is wrong.
        detail: String,
    },
    /// The scope takes in too much.
    ScopeTooBroad(Scope),
    /// The scope is beyond the run's `allow`.
    OutsideAllowance(Scope),
    /// Others hold part of the write set.
    Conflict {
        /// Who holds what, at most [`MAX_CONFLICTS`].
        conflicts: Vec<Conflict>,
        /// Whether there are more.
        truncated: bool,
    },
    /// The run itself holds an overlapping lease.
    AlreadyHeld {
        /// That lease.
        lease: LeaseId,
        /// Its scope that overlaps.
        scope: Scope,
    },
    /// The lease is over.
    LeaseEnded {
        /// Which.
        lease: LeaseId,
        /// Why.
        reason: EndReason,
    },
    /// The key was used for another command.
    FingerprintConflict,
    /// The id that was drawn is taken: the same command came twice, or two nodes drew alike.
    IdTaken,
    /// A limit is reached; says which.
    LimitExceeded(String),
    /// The table of request records, which empties with time, is full.
    RequestRecordsFull,
    /// The grant is of another life of the cluster, or a newer one exists.
    StaleFence {
        /// The fence that was sent.
        fence: Fence,
        /// The lease's own, where it is known.
        current: Option<Fence>,
    },
    /// The lease does not cover the resource.
    OutOfScope(ResourceId),
    /// The lease does not allow the action, or nothing may be written under it.
    ActionNotPermitted {
        /// What was to be written.
        resource: ResourceId,
        /// What was to be done to it.
        action: Action,
    },
}

/// A kind of thing that can be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Thing {
    /// A run.
    Run,
    /// A lease.
    Lease,
    /// A token.
    Token,
}

/// The most conflicts that one refusal lists.
pub const MAX_CONFLICTS: usize = 100;
