//! Runs: who acts.
use crate::{Principal, Reason, RunId, Scope, Tenant, Timestamp, body::Lease, name::LabelKey};
use alloc::{collections::BTreeMap, string::String, vec::Vec};
use serde::{Deserialize, Serialize};

/// The most labels of a run.
pub const MAX_LABELS: usize = 32;

/// What a run's grants are good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Authority {
    /// Its grants serve writes.
    #[default]
    Write,
    /// Its write set could not be described: its grants are refused for writes.
    Propose,
}

/// `POST /v1/runs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateRun {
    /// What to call it.
    pub name: Reason,
    /// At most 32 labels for people and searches.
    #[serde(default)]
    pub labels: BTreeMap<LabelKey, Reason>,
    /// The outer bound of all that this run may ever lease; absent: no bound but policy.
    #[serde(default)]
    pub allow: Option<Vec<Scope>>,
    /// What its grants are good for.
    #[serde(default)]
    pub authority: Authority,
    /// How long it may live, 1,000 to 2,592,000,000 ms (30 days); absent: one hour.
    #[serde(default)]
    pub lifetime_ms: Option<u64>,
}

/// `POST /v1/runs/{run}/end` and `…/revoke`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EndRun {
    /// Why.
    pub reason: Reason,
}

/// What has become of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It may act.
    Active,
    /// It was ended.
    Ended,
    /// It was revoked.
    Revoked,
    /// Its lifetime ran out.
    Expired,
}

impl RunState {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Ended => "ended",
            Self::Revoked => "revoked",
            Self::Expired => "expired",
        }
    }
}

impl core::fmt::Display for RunState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.as_str())
    }
}

impl core::str::FromStr for RunState {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Active, Self::Ended, Self::Revoked, Self::Expired]
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or("expected active, ended, revoked or expired")
    }
}

/// A run, as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The tenant that it belongs to.
    pub tenant: Tenant,
    /// What it is called.
    pub name: Reason,
    /// Its labels.
    pub labels: BTreeMap<LabelKey, Reason>,
    /// The outer bound of all that it may ever lease; `null`: no bound but policy.
    pub allow: Option<Vec<Scope>>,
    /// What its grants are good for.
    pub authority: Authority,
    /// What has become of it.
    pub state: RunState,
    /// Who created it.
    pub created_by: Principal,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its lifetime runs out, as far as wall clocks tell.
    pub expires_at: Timestamp,
    /// How long it still lives, at the moment of answering.
    pub expires_in_ms: u64,
    /// Why it was ended or revoked.
    pub reason: Option<Reason>,
    /// Its live leases, where one run was asked for.
    pub leases: Option<Vec<Lease>>,
    /// Its credential, in the answer that creates it.
    pub token: Option<String>,
}
