//! Why the guard refuses, and what the caller is told.
use crate::precondition::VersionLack;
use ringfence_protocol::{
    Action, ErrorCode, Fence, LeaseId, Mode, Problem, ResourceId, Scope, jws::JwsError,
};
use std::fmt;

/// One refusal: why, and of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// The resource that was to be written, where the request got that far.
    pub resource: Option<ResourceId>,
}

/// Why a request is refused, in the order in which the guard looks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The grant is none that this service can believe.
    #[error("the grant is not accepted: {0}")]
    Unauthenticated(Unauthenticated),
    /// A write that lacks a grant, a version or both.
    #[error("{0}")]
    PreconditionRequired(Lack),
    /// A precondition header that can't be read.
    #[error("`{header}` {rule}")]
    InvalidPrecondition {
        /// The header.
        header: &'static str,
        /// What it has to be.
        rule: &'static str,
    },
    /// No entry of the grant covers the resource.
    #[error("no scope of the grant covers this resource")]
    OutOfScope,
    /// The entry that covers the resource does not allow the action, or nothing may be written under it.
    #[error("the grant does not allow `{action}` here")]
    ActionNotPermitted {
        /// The action that was asked for.
        action: Action,
    },
    /// The store has seen a newer grant that does not go together with this one.
    #[error("the grant has fence {fence}, but {newer}")]
    StaleFence {
        /// The fence of the grant that was sent.
        fence: Fence,
        /// What is newer.
        newer: Newer,
    },
    /// The grant has run out by the wall clock.
    #[error("the grant of {lease} has run out")]
    GrantExpired {
        /// The lease whose grant it is.
        lease: LeaseId,
    },
    /// The resource is at another version than the request expected.
    #[error("the resource {}", Moved(.expected, .current))]
    StaleVersion {
        /// What the request expected, as it was sent; `None`: that there is nothing.
        expected: Option<String>,
        /// The tag of what is there; `None`: there is nothing.
        current: Option<String>,
    },
}

/// Why a grant is none that this service can believe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unauthenticated {
    /// It isn't signed as a grant by a key of the cluster.
    #[error(transparent)]
    Signature(#[from] JwsError),
    /// It is a grant of another cluster.
    #[error("it is a grant of another cluster")]
    OtherCluster,
    /// It is a grant of another tenant.
    #[error("it is a grant of another tenant")]
    OtherTenant,
    /// The header is there more than once, or is no text.
    #[error("send one grant, as it was given")]
    Header,
}

/// What a write lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lack {
    /// Whether there is no grant.
    pub grant: bool,
    /// Why there is no version, where there is none.
    pub version: Option<VersionLack>,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.grant, self.version) {
            (true, Some(version)) => write!(f, "{MISSING_GRANT}; {version}"),
            (true, None) => f.write_str(MISSING_GRANT),
            (false, Some(version)) => version.fmt(f),
            (false, None) => f.write_str("nothing is missing"),
        }
    }
}

const MISSING_GRANT: &str = "the grant is missing: acquire a lease and send its grant in `Ringfence-Grant`";

/// What is newer than a stale grant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Newer {
    /// An incompatible grant that overlaps one of its scopes.
    #[error("fence {fence} ({mode}) has been seen for what `{scope}` overlaps")]
    Grant {
        /// The scope of the stale grant.
        scope: Scope,
        /// The mode of the newer grant.
        mode: Mode,
        /// The fence of the newer grant.
        fence: Fence,
    },
    /// A later life of the cluster: all leases of an earlier one are over.
    #[error("the cluster was restored since, and fence {fence} is of its present life")]
    Life {
        /// A fence of the present life.
        fence: Fence,
    },
}

impl Newer {
    /// Its fence: greater than the one that was sent.
    #[must_use]
    pub const fn fence(&self) -> Fence {
        match self {
            Self::Grant { fence, .. } | Self::Life { fence } => *fence,
        }
    }
}

struct Moved<'a>(&'a Option<String>, &'a Option<String>);

impl fmt::Display for Moved<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (Some(expected), Some(current)) => {
                write!(f, "is at {current}, the request expected {expected}")
            }
            (Some(expected), None) => write!(f, "does not exist, the request expected {expected}"),
            (None, Some(current)) => write!(f, "exists at {current}, the request expected none"),
            (None, None) => f.write_str("has changed"),
        }
    }
}

impl Reason {
    /// The code that the caller gets.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Unauthenticated(_) => ErrorCode::Unauthenticated,
            Self::PreconditionRequired(_) => ErrorCode::PreconditionRequired,
            Self::InvalidPrecondition { .. } => ErrorCode::InvalidPrecondition,
            Self::OutOfScope => ErrorCode::OutOfScope,
            Self::ActionNotPermitted { .. } => ErrorCode::ActionNotPermitted,
            Self::StaleFence { .. } => ErrorCode::StaleFence,
            Self::GrantExpired { .. } => ErrorCode::GrantExpired,
            Self::StaleVersion { .. } => ErrorCode::StaleVersion,
        }
    }
}

impl Refusal {
    /// Names the resource, where none is named yet.
    #[must_use]
    pub fn about(mut self, resource: &ResourceId) -> Self {
        self.resource.get_or_insert_with(|| resource.clone());
        self
    }
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        Self { reason, resource: None }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl std::error::Error for Refusal {}

/// For who reads the headers without the layer: the grant is there, the version is not.
impl From<VersionLack> for Problem {
    fn from(lack: VersionLack) -> Self {
        Self::new(ErrorCode::PreconditionRequired, lack.to_string())
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let Refusal { reason, resource } = refusal;
        let mut problem = Self::new(reason.code(), reason.to_string());
        problem.resource = resource.map(|resource| resource.to_string());
        match reason {
            Reason::StaleFence { fence, newer } => {
                problem.fence = Some(fence);
                problem.current_fence = Some(newer.fence());
            }
            Reason::GrantExpired { lease } => problem.lease = Some(lease),
            Reason::StaleVersion { expected, current } => {
                problem.expected_etag = expected;
                problem.current_etag = current;
            }
            Reason::Unauthenticated(_)
            | Reason::InvalidPrecondition { .. }
            | Reason::PreconditionRequired(_)
            | Reason::OutOfScope
            | Reason::ActionNotPermitted { .. } => {}
        }
        problem
    }
}
