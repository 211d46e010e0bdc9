//! The one mapping of answers and errors to HTTP.
//!
//! A handler gives an [`Answer`] or a [`Failure`]. A failure's body is written last, by the edge, since only that
//! knows the id of the request. What is broken inside goes to the log, never into an answer.
use crate::raft::Unavailable;
use axum::{
    body::Body,
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE},
    },
    response::{IntoResponse, Response},
};
use ringfence_core::{Refusal, Reply};
use ringfence_protocol::{ErrorCode, Problem, REPLAYED_HEADER, problem::Applied};
use serde::Serialize;

/// The log index that an answer was given at, on its way to `Ringfence-Revision`.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnsweredAt(pub(super) u64);

/// What is answered where a request was done.
#[derive(Debug)]
pub(super) struct Answer<T> {
    /// The body.
    pub(super) body: T,
    /// The log index of the state that it was given from.
    pub(super) index: u64,
    /// Where the created thing is; its presence makes the answer a `201`.
    pub(super) location: Option<String>,
    /// Whether an earlier request with the same key did it; `None` where no key was sent.
    pub(super) replayed: Option<bool>,
}

impl<T> Answer<T> {
    /// `200`, from the state at `index`.
    pub(super) const fn ok(body: T, index: u64) -> Self {
        Self { body, index, location: None, replayed: None }
    }

    /// `201`, and where what was created is.
    pub(super) fn created_at(mut self, location: String) -> Self {
        self.location = Some(location);
        self
    }

    /// Says whether it repeats an earlier outcome.
    pub(super) const fn replayed(mut self, replayed: Option<bool>) -> Self {
        self.replayed = replayed;
        self
    }
}

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        let status = if self.location.is_some() { StatusCode::CREATED } else { StatusCode::OK };
        let mut response = match serde_json::to_vec(&self.body) {
            Ok(json) => with_body(status, "application/json", json),
            Err(error) => Failure::internal("an answer can't be written as JSON", error).into_response(),
        };
        let headers = response.headers_mut();
        if let Some(location) = self.location.and_then(|location| HeaderValue::try_from(location).ok()) {
            headers.insert(LOCATION, location);
        }
        if let Some(replayed) = self.replayed {
            let replayed = if replayed { "true" } else { "false" };
            headers.insert(HeaderName::from_static(REPLAYED_HEADER), HeaderValue::from_static(replayed));
        }
        response.extensions_mut().insert(AnsweredAt(self.index));
        response
    }
}

/// What is answered where a request was done and there is nothing to say.
#[derive(Debug)]
pub(super) struct Done {
    /// The log index at which it was applied.
    pub(super) index: u64,
}

impl IntoResponse for Done {
    fn into_response(self) -> Response {
        let mut response = StatusCode::NO_CONTENT.into_response();
        response.extensions_mut().insert(AnsweredAt(self.index));
        response
    }
}

/// A response with a body of a type.
pub(super) fn with_body(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    (status, [(CONTENT_TYPE, HeaderValue::from_static(content_type))], body.into()).into_response()
}

/// What is answered where a request was not done, or nobody knows.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    problem: Box<Problem>,
    index: Option<u64>,
}

impl Failure {
    /// A refusal of a code; `detail` says what happened this time.
    pub(super) fn new(error: ErrorCode, detail: impl Into<String>) -> Self {
        Problem::new(error, detail).into()
    }

    /// Something broke inside: the log says what, the answer does not.
    pub(super) fn internal(what: &str, error: impl std::fmt::Display) -> Self {
        tracing::error!(what, %error, "a request met a fault of this node");
        Self::new(ErrorCode::Internal, "this node could not answer; its log says why")
    }

    /// The core gave another kind of answer than the operation has.
    pub(super) fn unexpected(reply: &Reply) -> Self {
        Self::internal("applying a request gave an answer of another kind", format_args!("{reply:?}"))
    }

    /// A refusal of the core.
    pub(super) fn refused(refusal: Refusal) -> Self {
        Problem::from(refusal).into()
    }

    /// Names the log index of the state that it was decided in.
    pub(super) const fn at(mut self, index: u64) -> Self {
        self.index = Some(index);
        self
    }

    /// The stable code.
    pub(super) const fn code(&self) -> ErrorCode {
        self.problem.error
    }

    /// The problem with the id of its request, as a response.
    pub(super) fn render(mut self, request_id: &str) -> Response {
        self.problem.request_id = Some(request_id.to_owned());
        let status = StatusCode::from_u16(self.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let json = serde_json::to_vec(&self.problem).unwrap_or_default();
        let mut response = with_body(status, "application/problem+json", json);
        if let Some(wait_ms) = self.problem.retry_after_ms {
            let seconds = HeaderValue::from(wait_ms.div_ceil(1000));
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
        if status == StatusCode::UNAUTHORIZED {
            // RFC 9110 §11.6.1: a 401 says how to authenticate.
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(index) = self.index {
            response.extensions_mut().insert(AnsweredAt(index));
        }
        response
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self { problem: Box::new(problem), index: None }
    }
}

impl From<Unavailable> for Failure {
    fn from(why: Unavailable) -> Self {
        let (error, applied) = match why {
            Unavailable::NoLeader => (ErrorCode::NoLeader, Applied::No),
            Unavailable::Overloaded => (ErrorCode::Overloaded, Applied::No),
            Unavailable::StorageFull => (ErrorCode::StorageFull, Applied::No),
            Unavailable::ShuttingDown => (ErrorCode::ShuttingDown, Applied::No),
            Unavailable::Uncertain => (ErrorCode::OutcomeUncertain, Applied::Unknown),
        };
        Problem::new(error, why.to_string()).with_applied(applied).into()
    }
}

impl IntoResponse for Failure {
    /// A placeholder: the edge writes the body, with the id of the request.
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() =
            StatusCode::from_u16(self.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
        response.headers().get(name).map(|value| value.to_str().unwrap())
    }

    #[test]
    fn every_reason_to_be_unavailable_says_whether_it_was_applied() {
        for (why, error, applied) in [
            (Unavailable::NoLeader, ErrorCode::NoLeader, Applied::No),
            (Unavailable::Overloaded, ErrorCode::Overloaded, Applied::No),
            (Unavailable::StorageFull, ErrorCode::StorageFull, Applied::No),
            (Unavailable::ShuttingDown, ErrorCode::ShuttingDown, Applied::No),
            (Unavailable::Uncertain, ErrorCode::OutcomeUncertain, Applied::Unknown),
        ] {
            let failure = Failure::from(why);
            assert_eq!((failure.code(), failure.problem.applied), (error, Some(applied)));
        }
    }

    #[test]
    fn retry_after_is_in_whole_seconds_rounded_up() {
        for (wait_ms, seconds) in [(1, "1"), (1000, "1"), (1001, "2")] {
            let mut problem = Problem::new(ErrorCode::Overloaded, "x");
            problem.retry_after_ms = Some(wait_ms);
            assert_eq!(header(&Failure::from(problem).render("id"), "retry-after"), Some(seconds));
        }
    }

    #[test]
    fn an_internal_fault_shows_nothing_of_the_inside() {
        let failure = Failure::internal("reading", "secret detail at /var/lib");
        assert_eq!(failure.code(), ErrorCode::Internal);
        assert!(!failure.problem.detail.contains("secret"));
    }

    #[test]
    fn what_was_created_is_201_with_its_place_and_says_whether_it_is_a_replay() {
        let answer = Answer::ok(7, 3).created_at("/v1/runs/x".into()).replayed(Some(true));
        let response = answer.into_response();
        assert_eq!(response.status(), StatusCode::CREATED);
        assert_eq!(header(&response, "location"), Some("/v1/runs/x"));
        assert_eq!(header(&response, "idempotency-replayed"), Some("true"));
        assert_eq!(response.extensions().get::<AnsweredAt>().unwrap().0, 3);
        assert_eq!(header(&Answer::ok(7, 3).into_response(), "idempotency-replayed"), None);
    }
}
