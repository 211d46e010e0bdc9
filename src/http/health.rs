//! `/healthz` and `/readyz`: for those who start, stop and route to nodes.
//!
//! Liveness does not fail when the quorum is lost: a restart would not help, and a storm of them harms.
use super::{
    answer::{Failure, with_body},
    app::App,
};
use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use ringfence_core::Refusal;
use ringfence_protocol::ErrorCode;
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// Who asks for readiness wants a quick answer.
const READY_LIMIT: Duration = Duration::from_secs(1);

/// Whether the process lives: always `ok` if there is an answer at all.
#[utoipa::path(get, path = "/healthz", operation_id = "get_health", tag = "node",
    responses((status = 200, body = String, content_type = "text/plain", description = "It lives.")))]
pub(super) async fn live() -> Response {
    ok()
}

/// Whether the node knows a leader and has everything that was acknowledged.
#[utoipa::path(get, path = "/readyz", operation_id = "get_readiness", tag = "node",
    responses((status = 200, body = String, content_type = "text/plain", description = "Send requests here.")))]
pub(super) async fn ready(State(app): State<Arc<App>>) -> Response {
    if app.draining.is_cancelled() {
        return Failure::new(ErrorCode::ShuttingDown, "this node is stopping").into_response();
    }
    match timeout(READY_LIMIT, app.consensus.read_point()).await {
        Ok(Ok(_)) if app.life().is_some() => ok(),
        Ok(Ok(_)) => Failure::refused(Refusal::NotReady).into_response(),
        Ok(Err(why)) => Failure::from(why).into_response(),
        Err(_) => {
            Failure::new(ErrorCode::NoLeader, "this node is behind, or knows no leader").into_response()
        }
    }
}

fn ok() -> Response {
    with_body(StatusCode::OK, "text/plain; charset=utf-8", "ok\n")
}
