//! What varies in a path.
use super::answer::Failure;
use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};
use ringfence_protocol::{ErrorCode, Problem, ResourceId};
use std::str::FromStr;

/// The one id in a path. What is no id of this kind is nothing that is here: `not_found`.
#[derive(Debug)]
pub(super) struct Id<T>(pub(super) T);

impl<S: Send + Sync, T: FromStr> FromRequestParts<S> for Id<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let parsed = segment(parts, state).await.and_then(|text| text.parse().ok());
        parsed.map(Self).ok_or_else(|| Failure::new(ErrorCode::NotFound, "there is no such id"))
    }
}

/// A resource id that is the rest of a path.
#[derive(Debug)]
pub(super) struct ResourcePath(pub(super) ResourceId);

impl<S: Send + Sync> FromRequestParts<S> for ResourcePath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let malformed = |detail: String| Failure::from(Problem::new(ErrorCode::InvalidResource, detail));
        // Proxies differ on whether `%2F` is a `/`: two readers would see two resources.
        if parts.uri.path().to_ascii_lowercase().contains("%2f") {
            return Err(malformed("write the `/` between segments as it is, not as `%2F`".to_owned()));
        }
        let text = segment(parts, state).await.unwrap_or_default();
        text.parse().map(Self).map_err(|error: <ResourceId as FromStr>::Err| malformed(error.to_string()))
    }
}

/// The decoded text of the one parameter in the path.
async fn segment<S: Send + Sync>(parts: &mut Parts, state: &S) -> Option<String> {
    let parameters = RawPathParams::from_request_parts(parts, state).await.ok()?;
    parameters.iter().next().map(|(_, text)| text.to_owned())
}
