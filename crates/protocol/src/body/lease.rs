//! Leases: what a run may write, and until when.
use crate::{Action, Fence, LeaseId, Mode, Reason, RunId, Scope, Timestamp, problem::EndReason};
use alloc::{boxed::Box, string::String, vec::Vec};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The most entries of a write set.
pub const MAX_WRITE_SET: usize = 256;
/// The most actions that one entry names.
pub const MAX_ACTIONS: usize = 32;

/// Which actions a grant allows on a scope: any, or a list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Actions(Option<Box<[Action]>>);

impl Actions {
    /// Any action.
    pub const ANY: Self = Self(None);

    /// These actions, sorted; `None` for an empty or overlong list and for `*` beside others.
    #[must_use]
    pub fn new(mut actions: Vec<Action>) -> Option<Self> {
        if actions.is_empty() || actions.len() > MAX_ACTIONS {
            return None;
        }
        if actions.iter().any(Action::is_any) {
            return (actions.len() == 1).then_some(Self::ANY);
        }
        actions.sort();
        actions.dedup();
        Some(Self(Some(actions.into())))
    }

    /// Whether the action is allowed.
    #[must_use]
    pub fn allows(&self, action: &Action) -> bool {
        self.0.as_ref().is_none_or(|actions| actions.contains(action))
    }

    /// The list; `None` for any.
    #[must_use]
    pub fn list(&self) -> Option<&[Action]> {
        self.0.as_deref()
    }
}

impl Serialize for Actions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(actions) => actions.serialize(serializer),
            None => ["*"].as_slice().serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Actions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let actions = Vec::deserialize(deserializer)?;
        Self::new(actions)
            .ok_or_else(|| de::Error::custom("name 1 to 32 actions, or `*` alone for any; absent means any"))
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Actions {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::schema::ArrayBuilder;
        ArrayBuilder::new()
            .items(Action::schema())
            .min_items(Some(1))
            .max_items(Some(MAX_ACTIONS))
            .description(Some("Which actions the grant allows here; absent or `[\"*\"]`: any."))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Actions {}

/// One entry of a write set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WriteSetEntry {
    /// What it is about.
    pub scope: Scope,
    /// How it is used.
    pub mode: Mode,
    /// Which actions the grant allows there; absent: any.
    #[serde(default)]
    pub actions: Actions,
}

/// `POST /v1/leases`.
///
/// `wait_ms`, `max_hold_ms`, `stall_ms` and `lock_delay_ms` are taken where they ask for nothing (0 or `null`);
/// anything else is refused with `invalid_field` by a node that can't do it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AcquireLease {
    /// The run that will hold it; a run's own credential may leave it out.
    #[serde(default)]
    pub run: Option<RunId>,
    /// 1 to 256 entries that do not overlap: granted all or none.
    pub write_set: Vec<WriteSetEntry>,
    /// How long it lives without a renewal: 1,000 to 3,600,000 ms; absent: 10,000.
    #[serde(default)]
    pub ttl_ms: Option<u64>,
    /// How long to wait for it: only 0 for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// When renewals stop helping: only `null` for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hold_ms: Option<u64>,
    /// How long it lives without progress: only `null` for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_ms: Option<u64>,
    /// How long nobody else gets it after an unclean end: only 0 for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_delay_ms: Option<u64>,
    /// What it is for, for those who meet it.
    #[serde(default)]
    pub purpose: Option<Reason>,
}

/// `POST /v1/leases/{lease}/renew`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RenewLease {
    /// How far the work is: only `null` for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<u64>,
}

/// What has become of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LeaseState {
    /// It is held.
    Held,
    /// It is over; `reason` says why.
    Ended,
}

impl LeaseState {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Ended => "ended",
        }
    }
}

impl core::fmt::Display for LeaseState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.as_str())
    }
}

impl core::str::FromStr for LeaseState {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Held, Self::Ended]
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or("expected held or ended")
    }
}

/// Who held an overlapping scope last and did not release it cleanly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Previous {
    /// The scope that was held.
    pub scope: Scope,
    /// The lease that is over.
    pub lease: LeaseId,
    /// The run that held it.
    pub run: RunId,
    /// Why it is over.
    pub ended: EndReason,
}

/// A lease, as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Lease {
    /// Its id.
    pub id: LeaseId,
    /// The run that holds it.
    pub run: RunId,
    /// What has become of it.
    pub state: LeaseState,
    /// Why it is over.
    pub reason: Option<EndReason>,
    /// Its fence: one for the whole write set.
    pub fence: Fence,
    /// The fence that its end took, unless it was released cleanly.
    pub end_fence: Option<Fence>,
    /// What it is about.
    pub write_set: Vec<WriteSetEntry>,
    /// How long it lives without a renewal.
    pub ttl_ms: u64,
    /// How long it was waited for.
    pub waited_ms: u64,
    /// How long it still lives, at the moment of answering; counts from when the request was *sent*.
    pub expires_in_ms: u64,
    /// When that is, as far as wall clocks tell.
    pub expires_at: Timestamp,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// What it is for.
    pub purpose: Option<Reason>,
    /// The signed grant, in the answers to its holder.
    pub grant: Option<String>,
    /// Who held overlapping scopes last and did not release them cleanly, in the answer that grants it.
    pub previous: Vec<Previous>,
}

/// One reason why a write set can't be granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Conflict {
    /// The scope that was asked for.
    pub scope: Scope,
    /// The mode that was asked for.
    pub mode: Mode,
    /// The scope that is held.
    pub held_scope: Scope,
    /// The mode it is held in.
    pub held_mode: Mode,
    /// The lease that holds it.
    pub lease: LeaseId,
    /// The run that holds it.
    pub run: RunId,
    /// Its fence.
    pub fence: Fence,
    /// What it is for.
    pub purpose: Option<Reason>,
    /// When it was granted.
    pub held_since: Timestamp,
    /// How long it lives if it isn't renewed.
    pub expires_in_ms: u64,
}
