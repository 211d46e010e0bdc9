//! One request of the API: method, path, body and key. What it means to send it again is decided here.
use crate::error::Error;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header, uri::PathAndQuery};
use ringfence_protocol::idempotency::{IDEMPOTENCY_KEY_HEADER, IdempotencyKey};
use serde::Serialize;
use std::time::Duration;

/// A new key: 128 random bits, so that no two intents share one.
#[must_use]
pub fn fresh_key() -> IdempotencyKey {
    let bits: u128 = rand::random();
    IdempotencyKey::from_header(format!("{bits:032x}").as_bytes()).expect("hexadecimal digits are a bare key")
}

/// A request as the caller means it: sent to one node after another until there is an answer, always the same.
///
/// Every constructor makes a request that may be repeated: reads and `DELETE` by the contract, a [`post`](Self::post)
/// by its `Idempotency-Key`.
#[derive(Debug, Clone)]
pub struct Call {
    method: Method,
    path: String,
    body: Option<Result<Bytes, String>>,
    key: Option<IdempotencyKey>,
    within: Option<Duration>,
    changes: bool,
}

impl Call {
    /// `GET`. `path` has the query with it and is encoded as it should be sent.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path.into(), false)
    }

    /// `DELETE`: repeating it answers the same.
    pub fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path.into(), true)
    }

    /// A `POST` that creates or ends something, with a [`fresh_key`].
    pub fn post<B: Serialize>(path: impl Into<String>, body: &B) -> Self {
        Self::renewal(path, body).key(fresh_key())
    }

    /// A `POST` that changes something but is no other thing when sent twice: a renewal. It has no key.
    pub fn renewal<B: Serialize>(path: impl Into<String>, body: &B) -> Self {
        let mut call = Self::new(Method::POST, path.into(), true);
        let json = serde_json::to_vec(body).map(Bytes::from);
        call.body = Some(json.map_err(|error| error.to_string()));
        call
    }

    /// A `POST` that only asks: it changes nothing and has no key.
    pub fn question<B: Serialize>(path: impl Into<String>, body: &B) -> Self {
        let mut call = Self::renewal(path, body);
        call.changes = false;
        call
    }

    fn new(method: Method, path: String, changes: bool) -> Self {
        Self { method, path, body: None, key: None, within: None, changes }
    }

    /// Sends this key: the caller's own, which it keeps to repeat the call later.
    #[must_use]
    pub fn key(mut self, key: IdempotencyKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Gives up after this long instead of the client's own deadline.
    #[must_use]
    pub const fn within(mut self, deadline: Duration) -> Self {
        self.within = Some(deadline);
        self
    }

    pub(crate) const fn deadline(&self) -> Option<Duration> {
        self.within
    }

    pub(crate) fn outgoing(self, token: Option<&HeaderValue>) -> Result<Outgoing, Error> {
        let invalid = |what: String| Error::Invalid(what);
        let path: PathAndQuery =
            (self.path.parse()).map_err(|error| invalid(format!("{}: {error}", self.path)))?;
        let mut headers = HeaderMap::new();
        headers
            .insert(header::ACCEPT, HeaderValue::from_static("application/json, application/problem+json"));
        if let Some(token) = token {
            headers.insert(header::AUTHORIZATION, token.clone());
        }
        if self.body.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(key) = &self.key {
            let value = HeaderValue::try_from(key.to_header()).map_err(|error| invalid(error.to_string()))?;
            headers.insert(IDEMPOTENCY_KEY_HEADER, value);
        }
        Ok(Outgoing {
            method: self.method,
            path,
            headers,
            body: self.body.transpose().map_err(invalid)?.unwrap_or_default(),
            key: self.key,
            changes: self.changes,
        })
    }
}

/// A request ready to be sent, any number of times, always the same.
#[derive(Debug)]
pub(crate) struct Outgoing {
    method: Method,
    path: PathAndQuery,
    headers: HeaderMap,
    body: Bytes,
    pub(crate) key: Option<IdempotencyKey>,
    /// Whether it may change anything: what can't change anything is never in doubt.
    pub(crate) changes: bool,
}

impl Outgoing {
    pub(crate) fn at(&self, node: &crate::nodes::NodeUrl) -> http::Request<Bytes> {
        let mut request = http::Request::new(self.body.clone());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = node.join(&self.path);
        *request.headers_mut() = self.headers.clone();
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_keys_differ_and_have_128_bits() {
        let (a, b) = (fresh_key(), fresh_key());
        assert_ne!(a, b);
        assert_eq!(a.as_str().len(), 32);
    }

    #[test]
    fn each_sending_of_a_call_is_the_same_request() {
        let call = Call::post("/v1/runs", &serde_json::json!({"name": "n"}));
        let outgoing = call.outgoing(Some(&HeaderValue::from_static("Bearer t"))).unwrap();
        let node = "http://a:1".parse().unwrap();
        let (first, second) = (outgoing.at(&node), outgoing.at(&node));
        assert_eq!(first.headers(), second.headers());
        assert!(first.headers().contains_key(IDEMPOTENCY_KEY_HEADER));
        assert_eq!((first.uri(), first.body()), (second.uri(), second.body()));
    }

    #[test]
    fn a_path_that_is_none_is_refused_before_anything_is_sent() {
        assert!(matches!(Call::get("/v1/a b").outgoing(None), Err(Error::Invalid(_))));
    }
}
