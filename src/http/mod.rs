//! The HTTP edge: it carries requests to the log and to the state, and never decides what a lease may do.
//!
//! In reading order: `app` (what all requests share), `routes` (the one table: method, path, right), `edge` (what
//! happens to every request), `auth` and `credentials` (who asks), `call` (one request on its way to the log or the
//! state), `body`, `query` and `path` (strict reading), `answer` (the one mapping of answers and errors), `grant`
//! (what is signed); then one file a resource: `runs`, `leases`, `resources`, `tokens`, `cluster`, `verify`, `keys`,
//! `health`, `metrics`, `problems`, `openapi`; and `serve`, the listener.
//!
//! It guarantees: the credential and its right are judged before a body is read; tenant, principal and run come
//! from the credential alone; every answer carries a request id and, once the cluster has begun, a revision; every
//! request is answered within five seconds; a refusal is a problem of the contract.
//!
//! *Invariant:* no type of axum or hyper leaves this module but the [`axum::Router`] itself.
//!
//! A client that hangs up drops its handler wherever it waits. That harms nothing: a handler holds no lock and owns no
//! half-done work. A proposal goes into the consensus' queue whole, in one step, and is decided there with or
//! without somebody who waits; the client repeats it with its key and gets the first outcome.
mod answer;
mod app;
mod auth;
mod body;
mod call;
mod cluster;
mod credentials;
mod edge;
mod grant;
mod health;
mod keys;
mod leases;
mod metrics;
mod openapi;
mod path;
mod problems;
mod query;
mod resources;
mod routes;
mod runs;
mod serve;
mod tokens;
mod verify;

pub use app::{App, Limits, Settings, SettingsError};
pub use auth::{SecretHash, TOKEN_PREFIX};
pub use metrics::describe as describe_metrics;
pub use serve::serve;

use axum::Router;
use std::sync::Arc;
use utoipa_axum::{router::OpenApiRouter, routes};

/// All routes, with what happens to every request around them.
pub fn router(app: &Arc<App>) -> Router {
    let (router, _document) = resources_of_the_api().split_for_parts();
    router
        .fallback(problems::nothing_here)
        .method_not_allowed_fallback(problems::not_with_this_method)
        .layer(axum::middleware::from_fn_with_state(Arc::clone(app), edge::edge))
        .with_state(Arc::clone(app))
}

/// Handlers with their descriptions: the routes and the OpenAPI document can't part.
fn resources_of_the_api() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(runs::create, runs::list))
        .routes(routes!(runs::show))
        .routes(routes!(runs::end))
        .routes(routes!(runs::revoke))
        .routes(routes!(leases::acquire, leases::list))
        .routes(routes!(leases::show, leases::release))
        .routes(routes!(leases::renew))
        .routes(routes!(resources::show))
        .routes(routes!(tokens::create, tokens::list))
        .routes(routes!(tokens::revoke))
        .routes(routes!(verify::verify))
        .routes(routes!(cluster::show))
        .routes(routes!(keys::show))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(metrics::show))
        .routes(routes!(openapi::show))
        .routes(routes!(problems::show))
}
