//! Who holds a resource.
use crate::{Fence, LeaseId, Mode, Reason, ResourceId, RunId, Scope, body::Actions};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// `GET /v1/resources/{resource}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Resource {
    /// The resource that was asked for.
    pub resource: ResourceId,
    /// The greatest fence, ends included, that the cluster still remembers for scopes that cover it; `null`: none.
    pub highest_fence: Option<Fence>,
    /// Who holds a scope that covers it.
    pub holders: Vec<Holder>,
    /// Who waits for one.
    pub waiting: Vec<Waiter>,
}

/// One entry of a live lease that covers a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Holder {
    /// The lease.
    pub lease: LeaseId,
    /// The run that holds it.
    pub run: RunId,
    /// Its fence.
    pub fence: Fence,
    /// The scope in its write set that covers the resource.
    pub scope: Scope,
    /// The mode of that entry.
    pub mode: Mode,
    /// The actions of that entry.
    pub actions: Actions,
    /// What the lease is for.
    pub purpose: Option<Reason>,
    /// How long it lives if it isn't renewed.
    pub expires_in_ms: u64,
}

/// One entry of a waiting lease that covers a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Waiter {
    /// The lease that waits.
    pub lease: LeaseId,
    /// The run that waits.
    pub run: RunId,
    /// The scope in its write set that covers the resource.
    pub scope: Scope,
    /// The mode of that entry.
    pub mode: Mode,
    /// Its place, from 1.
    pub position: u64,
}
