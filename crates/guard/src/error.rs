//! What a guarded call can end with, other than done.
use crate::refusal::Refusal;
use ringfence_protocol::{ErrorCode, Problem, ResourceId};

/// Why a guarded write was not made. Whichever it is, the write has not happened.
///
/// `E` is what the store itself can fail with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError<E> {
    /// The guard refused it, or the version had moved.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The service refused it by a rule of its own.
    #[error(transparent)]
    Service(#[from] Box<Problem>),
    /// The store was busy for longer than it was waited for; the same request may be sent again.
    #[error("the store is busy")]
    Busy,
    /// The store failed.
    #[error("the store failed")]
    Store(#[source] E),
}

impl<E> From<Problem> for GuardError<E> {
    fn from(problem: Problem) -> Self {
        Self::Service(Box::new(problem))
    }
}

impl<E> GuardError<E> {
    /// Names the resource, where none is named yet.
    #[must_use]
    pub(crate) fn about(self, resource: &ResourceId) -> Self {
        match self {
            Self::Refused(refusal) => Self::Refused(refusal.about(resource)),
            Self::Service(mut problem) => {
                problem.resource.get_or_insert_with(|| resource.to_string());
                Self::Service(problem)
            }
            Self::Busy | Self::Store(_) => self,
        }
    }

    /// What the caller is told. Of a failure of the store nothing is shown: log it before.
    #[must_use]
    pub fn into_problem(self) -> Problem {
        match self {
            Self::Refused(refusal) => refusal.into(),
            Self::Service(problem) => *problem,
            Self::Busy => Problem::new(ErrorCode::Busy, "the database was busy; nothing has been written"),
            Self::Store(_) => {
                Problem::new(ErrorCode::Internal, "the database failed; nothing has been written")
            }
        }
    }
}
