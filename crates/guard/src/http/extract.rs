//! What handlers ask for.
use super::{
    answer::{Answer, internal},
    inspect::Inspected,
};
use crate::{
    precondition::{Expected, Preconditions},
    verifier::VerifiedGrant,
};
use axum_core::{
    extract::{FromRequest, FromRequestParts, Request},
    response::IntoResponse,
};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header::CONTENT_TYPE, request::Parts};
use ringfence_protocol::{ErrorCode, Problem, json};
use serde::de::DeserializeOwned;

/// What a write needs: asked for by a `POST` it refuses as the layer does for the other methods.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GuardedWrite {
    /// Who writes.
    pub grant: VerifiedGrant,
    /// The version that the write expects.
    pub expected: Expected,
}

/// What a read may bring: neither is needed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GuardedRead {
    /// Who reads, where a grant was sent: to be given to [`Guard::observe`](crate::Guard::observe).
    pub grant: Option<VerifiedGrant>,
    /// When the caller wants the representation.
    pub preconditions: Preconditions,
}

impl<S: Sync> FromRequestParts<S> for GuardedWrite {
    type Rejection = Answer;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Answer> {
        let (grant, expected) = inspected(parts)?.for_write()?;
        Ok(Self { grant, expected })
    }
}

impl<S: Sync> FromRequestParts<S> for GuardedRead {
    type Rejection = Answer;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Answer> {
        let Inspected { grant, preconditions } = inspected(parts)?.clone();
        Ok(Self { grant, preconditions })
    }
}

fn inspected(parts: &Parts) -> Result<&Inspected, Answer> {
    let inspected = parts.extensions.get::<Inspected>();
    inspected.ok_or_else(|| internal("a guarded handler is on a route without the guard's layer"))
}

/// A JSON body, read strictly: duplicate members, unknown fields and wrong types each have their own problem.
#[derive(Debug, Clone, Copy)]
pub struct StrictJson<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for StrictJson<T> {
    type Rejection = Answer;

    async fn from_request(request: Request, state: &S) -> Result<Self, Answer> {
        if !is_json(request.headers()) {
            let detail = "send `application/json`";
            return Err(Problem::new(ErrorCode::UnsupportedMediaType, detail).into());
        }
        let body = Bytes::from_request(request, state)
            .await
            .map_err(|rejection| unread(rejection.into_response().status()))?;
        Ok(Self(json::from_slice(&body)?))
    }
}

fn unread(status: StatusCode) -> Answer {
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        Problem::new(ErrorCode::BodyTooLarge, "the body is larger than this service takes").into()
    } else {
        Problem::new(ErrorCode::MalformedJson, "the body did not arrive whole").into()
    }
}

/// `application/json`, or a type that ends in `+json` such as `application/merge-patch+json`.
fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| {
        let essence = value.split(';').next().unwrap_or_default().trim_ascii().to_ascii_lowercase();
        essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
    })
}
