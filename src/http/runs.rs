//! `/v1/runs`: who acts.
use super::{
    answer::{Answer, Failure},
    body::Json,
    call::{Call, Written},
    grant, path,
};
use crate::ids;
use ringfence_core::{Operation, Reply};
use ringfence_protocol::{
    RunId,
    body::{CreateRun, EndRun, Page, Run, RunState},
};

/// How long a run may live where its creator doesn't say: one hour.
const DEFAULT_LIFETIME_MS: u64 = 3_600_000;

/// Begin a run.
///
/// The answer has the run's own credential in `token`; a repetition with the same key has one for the same run. End the
/// run when its work is done: its leases end with it.
#[utoipa::path(post, path = "/v1/runs", operation_id = "create_run", tag = "runs", request_body = CreateRun,
    responses((status = 201, body = Run, description = "It may act.")))]
pub(super) async fn create(call: Call, Json(body): Json<CreateRun>) -> Result<Answer<Run>, Failure> {
    let operation = Operation::CreateRun {
        id: RunId::from_bits(ids::ulid_bits()),
        name: body.name,
        labels: body.labels,
        allow: body.allow,
        authority: body.authority,
        lifetime_ms: body.lifetime_ms.unwrap_or(DEFAULT_LIFETIME_MS),
    };
    let (run, index, replayed) = run_of(call.write(operation).await?)?;
    // A repetition may come when the run is over: it is told so, and gets no credential.
    let run = if run.state == RunState::Active { grant::with_credential(&call, run)? } else { run };
    let location = format!("/v1/runs/{}", run.id);
    Ok(Answer::ok(run, index).created_at(location).replayed(replayed))
}

/// List the tenant's runs, the oldest first.
#[utoipa::path(get, path = "/v1/runs", operation_id = "list_runs", tag = "runs", params(
    ("state" = Option<RunState>, Query, description = "In this state only."),
    ("limit" = Option<u16>, Query, minimum = 1, maximum = 1000, description = "The most items; absent: 100."),
    ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before."),
    ("consistency" = Option<String>, Query, description = "`stale`: from this node's own state, at once.")),
    responses((status = 200, body = Page<Run>, description = "One page.")))]
pub(super) async fn list(call: Call) -> Result<Answer<Page<Run>>, Failure> {
    let parameters = call.parameters()?;
    let state_filter = parameters.get::<RunState>("state")?;
    let page = parameters.page::<RunId>()?;
    let read = call.read(parameters.consistency()?, |state, subject, now| {
        state.read_runs(subject, state_filter, page.after, page.with_one_more(), now)
    });
    let (found, index) = read.await?;
    Ok(Answer::ok(page.of(found, |run| run.id), index))
}

/// Read a run, with its live leases.
#[utoipa::path(get, path = "/v1/runs/{run}", operation_id = "get_run", tag = "runs", params(
    ("run" = RunId, Path, description = "Which."),
    ("consistency" = Option<String>, Query, description = "`stale`: from this node's own state, at once.")),
    responses((status = 200, body = Run, description = "The run.")))]
pub(super) async fn show(call: Call, path::Id(run): path::Id<RunId>) -> Result<Answer<Run>, Failure> {
    let consistency = call.parameters()?.consistency()?;
    let (run, index) =
        call.read(consistency, |state, subject, now| state.read_run(subject, run, now)).await?;
    Ok(Answer::ok(run, index))
}

/// End a run, and its leases with it.
#[utoipa::path(post, path = "/v1/runs/{run}/end", operation_id = "end_run", tag = "runs",
    params(("run" = RunId, Path, description = "Which.")), request_body = EndRun,
    responses((status = 200, body = Run, description = "It is over, and so are its leases.")))]
pub(super) async fn end(
    call: Call,
    path::Id(run): path::Id<RunId>,
    Json(body): Json<EndRun>,
) -> Result<Answer<Run>, Failure> {
    finish(&call, Operation::EndRun { run, revoke: false, reason: body.reason }).await
}

/// Take a run's credential back, and end its leases.
#[utoipa::path(post, path = "/v1/runs/{run}/revoke", operation_id = "revoke_run", tag = "runs",
    params(("run" = RunId, Path, description = "Which.")), request_body = EndRun,
    responses((status = 200, body = Run, description = "Its credential is worth nothing any more.")))]
pub(super) async fn revoke(
    call: Call,
    path::Id(run): path::Id<RunId>,
    Json(body): Json<EndRun>,
) -> Result<Answer<Run>, Failure> {
    finish(&call, Operation::EndRun { run, revoke: true, reason: body.reason }).await
}

async fn finish(call: &Call, operation: Operation) -> Result<Answer<Run>, Failure> {
    let (run, index, replayed) = run_of(call.write(operation).await?)?;
    Ok(Answer::ok(run, index).replayed(replayed))
}

fn run_of(written: Written) -> Result<(Run, u64, Option<bool>), Failure> {
    match written.reply {
        Reply::Run(run) => Ok((*run, written.index, written.replayed)),
        other @ (Reply::Nothing | Reply::Lease(_) | Reply::Token(_)) => Err(Failure::unexpected(&other)),
    }
}
