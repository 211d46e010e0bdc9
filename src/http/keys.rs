//! `/.well-known/jwks.json`: the keys by which grants and run credentials are checked offline.
use super::{
    answer::{Failure, with_body},
    app::App,
};
use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header::CACHE_CONTROL},
    response::{IntoResponse, Response},
};
use ringfence_protocol::jws::Jwks;
use std::sync::Arc;

/// Read the public keys of grants and run credentials (RFC 7517).
#[utoipa::path(get, path = "/.well-known/jwks.json", operation_id = "get_keys", tag = "targets",
    responses((status = 200, body = Jwks, description = "The keys that this node signs with or accepts.")))]
pub(super) async fn show(State(app): State<Arc<App>>) -> Response {
    match serde_json::to_vec(&app.jwks()) {
        Ok(json) => {
            let mut response = with_body(StatusCode::OK, "application/json", json);
            // A target that meets an unknown key asks anew, so a minute is never too long.
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=60"));
            response
        }
        Err(error) => Failure::internal("writing the key set", error).into_response(),
    }
}
