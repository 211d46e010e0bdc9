//! `/v1/leases`: what a run may write, and until when.
use super::{
    answer::{Answer, Failure},
    body::{Json, JsonOrNothing},
    call::{Call, Written},
    grant, path,
};
use crate::ids;
use ringfence_core::{Granted, LeaseFilter, Operation, Reply};
use ringfence_protocol::{
    LeaseId, Problem, RunId,
    body::{AcquireLease, Lease, LeaseState, Page, RenewLease},
};

/// How long a lease lives without a renewal where its holder doesn't say.
const DEFAULT_TTL_MS: u64 = 10_000;

/// Acquire a lease: the whole write set, or nothing.
///
/// The answer has a signed grant for the targets. Where another lease holds part of the write set, the refusal says who
/// holds what.
#[utoipa::path(post, path = "/v1/leases", operation_id = "acquire_lease", tag = "leases", request_body = AcquireLease,
    responses((status = 201, body = Lease, description = "It is held, with a fence of its own.")))]
pub(super) async fn acquire(call: Call, Json(body): Json<AcquireLease>) -> Result<Answer<Lease>, Failure> {
    check_neutral(&body)?;
    let operation = Operation::Acquire {
        id: LeaseId::from_bits(ids::ulid_bits()),
        run: body.run,
        write_set: body.write_set,
        ttl_ms: body.ttl_ms.unwrap_or(DEFAULT_TTL_MS),
        purpose: body.purpose,
    };
    let (granted, index, replayed) = granted_of(call.write(operation).await?)?;
    let lease = grant::with_grant(&call, granted)?;
    let location = format!("/v1/leases/{}", lease.id);
    Ok(Answer::ok(lease, index).created_at(location).replayed(replayed))
}

/// What this version can't do yet is refused by name, never ignored: a caller that asks for a lock delay and gets a
/// lease without one would rely on it.
fn check_neutral(body: &AcquireLease) -> Result<(), Failure> {
    let beyond = [
        ("wait_ms", body.wait_ms.filter(|wait_ms| *wait_ms > 0), "waiting in a queue", "0 or null"),
        ("max_hold_ms", body.max_hold_ms, "a longest hold", "null"),
        ("stall_ms", body.stall_ms, "ending a lease without progress", "null"),
        ("lock_delay_ms", body.lock_delay_ms.filter(|delay_ms| *delay_ms > 0), "a lock delay", "0 or null"),
    ];
    match beyond.into_iter().find(|(_, value, _, _)| value.is_some()) {
        Some((field, _, what, neutral)) => Err(not_yet(field, what, neutral)),
        None => Ok(()),
    }
}

fn not_yet(field: &str, what: &str, neutral: &str) -> Failure {
    Problem::invalid_field(
        field,
        format!("this version does not do {what} yet: send {neutral}, or leave it out"),
    )
    .into()
}

/// List the tenant's leases, the oldest first.
#[utoipa::path(get, path = "/v1/leases", operation_id = "list_leases", tag = "leases", params(
    ("run" = Option<RunId>, Query, description = "Of this run only."),
    ("scope" = Option<ringfence_protocol::Scope>, Query, description = "That overlap this scope only."),
    ("state" = Option<LeaseState>, Query, description = "In this state only."),
    ("limit" = Option<u16>, Query, minimum = 1, maximum = 1000, description = "The most items; absent: 100."),
    ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before."),
    ("consistency" = Option<String>, Query, description = "`stale`: from this node's own state, at once.")),
    responses((status = 200, body = Page<Lease>, description = "One page.")))]
pub(super) async fn list(call: Call) -> Result<Answer<Page<Lease>>, Failure> {
    let parameters = call.parameters()?;
    let filter = LeaseFilter {
        run: parameters.get("run")?,
        scope: parameters.scope("scope")?,
        state: parameters.get("state")?,
    };
    let page = parameters.page::<LeaseId>()?;
    let read = call.read(parameters.consistency()?, |state, subject, now| {
        state.read_leases(subject, &filter, page.after, page.with_one_more(), now)
    });
    let (found, index) = read.await?;
    Ok(Answer::ok(page.of(found, |lease| lease.id), index))
}

/// Read a lease; one that is over can be read for ten minutes, with its `reason`.
///
/// `grant` is `null`: it is given to the holder when it acquires and when it renews.
#[utoipa::path(get, path = "/v1/leases/{lease}", operation_id = "get_lease", tag = "leases", params(
    ("lease" = LeaseId, Path, description = "Which."),
    ("consistency" = Option<String>, Query, description = "`stale`: from this node's own state, at once.")),
    responses((status = 200, body = Lease, description = "The lease.")))]
pub(super) async fn show(call: Call, path::Id(lease): path::Id<LeaseId>) -> Result<Answer<Lease>, Failure> {
    let consistency = call.parameters()?.consistency()?;
    let (lease, index) =
        call.read(consistency, |state, subject, now| state.read_lease(subject, lease, now)).await?;
    Ok(Answer::ok(lease, index))
}

/// Renew a lease: it lives for its ttl again, and has a new grant. It never creates one.
#[utoipa::path(post, path = "/v1/leases/{lease}/renew", operation_id = "renew_lease", tag = "leases",
    params(("lease" = LeaseId, Path, description = "Which.")), request_body = Option<RenewLease>,
    responses((status = 200, body = Lease, description = "It lives on.")))]
pub(super) async fn renew(
    call: Call,
    path::Id(lease): path::Id<LeaseId>,
    JsonOrNothing(body): JsonOrNothing<RenewLease>,
) -> Result<Answer<Lease>, Failure> {
    if body.progress.is_some() {
        return Err(not_yet("progress", "ending a lease without progress", "null"));
    }
    let (granted, index, _) = granted_of(call.write(Operation::Renew { lease }).await?)?;
    Ok(Answer::ok(grant::with_grant(&call, granted)?, index))
}

/// Release a lease: the one clean end. Repeating it answers the same; it never touches a successor.
#[utoipa::path(delete, path = "/v1/leases/{lease}", operation_id = "release_lease", tag = "leases",
    params(("lease" = LeaseId, Path, description = "Which.")),
    responses((status = 200, body = Lease, description = "The lease, with the state and reason that it ended in.")))]
pub(super) async fn release(
    call: Call,
    path::Id(lease): path::Id<LeaseId>,
) -> Result<Answer<Lease>, Failure> {
    let (granted, index, _) = granted_of(call.write(Operation::Release { lease }).await?)?;
    Ok(Answer::ok(granted.lease, index))
}

fn granted_of(written: Written) -> Result<(Granted, u64, Option<bool>), Failure> {
    match written.reply {
        Reply::Lease(granted) => Ok((*granted, written.index, written.replayed)),
        other @ (Reply::Nothing | Reply::Run(_) | Reply::Token(_)) => Err(Failure::unexpected(&other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_protocol::{ErrorCode, json};

    fn checked(more: &str) -> Result<(), ErrorCode> {
        let body = format!(r#"{{"write_set":[{{"scope":"a/b","mode":"shared"}}]{more}}}"#);
        check_neutral(&json::from_slice(body.as_bytes()).unwrap()).map_err(|failure| failure.code())
    }

    #[test]
    fn what_this_version_can_not_do_is_taken_where_it_asks_for_nothing_and_refused_else() {
        assert_eq!(checked(r#","wait_ms":0,"lock_delay_ms":0,"max_hold_ms":null,"stall_ms":null"#), Ok(()));
        assert_eq!(checked(r#","wait_ms":null,"lock_delay_ms":null"#), Ok(()));
        for beyond in
            [r#","wait_ms":1"#, r#","lock_delay_ms":1"#, r#","max_hold_ms":0"#, r#","stall_ms":5000"#]
        {
            assert_eq!(checked(beyond), Err(ErrorCode::InvalidField), "{beyond}");
        }
    }
}
