//! `/metrics`: what is counted, in the text format of Prometheus.
//!
//! Labels are bounded: routes by their template, methods and statuses; never a tenant, scope, run, key or fence.
use super::{answer::with_body, app::App};
use axum::{
    extract::State,
    http::{Method, StatusCode},
    response::Response,
};
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use std::{sync::Arc, time::Duration};

/// Counts one answered request.
pub(super) fn request(route: &'static str, method: &Method, status: StatusCode, took: Duration) {
    let method = label(method);
    counter!("ringfence_http_requests_total", "route" => route, "method" => method, "status" => status.as_str().to_owned())
        .increment(1);
    histogram!("ringfence_http_request_seconds", "route" => route).record(took.as_secs_f64());
}

/// Counts a success that repeats an earlier outcome: what was created and what was replayed are told apart.
pub(super) fn replay(route: &'static str) {
    counter!("ringfence_http_replays_total", "route" => route).increment(1);
}

/// Methods are the caller's words: only those of the standard become labels.
fn label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Read what the node counts.
#[utoipa::path(get, path = "/metrics", operation_id = "get_metrics", tag = "node",
    responses((status = 200, body = String, content_type = "text/plain", description = "Prometheus text format.")))]
pub(super) async fn show(State(app): State<Arc<App>>) -> Response {
    refresh(&app);
    with_body(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", app.metrics.render())
}

/// Gauges are set when they are asked for: nothing is spent on them in between.
fn refresh(app: &App) {
    let stats = app.consensus.read(|state, _| state.stats());
    set("ringfence_leases", stats.live_leases);
    set("ringfence_runs", stats.active_runs);
    set("ringfence_ended_leases", stats.ended_leases as u64);
    set("ringfence_tokens", stats.tokens as u64);
    set("ringfence_request_records", stats.request_records as u64);
    set("ringfence_fence", stats.last_fence);
    let status = app.consensus.status();
    set("ringfence_raft_term", status.term);
    set("ringfence_raft_applied_index", status.applied);
    set("ringfence_raft_apply_lag", status.last_log.saturating_sub(status.applied));
    set("ringfence_raft_leader", u64::from(status.leader == Some(status.node)));
    set("ringfence_raft_leader_known", u64::from(status.leader.is_some()));
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float; what is beyond 2^53 is read by nobody")]
fn set(name: &'static str, value: u64) {
    gauge!(name).set(value as f64);
}

/// Tells the recorder what its numbers mean; once a process.
pub fn describe() {
    describe_counter!("ringfence_http_requests_total", "Requests answered, by route, method and status.");
    describe_counter!(
        "ringfence_http_replays_total",
        "Successes that repeated the outcome of an earlier request."
    );
    describe_histogram!("ringfence_http_request_seconds", "Time from the head of a request to its answer.");
    describe_gauge!("ringfence_leases", "Leases that are held.");
    describe_gauge!("ringfence_runs", "Runs that may act.");
    describe_gauge!("ringfence_ended_leases", "Leases that are over and can still be read.");
    describe_gauge!("ringfence_tokens", "Tokens, revoked ones that are remembered included.");
    describe_gauge!("ringfence_request_records", "Idempotency keys that are remembered.");
    describe_gauge!("ringfence_fence", "The greatest fence given so far.");
    describe_gauge!("ringfence_raft_term", "The term of Raft.");
    describe_gauge!("ringfence_raft_applied_index", "The last log entry that this node has applied.");
    describe_gauge!("ringfence_raft_apply_lag", "Entries in this node's log that it has not applied yet.");
    describe_gauge!("ringfence_raft_leader", "Whether this node leads.");
    describe_gauge!("ringfence_raft_leader_known", "Whether this node knows a leader.");
    describe_counter!("ringfence_leases_granted_total", "Leases granted, as this node applied them.");
    describe_counter!("ringfence_leases_ended_total", "Leases ended, by reason, as this node applied them.");
    describe_counter!("ringfence_runs_over_total", "Runs over, by state, as this node applied them.");
    describe_counter!("ringfence_leader_changes_total", "Changes of leader that this node saw.");
    describe_counter!("ringfence_operations_total", "Commands that this node put into the log.");
    describe_counter!(
        "ringfence_appends_total",
        "Proposals that this node put into the log, many commands each."
    );
    describe_counter!(
        "ringfence_read_rounds_total",
        "Confirmations of leadership for reads, many reads each."
    );
    describe_counter!("ringfence_log_records_total", "Records written to the log.");
    describe_histogram!("ringfence_log_fsync_seconds", "Time of one fsync of the log.");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_that_somebody_made_up_does_not_become_a_label() {
        assert_eq!(label(&Method::GET), "GET");
        assert_eq!(label(&Method::from_bytes(b"BREW").unwrap()), "other");
    }
}
