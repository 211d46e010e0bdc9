//! What can go wrong, as the caller sees it: RFC 9457 problem details with a stable code.
//!
//! A new code does not compile until its status, category, resolver, title and advice are given.
use crate::{Fence, LeaseId, Mode, RunId, Scope, body::Conflict};
use alloc::{
    borrow::ToOwned,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;
use serde::{Deserialize, Serialize};

/// What kind of refusal it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words are the documentation")]
pub enum Category {
    Invalid,
    Unauthorized,
    Forbidden,
    NotFound,
    Stale,
    Conflict,
    Busy,
    Gone,
    Unavailable,
    Internal,
}

/// Who can settle it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Resolver {
    /// The caller: fix the request.
    Caller,
    /// Time: send the same again after `retry_after_ms`.
    Wait,
    /// The caller: read anew and decide anew.
    Reread,
    /// A person.
    Human,
    /// The owner of the service.
    Owner,
    /// Whoever runs the cluster.
    Operator,
}

macro_rules! codes {
    ($( $(#[$doc:meta])* $name:ident = $text:literal, $status:literal, $category:ident, $resolver:ident, $retryable:literal, $title:literal, $advice:literal; )*) => {
        /// The stable machine code of a refusal.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum ErrorCode {
            $( $(#[$doc])* #[doc = $title] $name, )*
        }

        impl ErrorCode {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The word on the wire, the last part of `type`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// The HTTP status.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status),* }
            }

            /// What kind of refusal it is.
            #[must_use]
            pub const fn category(self) -> Category {
                match self { $(Self::$name => Category::$category),* }
            }

            /// Who can settle it.
            #[must_use]
            pub const fn resolver(self) -> Resolver {
                match self { $(Self::$name => Resolver::$resolver),* }
            }

            /// Whether the very same request may be sent again without reading anything anew.
            #[must_use]
            pub const fn retryable(self) -> bool {
                match self { $(Self::$name => $retryable),* }
            }

            /// A short title, the same for every occurrence.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title),* }
            }

            /// What to do next, for whoever reads it at three in the morning.
            #[must_use]
            pub const fn advice(self) -> &'static str {
                match self { $(Self::$name => $advice),* }
            }
        }
    };
}

codes! {
    MalformedJson = "malformed_json", 400, Invalid, Caller, false, "The body is not valid JSON",
        "Send one JSON object in UTF-8.";
    UnknownField = "unknown_field", 400, Invalid, Caller, false, "The body has a field that nobody knows",
        "Correct the spelling of `field` or leave it out; unknown fields are never ignored.";
    DuplicateField = "duplicate_field", 400, Invalid, Caller, false, "A member occurs twice in one object",
        "Send each member once.";
    InvalidField = "invalid_field", 400, Invalid, Caller, false, "A field has a value that can't be taken",
        "Correct the field that `field` names.";
    InvalidResource = "invalid_resource", 400, Invalid, Caller, false, "A resource id or scope is malformed",
        "Use 1-16 segments of `A-Z a-z 0-9 . _ ~ : @ + -` joined by `/`; a scope may end in `/**`.";
    IdempotencyKeyMissing = "idempotency_key_missing", 400, Invalid, Caller, false, "An Idempotency-Key is needed",
        "Make one key for the intended action, keep it, and send it with every attempt.";
    IdempotencyKeyInvalid = "idempotency_key_invalid", 400, Invalid, Caller, false, "The Idempotency-Key is malformed",
        "Send 1-255 bytes, quoted as a structured-field string or bare of `A-Z a-z 0-9 . _ : -`.";
    InvalidPrecondition = "invalid_precondition", 400, Invalid, Caller, false, "A precondition header is malformed",
        "Send `If-Match` with the strong ETag that was read, in quotes.";
    Unauthenticated = "unauthenticated", 401, Unauthorized, Caller, false, "No credential that this cluster knows",
        "Send `Authorization: Bearer` with a token of this cluster.";
    CredentialExpired = "credential_expired", 401, Unauthorized, Caller, false, "The credential has expired",
        "Ask the orchestrator for a new run.";
    CredentialRevoked = "credential_revoked", 401, Unauthorized, Human, false, "The credential was revoked",
        "Stop. Somebody took this credential back; ask who and why.";
    Forbidden = "forbidden", 403, Forbidden, Human, false, "This credential may not do this",
        "Use a credential with the right role, or the run's own.";
    OutsideAllowance = "outside_allowance", 403, Forbidden, Human, false, "The run asks beyond what it may ever lease",
        "Ask for scopes within the run's `allow`, or have the orchestrator create a run that may.";
    OutOfScope = "out_of_scope", 403, Forbidden, Caller, false, "The grant does not cover this resource",
        "Acquire a lease whose write set has this resource, and send its grant.";
    ActionNotPermitted = "action_not_permitted", 403, Forbidden, Caller, false, "The grant does not allow this action",
        "Acquire a lease that names this action on this scope in a mode that writes.";
    SelfApproval = "self_approval", 403, Forbidden, Human, false, "Nobody approves what they asked for themselves",
        "Ask another approver.";
    NotFound = "not_found", 404, NotFound, Caller, false, "There is nothing here",
        "Check the path and the id; what belongs to another tenant isn't shown.";
    MethodNotAllowed = "method_not_allowed", 405, Invalid, Caller, false, "This path does not take this method",
        "Use one of the methods in `Allow`.";
    WriteSetConflict = "write_set_conflict", 409, Conflict, Wait, true, "Another lease holds part of the write set",
        "Wait and send the same again, or plan other work; `conflicts` says who holds what.";
    Deadlock = "deadlock", 409, Conflict, Caller, false, "Waiting would close a circle of runs that wait for each other",
        "Release what the run holds, then ask for everything in one write set.";
    AlreadyHeld = "already_held", 409, Conflict, Caller, false, "The run itself holds a lease that overlaps",
        "Go on with the lease that `lease` names, or release it first.";
    StaleFence = "stale_fence", 409, Stale, Reread, false, "A newer grant has been seen",
        "Stop writing under this grant. Acquire a new lease, read anew, decide anew.";
    GrantExpired = "grant_expired", 409, Stale, Caller, false, "The grant has run out",
        "Renew the lease and send the request again with the new grant.";
    OperationInProgress = "operation_in_progress", 409, Busy, Wait, true, "An operation is under way",
        "Wait for its outcome and ask again.";
    OutcomeUnknown = "outcome_unknown", 409, Conflict, Human, false, "Nobody knows whether an earlier operation took effect",
        "Find out what happened and resolve the operation; do not repeat it.";
    InvalidTransition = "invalid_transition", 409, Conflict, Reread, false, "It is not in a state that allows this",
        "Read its state and decide anew.";
    Canceled = "canceled", 409, Conflict, Caller, false, "It was canceled before it arrived",
        "Use a new key if it is wanted after all.";
    ApprovalRequired = "approval_required", 409, Conflict, Human, false, "This needs an approval",
        "Ask an approver.";
    ApprovalPending = "approval_pending", 409, Busy, Wait, true, "The approval is not decided yet",
        "Wait for the decision.";
    ApprovalDenied = "approval_denied", 409, Conflict, Human, false, "The approval was denied",
        "Do not repeat it; talk to the approver.";
    ApprovalExpired = "approval_expired", 409, Stale, Human, false, "The approval has run out",
        "Ask for a new approval.";
    ApprovalMismatch = "approval_mismatch", 409, Conflict, Human, false, "The approval is for something else",
        "Ask for an approval of exactly this command.";
    ApprovalConsumed = "approval_consumed", 409, Conflict, Human, false, "The approval was used already",
        "Ask for a new approval.";
    RunEnded = "run_ended", 409, Conflict, Caller, false, "The run is over",
        "Create a new run.";
    LeaseEnded = "lease_ended", 410, Gone, Reread, false, "The lease is over",
        "Stop the work under it. Acquire a new lease, read anew, decide anew.";
    RevisionCompacted = "revision_compacted", 410, Gone, Reread, false, "The revision is too far back",
        "Begin again without `after`.";
    StaleVersion = "stale_version", 412, Stale, Reread, false, "The resource has changed since it was read",
        "Read it anew and decide anew; never send the same body again.";
    BodyTooLarge = "body_too_large", 413, Invalid, Caller, false, "The body is larger than this node takes",
        "Send less at once.";
    UnsupportedMediaType = "unsupported_media_type", 415, Invalid, Caller, false, "The body is of a type that isn't taken here",
        "Send the content type that `detail` names.";
    RateLimited = "rate_limited", 429, Busy, Wait, true, "Too many requests of this credential",
        "Wait for `retry_after_ms`.";
    HeadersTooLarge = "headers_too_large", 431, Invalid, Caller, false, "The headers are larger than this node takes",
        "Send fewer or smaller headers.";
    ScopeTooBroad = "scope_too_broad", 422, Invalid, Caller, false, "The scope takes in too much",
        "Name the resource: at least two segments, such as `release/prod-eu`.";
    FingerprintConflict = "fingerprint_conflict", 422, Conflict, Caller, false, "The key was used for something else",
        "A key belongs to one command. Use a new key for a new intent.";
    MutableReference = "mutable_reference", 422, Invalid, Caller, false, "The reference can come to mean something else",
        "Name a digest, a full commit id or an exact version.";
    InexactNumber = "inexact_number", 422, Invalid, Caller, false, "The number can't be kept exactly",
        "Send an integer within 2^53 or a decimal string.";
    LimitExceeded = "limit_exceeded", 422, Busy, Caller, false, "A limit is reached",
        "End what isn't needed any more, or ask the operator for a higher limit.";
    LeaseForbidden = "lease_forbidden", 422, Invalid, Caller, false, "Policy gives no leases here",
        "Versions protect this well enough: write with `If-Match`.";
    ScopeUnknown = "scope_unknown", 422, Invalid, Caller, false, "Policy knows no such scope",
        "Use a registered scope.";
    AnswerTooLarge = "answer_too_large", 422, Gone, Owner, false, "It was done, but its answer was too large to keep",
        "Read the resource; the operation will not run again.";
    KeyRetired = "key_retired", 422, Gone, Caller, false, "The key was used and its record is past retention",
        "Look up what was done; the operation will not run again under this key.";
    InvariantViolated = "invariant_violated", 422, Conflict, Caller, false, "A rule of the service forbids this",
        "Read `detail` and change the command.";
    PreconditionRequired = "precondition_required", 428, Invalid, Caller, false, "A version or a grant is missing",
        "Read the resource, then send `If-Match` with its ETag and `Ringfence-Grant` with a grant.";
    Internal = "internal", 500, Internal, Operator, false, "Something broke inside",
        "Tell the operator the request id.";
    NoLeader = "no_leader", 503, Unavailable, Wait, true, "The cluster has no leader at the moment",
        "Send the same again, with the same Idempotency-Key.";
    Overloaded = "overloaded", 503, Unavailable, Wait, true, "The node has more to do than it takes on",
        "Send the same again later, with the same Idempotency-Key.";
    Busy = "busy", 503, Unavailable, Wait, true, "The database of the service is busy",
        "Send the same again later.";
    StorageFull = "storage_full", 503, Unavailable, Operator, true, "The disk is full",
        "Make room on the node's disk; nothing was lost.";
    ShuttingDown = "shutting_down", 503, Unavailable, Wait, true, "The node is stopping",
        "Send the same to another node.";
    IndexRebuilding = "index_rebuilding", 503, Unavailable, Wait, true, "An index is being built anew",
        "Send the same again later.";
    OutcomeUncertain = "outcome_uncertain", 503, Unavailable, Wait, true, "It was accepted, but it isn't known what became of it",
        "Send the same again with the same Idempotency-Key: it gives the first outcome.";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl core::str::FromStr for ErrorCode {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text).ok_or(())
    }
}

/// Why a lease is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndReason {
    /// Its holder gave it back: the one clean end.
    Released,
    /// It was not renewed in time.
    Expired,
    /// Somebody took it back.
    Revoked,
    /// Its run ended, was revoked or expired.
    RunEnded,
    /// The cluster was restored from a backup.
    Restored,
}

impl EndReason {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::RunEnded => "run_ended",
            Self::Restored => "restored",
        }
    }

    /// Whether the holder itself gave it back.
    #[must_use]
    pub const fn is_clean(self) -> bool {
        matches!(self, Self::Released)
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Whether a request that was answered with 503 took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Applied {
    /// It did not and will not.
    No,
    /// It may have, or still may.
    Unknown,
}

/// One refusal: `application/problem+json` (RFC 9457) with ringfence's members.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Problem {
    /// `/problems/<error>`: a page that the node serves.
    #[serde(rename = "type")]
    pub type_uri: String,
    /// The same for every occurrence of a code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened this time, for people.
    pub detail: String,
    /// The stable machine code.
    pub error: ErrorCode,
    /// What kind of refusal it is.
    pub category: Category,
    /// Whether the very same request may be sent again without reading anything anew.
    pub retryable: bool,
    /// Who can settle it.
    pub resolver: Resolver,
    /// When to send again, in milliseconds, where `resolver` is `wait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The resource or scope concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The field concerned, as a path: `write_set[0].scope`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Who holds what, with `write_set_conflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflicts: Option<Vec<Conflict>>,
    /// Whether there are more conflicts than listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflicts_truncated: Option<bool>,
    /// The lease concerned, with `already_held`, `lease_ended` and others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseId>,
    /// The run concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Why the lease is over, with `lease_ended`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<EndReason>,
    /// The fence that was sent, with `stale_fence`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// The greatest incompatible fence seen, with `stale_fence`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_fence: Option<Fence>,
    /// The version that the request expected, with `stale_version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_etag: Option<String>,
    /// The version that is there, with `stale_version`; absent where nothing is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_etag: Option<String>,
    /// Whether it took effect, with 503.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Applied>,
    /// The id of the request, for the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl Problem {
    /// A problem of a code; `detail` says what happened this time.
    #[must_use]
    pub fn new(error: ErrorCode, detail: impl Into<String>) -> Self {
        let mut type_uri = "/problems/".to_owned();
        type_uri.push_str(error.as_str());
        Self {
            type_uri,
            title: error.title().to_string(),
            status: error.status(),
            detail: detail.into(),
            error,
            category: error.category(),
            retryable: error.retryable(),
            resolver: error.resolver(),
            retry_after_ms: default_retry_after_ms(error),
            resource: None,
            field: None,
            conflicts: None,
            conflicts_truncated: None,
            lease: None,
            run: None,
            reason: None,
            fence: None,
            current_fence: None,
            expected_etag: None,
            current_etag: None,
            applied: default_applied(error),
            request_id: None,
        }
    }

    /// An `invalid_field` that names the field.
    #[must_use]
    pub fn invalid_field(field: impl Into<String>, detail: impl Into<String>) -> Self {
        let mut problem = Self::new(ErrorCode::InvalidField, detail);
        problem.field = Some(field.into());
        problem
    }

    /// Names the resource or scope concerned.
    #[must_use]
    pub fn with_resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// Says whether the request took effect.
    #[must_use]
    pub const fn with_applied(mut self, applied: Applied) -> Self {
        self.applied = Some(applied);
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error, self.detail)
    }
}

impl core::error::Error for Problem {}

fn default_retry_after_ms(error: ErrorCode) -> Option<u64> {
    matches!(error.resolver(), Resolver::Wait).then_some(1000)
}

/// Most 503s are given before anything is proposed; those that aren't say so.
fn default_applied(error: ErrorCode) -> Option<Applied> {
    if error.status() != 503 {
        None
    } else if matches!(error, ErrorCode::OutcomeUncertain) {
        Some(Applied::Unknown)
    } else {
        Some(Applied::No)
    }
}

/// What `write_set_conflict` says of one scope: see [`Conflict`].
#[must_use]
pub fn conflict_detail(scope: &Scope, mode: Mode, conflict: &Conflict) -> String {
    alloc::format!(
        "{scope} ({mode}) is held as {} ({}) by {} under {} with fence {}",
        conflict.held_scope,
        conflict.held_mode,
        conflict.run,
        conflict.lease,
        conflict.fence
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_429_503_and_the_marked_codes_are_retryable() {
        for code in ErrorCode::ALL {
            let marked = matches!(
                code,
                ErrorCode::WriteSetConflict | ErrorCode::OperationInProgress | ErrorCode::ApprovalPending
            );
            assert_eq!(code.retryable(), matches!(code.status(), 429 | 503) || marked, "{code}");
        }
    }

    #[test]
    fn the_word_of_a_code_is_the_same_in_text_and_json() {
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_string(code).unwrap(), alloc::format!("\"{code}\""));
            assert_eq!(code.as_str().parse(), Ok(*code));
        }
    }

    #[test]
    fn what_waits_says_how_long_and_a_503_says_whether_it_was_applied() {
        for code in ErrorCode::ALL {
            let problem = Problem::new(*code, "x");
            assert_eq!(problem.retry_after_ms.is_some(), code.resolver() == Resolver::Wait, "{code}");
            assert_eq!(problem.applied.is_some(), code.status() == 503, "{code}");
        }
    }

    #[test]
    fn a_problem_survives_json() {
        let mut problem = Problem::new(ErrorCode::StaleFence, "seen 1043").with_resource("release/prod-eu");
        problem.current_fence = Fence::new(1043);
        let json = serde_json::to_string(&problem).unwrap();
        assert!(json.contains("\"type\":\"/problems/stale_fence\""));
        assert_eq!(serde_json::from_str::<Problem>(&json).unwrap(), problem);
    }
}
