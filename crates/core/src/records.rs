//! What is remembered of each thing.
use crate::index::ScopeIndex;
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use ringfence_protocol::{
    Fence, LeaseId, Name, Principal, Reason, Role, RunId, Scope, Tenant, Timestamp, TokenId,
    body::{Authority, RunState, WriteSetEntry},
    name::LabelKey,
    problem::EndReason,
};
use serde::{Deserialize, Serialize};

/// A world of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TenantRecord {
    pub(crate) index: ScopeIndex,
    pub(crate) runs: BTreeSet<RunId>,
    pub(crate) leases: BTreeSet<LeaseId>,
    pub(crate) tokens: BTreeSet<TokenId>,
    pub(crate) active_runs: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub(crate) tenant: Tenant,
    pub(crate) name: Reason,
    pub(crate) labels: BTreeMap<LabelKey, Reason>,
    pub(crate) allow: Option<Box<[Scope]>>,
    pub(crate) authority: Authority,
    pub(crate) created_by: Principal,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) deadline_ms: u64,
    pub(crate) state: RunState,
    pub(crate) reason: Option<Reason>,
    /// Its live leases.
    pub(crate) leases: BTreeSet<LeaseId>,
    /// Its leases that are over and still remembered.
    pub(crate) ended: BTreeSet<LeaseId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaseRecord {
    pub(crate) tenant: Tenant,
    pub(crate) run: RunId,
    pub(crate) fence: Fence,
    /// Shared with the snapshots that are being written.
    pub(crate) write_set: Arc<[WriteSetEntry]>,
    pub(crate) ttl_ms: u64,
    pub(crate) deadline_ms: u64,
    pub(crate) granted_at: Timestamp,
    pub(crate) purpose: Option<Reason>,
    pub(crate) end: Option<End>,
    /// The request record that goes with it.
    pub(crate) key: Option<Arc<KeyId>>,
}

/// How a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) reason: EndReason,
    /// The number that an unclean end took.
    pub(crate) fence: Option<Fence>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenRecord {
    pub(crate) tenant: Tenant,
    pub(crate) role: Role,
    pub(crate) name: Name,
    pub(crate) created_at: Timestamp,
    pub(crate) secret_hash: [u8; 32],
    pub(crate) revoked: bool,
}

/// Whose an `Idempotency-Key` is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Owner {
    Run(RunId),
    Principal(Tenant, Principal),
    Operator,
}

/// A key and its owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct KeyId {
    pub(crate) owner: Owner,
    pub(crate) key: Arc<str>,
}

/// What a key was used for, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RequestRecord {
    pub(crate) fingerprint: [u8; 32],
    pub(crate) made: Made,
}

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Made {
    Run(RunId),
    Lease(LeaseId),
    /// The lease is over and not remembered any more.
    LeaseOver(LeaseId, EndReason),
    Token(TokenId),
}

/// What is due at a log time. Runs end before leases at the same instant, so that a lease which its run cut short says
/// so.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Due {
    EndRun(RunId),
    EndLease(LeaseId),
    ForgetToken(TokenId),
    ForgetKey(Arc<KeyId>),
}
