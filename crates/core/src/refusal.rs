//! Refusals in the words of the contract.
use crate::outcome::{Refusal, Thing};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use ringfence_protocol::{
    Action, ErrorCode, Fence, LeaseId, Problem, ResourceId, RunId, Scope,
    body::Conflict,
    problem::{EndReason, conflict_detail},
};

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotReady => {
                Self::new(ErrorCode::NoLeader, "the cluster has only just begun; send the same again")
            }
            Refusal::AlreadyBegun => Self::new(ErrorCode::Internal, "the cluster has begun already"),
            Refusal::Unauthenticated => Self::new(
                ErrorCode::Unauthenticated,
                "this cluster knows no such token or run; it may have been removed, or belong to another cluster",
            ),
            Refusal::CredentialExpired => {
                Self::new(ErrorCode::CredentialExpired, "the run's lifetime is over")
            }
            Refusal::CredentialRevoked => {
                Self::new(ErrorCode::CredentialRevoked, "the token or run was revoked")
            }
            Refusal::Forbidden(why) => Self::new(ErrorCode::Forbidden, why),
            Refusal::RunEnded(run) => run_ended(run),
            Refusal::NotFound(thing) => Self::new(ErrorCode::NotFound, missing(thing)),
            Refusal::InvalidField { field, detail } => Self::invalid_field(field, detail),
            Refusal::InvalidTransition(detail) => Self::new(ErrorCode::InvalidTransition, detail),
            Refusal::ScopeTooBroad(scope) => {
                about(ErrorCode::ScopeTooBroad, &scope, format!("{scope} names fewer than two segments"))
            }
            Refusal::OutsideAllowance(scope) => about(
                ErrorCode::OutsideAllowance,
                &scope,
                format!("{scope} is not within the `allow` of the run"),
            ),
            Refusal::Conflict { conflicts, truncated } => conflict(conflicts, truncated),
            Refusal::AlreadyHeld { lease, scope } => already_held(lease, &scope),
            Refusal::LeaseEnded { lease, reason } => lease_ended(lease, reason),
            Refusal::FingerprintConflict => Self::new(
                ErrorCode::FingerprintConflict,
                "this Idempotency-Key was used before with another method, path or command; nothing was done now",
            ),
            Refusal::IdTaken => Self::new(
                ErrorCode::Internal,
                "the id or secret that was drawn is taken; send the same again",
            ),
            Refusal::LimitExceeded(limit) => {
                Self::new(ErrorCode::LimitExceeded, format!("the limit is {limit}"))
            }
            Refusal::RequestRecordsFull => Self::new(
                ErrorCode::Overloaded,
                "as many idempotency keys are remembered as may be; the oldest are forgotten with time",
            ),
            Refusal::StaleFence { fence, current } => stale_fence(fence, current),
            Refusal::OutOfScope(resource) => {
                let detail = format!("no scope of the lease covers {resource}");
                Self::new(ErrorCode::OutOfScope, detail).with_resource(resource.as_str())
            }
            Refusal::ActionNotPermitted { resource, action } => action_not_permitted(&resource, &action),
        }
    }
}

const fn missing(thing: Thing) -> &'static str {
    match thing {
        Thing::Run => "there is no such run; runs are forgotten a day after they ended",
        Thing::Lease => "there is no such lease; leases are forgotten ten minutes after they ended",
        Thing::Token => "there is no such token",
    }
}

fn about(code: ErrorCode, scope: &Scope, detail: String) -> Problem {
    Problem::new(code, detail).with_resource(scope.as_str())
}

fn run_ended(run: RunId) -> Problem {
    let mut problem = Problem::new(ErrorCode::RunEnded, format!("{run} is over and acts no more"));
    problem.run = Some(run);
    problem
}

fn already_held(lease: LeaseId, scope: &Scope) -> Problem {
    let mut problem =
        about(ErrorCode::AlreadyHeld, scope, format!("the run itself holds {scope} under {lease}"));
    problem.lease = Some(lease);
    problem
}

fn lease_ended(lease: LeaseId, reason: EndReason) -> Problem {
    let mut problem = Problem::new(ErrorCode::LeaseEnded, format!("{lease} is over: {reason}"));
    problem.lease = Some(lease);
    problem.reason = Some(reason);
    problem
}

fn stale_fence(fence: Fence, current: Option<Fence>) -> Problem {
    let mut problem = Problem::new(ErrorCode::StaleFence, format!("{fence} is not the fence of this lease"));
    problem.fence = Some(fence);
    problem.current_fence = current;
    problem
}

fn action_not_permitted(resource: &ResourceId, action: &Action) -> Problem {
    let detail = format!("the lease covers {resource}, but not for `{action}`, or not for writes");
    Problem::new(ErrorCode::ActionNotPermitted, detail).with_resource(resource.as_str())
}

/// The shortest and the longest time after which a conflict is worth another look.
const RETRY_MS: (u64, u64) = (100, 5000);

fn conflict(conflicts: Vec<Conflict>, truncated: bool) -> Problem {
    let first = conflicts.first();
    let detail = first.map_or_else(
        || "another lease holds part of the write set".to_string(),
        |conflict| conflict_detail(&conflict.scope, conflict.mode, conflict),
    );
    let mut problem = Problem::new(ErrorCode::WriteSetConflict, detail);
    problem.resource = first.map(|conflict| conflict.scope.to_string());
    let soonest = conflicts.iter().map(|conflict| conflict.expires_in_ms).min();
    problem.retry_after_ms = Some(soonest.unwrap_or(0).clamp(RETRY_MS.0, RETRY_MS.1));
    problem.conflicts = Some(conflicts);
    problem.conflicts_truncated = truncated.then_some(true);
    problem
}
