//! The one table of routes: who may ask what. The check before each request and the OpenAPI document both read it.
use axum::{extract::MatchedPath, http::Method, http::Request};
use ringfence_core::{Caller, Right};
use ringfence_protocol::ErrorCode;

/// What a caller needs for a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Nothing.
    Open,
    /// The operator's token, if the node says so.
    Metrics,
    /// A credential with this right.
    Right(Right),
}

/// One route.
#[derive(Debug)]
pub(super) struct Route {
    /// `GET`, `POST` or `DELETE`.
    pub(super) method: &'static str,
    /// The path, with `{…}` for what varies.
    pub(super) path: &'static str,
    /// What a caller needs.
    pub(super) access: Access,
    /// The query parameters that it knows; any other is refused.
    pub(super) query: &'static [&'static str],
    /// Whether it takes an `Idempotency-Key`.
    pub(super) keyed: bool,
    /// What can be refused here beside what can be refused anywhere.
    pub(super) refusals: &'static [ErrorCode],
}

use ErrorCode::{
    ActionNotPermitted, AlreadyHeld, DuplicateField, FingerprintConflict, IdempotencyKeyInvalid,
    InvalidField, InvalidResource, InvalidTransition, LeaseEnded, LimitExceeded, MalformedJson, NotFound,
    OutOfScope, OutsideAllowance, RunEnded, ScopeTooBroad, StaleFence, UnknownField, UnsupportedMediaType,
    WriteSetConflict,
};

const fn route(method: &'static str, path: &'static str, access: Access) -> Route {
    Route { method, path, access, query: &[], keyed: false, refusals: &[] }
}

const fn read(path: &'static str, right: Right) -> Route {
    route("GET", path, Access::Right(right))
}

const fn write(method: &'static str, path: &'static str, right: Right) -> Route {
    route(method, path, Access::Right(right))
}

impl Route {
    const fn query(self, query: &'static [&'static str]) -> Self {
        Self { query, ..self }
    }

    const fn keyed(self) -> Self {
        Self { keyed: true, ..self }
    }

    const fn refuses(self, refusals: &'static [ErrorCode]) -> Self {
        Self { refusals, ..self }
    }

    /// Whether it reads and says so in the contract.
    pub(super) fn is_of_the_api(&self) -> bool {
        self.path.starts_with("/v1/")
    }

    /// The kinds of callers that may ask, for the document.
    pub(super) fn callers(&self) -> Vec<Caller> {
        match self.access {
            Access::Open | Access::Metrics => Vec::new(),
            Access::Right(right) => Caller::ALL.into_iter().filter(|caller| right.is_of(*caller)).collect(),
        }
    }

    /// Whether the request has a body.
    pub(super) fn has_body(&self) -> bool {
        self.method == "POST"
    }
}

const STALE: &[&str] = &["consistency"];
const PAGE: &[&str] = &["state", "limit", "cursor", "consistency"];

/// All routes. The test of the OpenAPI document compares it with what is served.
pub(super) static ROUTES: &[Route] = &[
    write("POST", "/v1/runs", Right::CreateRun).keyed().refuses(&[
        FingerprintConflict,
        InvalidResource,
        LimitExceeded,
        ScopeTooBroad,
    ]),
    read("/v1/runs", Right::ReadTenant).query(PAGE),
    read("/v1/runs/{run}", Right::ReadTenant).query(STALE).refuses(&[NotFound]),
    write("POST", "/v1/runs/{run}/end", Right::EndRun).keyed().refuses(&[
        FingerprintConflict,
        InvalidTransition,
        NotFound,
    ]),
    write("POST", "/v1/runs/{run}/revoke", Right::RevokeRun).keyed().refuses(&[
        FingerprintConflict,
        InvalidTransition,
        NotFound,
    ]),
    write("POST", "/v1/leases", Right::HoldLease).keyed().refuses(&[
        AlreadyHeld,
        FingerprintConflict,
        InvalidResource,
        LeaseEnded,
        LimitExceeded,
        NotFound,
        OutsideAllowance,
        RunEnded,
        ScopeTooBroad,
        WriteSetConflict,
    ]),
    read("/v1/leases", Right::ReadTenant)
        .query(&["run", "scope", "state", "limit", "cursor", "consistency"])
        .refuses(&[InvalidResource, NotFound]),
    read("/v1/leases/{lease}", Right::ReadTenant).query(STALE).refuses(&[NotFound]),
    write("DELETE", "/v1/leases/{lease}", Right::HoldLease).refuses(&[NotFound, RunEnded]),
    write("POST", "/v1/leases/{lease}/renew", Right::HoldLease).refuses(&[LeaseEnded, NotFound, RunEnded]),
    read("/v1/resources/{*resource}", Right::ReadTenant).query(STALE).refuses(&[InvalidResource]),
    write("POST", "/v1/tokens", Right::ManageTokens).keyed().refuses(&[FingerprintConflict, LimitExceeded]),
    read("/v1/tokens", Right::ManageTokens).query(&["tenant", "limit", "cursor", "consistency"]),
    write("DELETE", "/v1/tokens/{token}", Right::ManageTokens).refuses(&[NotFound]),
    read("/v1/cluster", Right::ReadCluster),
    write("POST", "/v1/verify", Right::Verify).refuses(&[
        ActionNotPermitted,
        InvalidResource,
        LeaseEnded,
        NotFound,
        OutOfScope,
        StaleFence,
    ]),
    route("GET", "/.well-known/jwks.json", Access::Open),
    route("GET", "/healthz", Access::Open),
    route("GET", "/readyz", Access::Open),
    route("GET", "/metrics", Access::Metrics),
    route("GET", "/openapi.json", Access::Open),
    route("GET", "/problems/{error}", Access::Open).refuses(&[NotFound]),
];

/// What any request of the API may be refused with.
pub(super) const ANYWHERE: &[ErrorCode] = &[
    ErrorCode::Unauthenticated,
    ErrorCode::CredentialExpired,
    ErrorCode::CredentialRevoked,
    ErrorCode::Forbidden,
    RunEnded,
    InvalidField,
    ErrorCode::HeadersTooLarge,
    ErrorCode::Internal,
    ErrorCode::NoLeader,
    ErrorCode::Overloaded,
    ErrorCode::ShuttingDown,
];

/// What a request with a body may be refused with.
pub(super) const WITH_BODY: &[ErrorCode] = &[
    MalformedJson,
    UnknownField,
    DuplicateField,
    InvalidField,
    ErrorCode::BodyTooLarge,
    UnsupportedMediaType,
];

/// What a request with a key may be refused with.
pub(super) const WITH_KEY: &[ErrorCode] = &[IdempotencyKeyInvalid];

/// The route that the router found for a request; `HEAD` is what `GET` is.
pub(super) fn of<B>(request: &Request<B>) -> Option<&'static Route> {
    let matched = request.extensions().get::<MatchedPath>()?.as_str();
    let method = if request.method() == Method::HEAD { "GET" } else { request.method().as_str() };
    ROUTES.iter().find(|route| route.method == method && route.path == matched)
}

/// Whether the path is a route's, whatever the method: then a wrong method is worth counting as that route.
pub(super) fn path_of<B>(request: &Request<B>) -> &'static str {
    let matched = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    ROUTES.iter().find(|route| Some(route.path) == matched).map_or("none", |route| route.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_route_is_there_twice() {
        for (at, route) in ROUTES.iter().enumerate() {
            let same =
                ROUTES[..at].iter().any(|other| (other.method, other.path) == (route.method, route.path));
            assert!(!same, "{} {}", route.method, route.path);
        }
    }

    #[test]
    fn everything_under_v1_asks_for_a_right_and_nothing_else_does() {
        for route in ROUTES {
            assert_eq!(matches!(route.access, Access::Right(_)), route.is_of_the_api(), "{}", route.path);
        }
    }

    #[test]
    fn only_reads_take_a_consistency_and_only_posts_take_a_key() {
        for route in ROUTES {
            assert!(route.method == "GET" || route.query.is_empty(), "{}", route.path);
            assert!(route.method == "POST" || !route.keyed, "{}", route.path);
        }
    }
}
