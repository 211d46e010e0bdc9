//! Asking the cluster about a grant.
use crate::{Action, Fence, LeaseId, Mode, ResourceId, RunId};
use alloc::string::String;
use serde::{Deserialize, Serialize};

/// `POST /v1/verify`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// The grant as it came in `Ringfence-Grant`.
    pub grant: String,
    /// What is to be written.
    pub resource: ResourceId,
    /// What is to be done to it.
    pub action: Action,
}

/// The grant is good at this moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Verdict {
    /// Always `true`: a refusal is a problem.
    pub allowed: bool,
    /// The run that holds the lease.
    pub run: RunId,
    /// The lease.
    pub lease: LeaseId,
    /// Its fence.
    pub fence: Fence,
    /// The mode of the entry that covers the resource.
    pub mode: Mode,
    /// How long the lease lives if it isn't renewed.
    pub expires_in_ms: u64,
}
