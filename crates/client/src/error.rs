//! What a call can come to when it isn't an answer: refused, unreachable, unknown, unreadable.
use ringfence_protocol::{ErrorCode, LeaseId, Problem, idempotency::IdempotencyKey};

/// Why a call gave no result.
///
/// The difference that counts is between *it did not happen* and *it may have happened*. Only
/// [`Error::Unknown`] and [`Error::Unreadable`] leave that open, beside an [`Error::Refused`] that names a key.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A node judged the request and said no.
    #[error("{problem}")]
    Refused {
        /// What it said.
        problem: Box<Problem>,
        /// Where earlier tries of the same request got no answer, its key: such a try may still take effect after
        /// this refusal. Repeating the request with the key finds out.
        unanswered: Option<IdempotencyKey>,
    },
    /// Nothing of the request reached a node, or it changes nothing: it did not happen.
    #[error("no node reached in {tries} tries; last: {last}")]
    Unreachable {
        /// How many requests were tried.
        tries: u32,
        /// What the last one met.
        last: String,
    },
    /// It was sent and no answer came: **it may have happened**, or may still. Repeat it with the same key.
    #[error("no answer in {tries} tries, so it may have happened; last: {last}")]
    Unknown {
        /// The key to repeat it with; `None` where repeating needs none (a release, a renewal).
        key: Option<IdempotencyKey>,
        /// How many requests were tried.
        tries: u32,
        /// What the last one met.
        last: String,
    },
    /// The lease was granted, but by the time the answer was here it was not safe to use. It is given back.
    #[error("{lease} was granted, but its answer came too late to use it")]
    TooLate {
        /// The lease.
        lease: LeaseId,
    },
    /// An answer came that isn't one of this API. With a success status the request was done.
    #[error("status {status} with an answer that is none of this API: {detail}")]
    Unreadable {
        /// The HTTP status.
        status: u16,
        /// What is wrong with it.
        detail: String,
    },
    /// The request can't be put together; nothing was sent.
    #[error("the request can't be sent: {0}")]
    Invalid(String),
}

impl Error {
    /// What a node said, where it refused.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused { problem, .. } => Some(problem),
            Self::Unreachable { .. }
            | Self::Unknown { .. }
            | Self::TooLate { .. }
            | Self::Unreadable { .. }
            | Self::Invalid(_) => None,
        }
    }

    /// The code of the refusal, where a node refused.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        self.problem().map(|problem| problem.error)
    }

    /// Whether the request may have taken effect all the same.
    #[must_use]
    pub const fn may_have_happened(&self) -> bool {
        match self {
            Self::Refused { unanswered, .. } => unanswered.is_some(),
            Self::Unknown { .. } | Self::Unreadable { .. } => true,
            Self::Unreachable { .. } | Self::TooLate { .. } | Self::Invalid(_) => false,
        }
    }
}
