//! What must hold for every answer, whatever was asked.
use crate::{http::Connection, world::Reply};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request};
use ringfence_protocol::ErrorCode;
use serde_json::Value;
use std::net::SocketAddr;

/// The OpenAPI document as a node serves it.
pub(crate) struct Document(Value);

impl Document {
    pub(crate) async fn of(address: SocketAddr) -> Self {
        let mut connection = Connection::open(address).await;
        let request = Request::builder().uri("/openapi.json").body(Full::<Bytes>::default()).unwrap();
        let response = connection.send(request).await;
        Self(serde_json::from_slice(response.body()).unwrap())
    }

    /// The description of the route that a request belongs to.
    fn operation(&self, method: &Method, path: &str) -> Option<&Value> {
        let path = path.split('?').next().unwrap();
        let paths = self.0["paths"].as_object().unwrap();
        let item = paths.iter().find(|(template, _)| matches(template, path))?.1;
        item.get(method.as_str().to_lowercase())
    }

    /// Method, path and the callers that may, for every route that asks for a right.
    pub(crate) fn rights(&self) -> Vec<(Method, String, Vec<String>)> {
        let paths = self.0["paths"].as_object().unwrap().iter();
        let operations = paths.flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().iter();
            methods.map(move |(method, operation)| (path.clone(), method.to_uppercase(), operation))
        });
        let rights = operations.filter_map(|(path, method, operation)| {
            let roles = operation.get("x-roles")?.as_array()?.iter();
            let roles = roles.map(|role| role.as_str().unwrap().to_owned()).collect();
            Some((method.parse().unwrap(), path, roles))
        });
        rights.collect()
    }
}

fn matches(template: &str, path: &str) -> bool {
    if let Some(prefix) = template.strip_suffix("{resource}") {
        return path.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty());
    }
    let (mut parts, mut wanted) = (path.split('/'), template.split('/'));
    loop {
        match (parts.next(), wanted.next()) {
            (None, None) => return true,
            (Some(part), Some(wanted)) if part == wanted || (wanted.starts_with('{') && !part.is_empty()) => {
            }
            (Some(_) | None, Some(_) | None) => return false,
        }
    }
}

/// Holds an answer against what every answer must be.
#[track_caller]
pub(crate) fn check(document: &Document, method: &Method, path: &str, reply: &Reply) {
    let seen = format!("{method} {path}: {} {}", reply.status, reply.text);
    let id = reply.header("x-request-id").unwrap_or_else(|| panic!("no request id: {seen}"));
    if path.starts_with("/v1/") {
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{seen}");
        // Only a node whose cluster has not begun has no revision to name.
        let revision =
            reply.header("ringfence-revision").is_some_and(|revision| revision.starts_with("inc_"));
        assert!(revision || reply.status == 503, "no revision: {seen}");
    }
    let operation = document.operation(method, path);
    if reply.status < 400 {
        let described = operation.unwrap_or_else(|| panic!("nowhere described: {seen}"));
        assert!(described["responses"].get(reply.status.to_string()).is_some(), "not described: {seen}");
        return;
    }
    assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{seen}");
    let code: ErrorCode = reply.json["error"].as_str().unwrap().parse().unwrap();
    assert_eq!(reply.json["request_id"], id, "{seen}");
    check_members(code, reply, &seen);
    // Where no route is, there is nothing to describe.
    if let Some(operation) = operation {
        let described = &operation["responses"][reply.status.to_string()]["x-errors"];
        let described = described.as_array().map(Vec::as_slice).unwrap_or_default();
        assert!(described.iter().any(|error| error == code.as_str()), "{code} is not described: {seen}");
    }
}

/// The members that are fixed for each code.
#[track_caller]
fn check_members(code: ErrorCode, reply: &Reply, seen: &str) {
    let word = |value: Result<Value, serde_json::Error>| value.unwrap();
    assert_eq!(reply.status, code.status(), "{seen}");
    assert_eq!(reply.json["status"], code.status(), "{seen}");
    assert_eq!(reply.json["type"], format!("/problems/{code}"), "{seen}");
    assert_eq!(reply.json["title"], code.title(), "{seen}");
    assert_eq!(reply.json["category"], word(serde_json::to_value(code.category())), "{seen}");
    assert_eq!(reply.json["resolver"], word(serde_json::to_value(code.resolver())), "{seen}");
    assert_eq!(reply.json["retryable"], code.retryable(), "{seen}");
    assert_eq!(reply.json["applied"].is_string(), code.status() == 503, "{seen}");
    let wait_ms = reply.json["retry_after_ms"].as_u64();
    assert_eq!(wait_ms.is_some(), reply.json["resolver"] == "wait", "{seen}");
    let seconds = wait_ms.map(|wait_ms| wait_ms.div_ceil(1000).to_string());
    assert_eq!(reply.header("retry-after"), seconds.as_deref(), "{seen}");
    assert_eq!(reply.header("www-authenticate").is_some(), code.status() == 401, "{seen}");
}
