//! What can change the state: checked requests, stamped by the leader that proposes them.
use alloc::{collections::BTreeMap, string::String, vec::Vec};
use ringfence_protocol::{
    LeaseId, Name, Reason, Role, RunId, Scope, Tenant, Timestamp, TokenId,
    body::{Authority, WriteSetEntry},
    id::{ClusterId, Incarnation},
    name::LabelKey,
};
use serde::{Deserialize, Serialize};

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// The log's own time in milliseconds, from the proposing leader; the state keeps the greatest.
    pub log_ms: u64,
    /// Wall time, for records and answers only.
    pub wall: Timestamp,
    /// What to do.
    pub request: Request,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Nothing but time: ends what is due.
    Tick,
    /// The first command of a cluster's life.
    Genesis(Genesis),
    /// What somebody asked for.
    Client(ClientRequest),
}

/// How a cluster begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Genesis {
    /// Its id for its whole life, restores included.
    pub cluster: ClusterId,
    /// This life.
    pub incarnation: Incarnation,
    /// The most that one change of leader adds to a lease.
    pub grace_ms: u64,
}

/// A request of somebody with a credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRequest {
    /// Whose credential it came with; judged against the state when it is applied.
    pub actor: Actor,
    /// What makes it repeatable.
    pub key: Option<RequestKey>,
    /// What was asked for.
    pub operation: Operation,
}

/// Whose credential a request came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Actor {
    /// The operator's token, which is not replicated: the node that took the request has checked it.
    Operator,
    /// A role token.
    Token(TokenId),
    /// A run's own credential, its signature and incarnation checked by the node that took the request.
    Run(RunId),
}

/// An `Idempotency-Key` and what it was used for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestKey {
    /// The key; its owner follows from actor and operation.
    pub key: String,
    /// SHA-256 over method, path and checked command; the same key with another one is refused.
    pub fingerprint: [u8; 32],
}

/// What was asked for. Ids are drawn by the node that took the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Begin a run.
    CreateRun {
        /// Its id.
        id: RunId,
        /// What it is called.
        name: Reason,
        /// Its labels.
        labels: BTreeMap<LabelKey, Reason>,
        /// The outer bound of all that it may ever lease.
        allow: Option<Vec<Scope>>,
        /// What its grants are good for.
        authority: Authority,
        /// How long it may live.
        lifetime_ms: u64,
    },
    /// End a run, and its leases with it.
    EndRun {
        /// Which.
        run: RunId,
        /// Whether its credential is taken back rather than given back.
        revoke: bool,
        /// Why.
        reason: Reason,
    },
    /// Grant a write set: all of it or nothing.
    Acquire {
        /// The id that the lease will have.
        id: LeaseId,
        /// The run that will hold it; `None`: the actor itself.
        run: Option<RunId>,
        /// What it is about.
        write_set: Vec<WriteSetEntry>,
        /// How long it lives without a renewal.
        ttl_ms: u64,
        /// What it is for.
        purpose: Option<Reason>,
    },
    /// Prolong a lease. Never creates one.
    Renew {
        /// Which.
        lease: LeaseId,
    },
    /// Give a lease back. Never touches a successor.
    Release {
        /// Which.
        lease: LeaseId,
    },
    /// Make a secret of a principal.
    CreateToken {
        /// Its id.
        id: TokenId,
        /// The tenant; `None`: the actor's own.
        tenant: Option<Tenant>,
        /// What its holder may do.
        role: Role,
        /// The principal's name.
        name: Name,
        /// SHA-256 of the secret; the secret itself is never in the log.
        secret_hash: [u8; 32],
    },
    /// Take a secret back.
    RevokeToken {
        /// Which.
        id: TokenId,
    },
}
