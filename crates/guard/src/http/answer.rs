//! What goes back: problems, and representations with their tag.
use crate::{error::GuardError, refusal::Refusal, tag::Version};
use axum_core::response::{IntoResponse, Response};
use http::{
    HeaderName, HeaderValue, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, RETRY_AFTER, WWW_AUTHENTICATE},
};
use ringfence_protocol::{ErrorCode, Problem};

/// A refusal as an HTTP answer: `application/problem+json`, never cached (RFC 6585 §3 asks that of a 428).
#[derive(Debug)]
pub struct Answer(Box<Problem>);

impl Answer {
    /// The problem that goes back.
    #[must_use]
    pub const fn problem(&self) -> &Problem {
        &self.0
    }
}

impl From<Problem> for Answer {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Problem::from(refusal).into()
    }
}

/// What the store failed with goes to the log, and not to the caller.
impl<E: std::error::Error + 'static> From<GuardError<E>> for Answer {
    fn from(error: GuardError<E>) -> Self {
        if let GuardError::Store(source) = &error {
            tracing::error!(
                error = source as &dyn std::error::Error,
                "the store of a guarded resource failed"
            );
        }
        error.into_problem().into()
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let problem = *self.0;
        let body = serde_json::to_vec(&problem).expect("a problem is made of texts and numbers");
        let mut response = Response::new(body.into());
        *response.status_mut() =
            StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some((name, value)) = extra_header(&problem) {
            headers.insert(name, value);
        }
        response
    }
}

/// What RFC 9110 wants beside these statuses.
fn extra_header(problem: &Problem) -> Option<(HeaderName, HeaderValue)> {
    if problem.status == 401 {
        return Some((WWW_AUTHENTICATE, HeaderValue::from_static("Ringfence-Grant")));
    }
    let seconds = problem.retry_after_ms?.div_ceil(1000);
    Some((RETRY_AFTER, seconds.into()))
}

/// An answer about a resource at a version: sets the strong `ETag`, and `Cache-Control: no-transform`, since a
/// proxy that compresses would change or weaken the tag.
#[derive(Debug, Clone, Copy)]
pub struct Versioned<R>(pub Version, pub R);

impl<R: IntoResponse> IntoResponse for Versioned<R> {
    fn into_response(self) -> Response {
        let Self(version, inner) = self;
        let mut response = inner.into_response();
        let headers = response.headers_mut();
        if let Ok(tag) = HeaderValue::from_str(&version.etag()) {
            headers.insert(ETAG, tag);
        }
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-transform"));
        response
    }
}

/// `304`: the caller has what is there. Goes within [`Versioned`].
#[derive(Debug, Clone, Copy)]
pub struct NotModified;

impl IntoResponse for NotModified {
    fn into_response(self) -> Response {
        StatusCode::NOT_MODIFIED.into_response()
    }
}

/// A failure of the service itself, of which the caller is told nothing.
pub(super) fn internal(what: &'static str) -> Answer {
    tracing::error!("{what}");
    Problem::new(ErrorCode::Internal, "the service failed; nothing has been written").into()
}
