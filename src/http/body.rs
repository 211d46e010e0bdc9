//! Bodies: one JSON object each, read strictly, of a bounded size.
use super::answer::Failure;
use axum::{
    body::Body,
    extract::{FromRequest, Request},
    http::{HeaderMap, header::CONTENT_TYPE},
};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use ringfence_protocol::{ErrorCode, json};
use serde::de::DeserializeOwned;

/// The most bytes of a body.
pub(super) const MAX_BODY_BYTES: usize = 256 * 1024;
/// How much of a body that is too large is read and thrown away, so that the caller reads the refusal rather than a
/// reset connection.
const MAX_DISCARDED_BYTES: usize = 4 * 1024 * 1024;

/// A body that must be there.
#[derive(Debug)]
pub(super) struct Json<T>(pub(super) T);

/// A body that may be absent or empty, which then is `{}`.
#[derive(Debug)]
pub(super) struct JsonOrNothing<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        let bytes = read(request).await?;
        json::from_slice(&bytes).map(Self).map_err(Failure::from)
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonOrNothing<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        let bytes = read(request).await?;
        let bytes: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        json::from_slice(bytes).map(Self).map_err(Failure::from)
    }
}

async fn read(request: Request) -> Result<Bytes, Failure> {
    let is_json = is_json(request.headers());
    let bytes = collect(request.into_body()).await?;
    if is_json == Some(true) || (is_json.is_none() && bytes.is_empty()) {
        return Ok(bytes);
    }
    Err(Failure::new(ErrorCode::UnsupportedMediaType, "send the body as `Content-Type: application/json`"))
}

/// Whether the body says that it is JSON in UTF-8 (RFC 8259 §11, §8.1); `None` where it says nothing.
fn is_json(headers: &HeaderMap) -> Option<bool> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let text = values.next()?.to_str().unwrap_or_default();
    let (media, parameters) = text.split_once(';').unwrap_or((text, ""));
    let is_utf8 = |parameter: &str| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        name.trim().eq_ignore_ascii_case("charset")
            && value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
    };
    let mut parameters = parameters.split(';').filter(|parameter| !parameter.trim().is_empty());
    Some(
        values.next().is_none()
            && media.trim().eq_ignore_ascii_case("application/json")
            && parameters.all(is_utf8),
    )
}

/// Reads a body of whatever framing up to the bound.
async fn collect(mut body: Body) -> Result<Bytes, Failure> {
    let mut bytes = BytesMut::new();
    let mut total = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|_| Failure::new(ErrorCode::MalformedJson, "the body did not arrive whole"))?;
        let Ok(data) = frame.into_data() else { continue };
        total = total.saturating_add(data.len());
        if total <= MAX_BODY_BYTES {
            bytes.extend_from_slice(&data);
        } else if total > MAX_DISCARDED_BYTES {
            break;
        }
    }
    if total > MAX_BODY_BYTES {
        let detail = format!("this node takes bodies of at most {MAX_BODY_BYTES} bytes");
        return Err(Failure::new(ErrorCode::BodyTooLarge, detail));
    }
    Ok(bytes.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_protocol::body::RenewLease;

    async fn read_as(content_type: Option<&str>, body: Vec<u8>) -> Result<RenewLease, ErrorCode> {
        let mut request = Request::builder();
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        let request = request.body(Body::from(body)).unwrap();
        let read = JsonOrNothing::<RenewLease>::from_request(request, &()).await;
        read.map(|JsonOrNothing(body)| body).map_err(|failure| failure.code())
    }

    #[tokio::test]
    async fn only_json_in_utf_8_is_taken_and_nothing_at_all_where_there_is_no_body() {
        let ok = Ok(RenewLease::default());
        for good in [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json;charset=\"UTF-8\"",
            "application/json;",
        ] {
            assert_eq!(read_as(Some(good), b"{}".to_vec()).await, ok, "{good}");
        }
        assert_eq!(read_as(None, Vec::new()).await, ok);
        let refused = Err(ErrorCode::UnsupportedMediaType);
        for bad in [
            "text/plain",
            "application/json; charset=latin1",
            "application/jsonx",
            "application/json; v=1",
            "",
        ] {
            assert_eq!(read_as(Some(bad), b"{}".to_vec()).await, refused, "{bad}");
        }
        assert_eq!(read_as(None, b"{}".to_vec()).await, refused);
    }

    #[tokio::test]
    async fn a_body_is_refused_just_above_the_bound() {
        let padded = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2)).into_bytes();
        assert!(read_as(Some("application/json"), padded(MAX_BODY_BYTES)).await.is_ok());
        assert_eq!(
            read_as(Some("application/json"), padded(MAX_BODY_BYTES + 1)).await,
            Err(ErrorCode::BodyTooLarge)
        );
    }
}
