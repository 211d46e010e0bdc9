//! Strict reading of JSON bodies (RFC 8259 on RFC 7493).
//!
//! Every way to be wrong has its own problem: not JSON, a member that occurs twice, a field that nobody knows, a
//! value of the wrong type, a malformed scope. serde_json alone would keep the last of two equal members
//! silently, and derived readers would take an array for an object; here both are refused. So a misspelt
//! `ttl_sm` never becomes a default, and no two readers see different commands in one body.
mod node;
mod rejection;

use crate::{ErrorCode, Problem};
use node::Node;
use rejection::Rejection;
use serde::de::DeserializeOwned;

/// Reads one JSON object as `T`.
///
/// # Errors
/// A [`Problem`] with `malformed_json`, `duplicate_field`, `unknown_field`, `invalid_field` or
/// `invalid_resource`; all but the first name the field by its path.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let node = parse(bytes)?;
    if !matches!(node, Node::Object(_)) {
        return Err(Problem::new(ErrorCode::MalformedJson, "the body is JSON, but not an object"));
    }
    T::deserialize(node).map_err(Rejection::into_problem)
}

fn parse(bytes: &[u8]) -> Result<Node, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed = node::read(&mut reader);
    parsed.and_then(|node| reader.end().map(|()| node).map_err(node::Unread::Syntax)).map_err(|unread| {
        match unread {
            node::Unread::Duplicate(path) => {
                let mut problem =
                    Problem::new(ErrorCode::DuplicateField, alloc::format!("`{path}` occurs twice"));
                problem.field = Some(path);
                problem
            }
            node::Unread::Syntax(error) => {
                let place = alloc::format!("line {}, column {}", error.line(), error.column());
                Problem::new(ErrorCode::MalformedJson, alloc::format!("not valid JSON at {place}"))
            }
        }
    })
}

/// Whether the bytes are one JSON text in which no object has two equal members.
#[must_use]
pub fn is_strict_json(bytes: &[u8]) -> bool {
    parse(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{AcquireLease, CreateRun, RenewLease};
    use alloc::string::{String, ToString};

    fn refusal<T: DeserializeOwned + core::fmt::Debug>(body: &str) -> (ErrorCode, Option<String>) {
        let problem = from_slice::<T>(body.as_bytes()).unwrap_err();
        (problem.error, problem.field)
    }

    #[test]
    fn every_way_to_be_wrong_has_its_own_problem_and_names_the_field() {
        let ok = r#""write_set":[{"scope":"a/b","mode":"exclusive"}]"#;
        let cases = [
            ("{".to_string(), ErrorCode::MalformedJson, None),
            ("[]".to_string(), ErrorCode::MalformedJson, None),
            ("{} {}".to_string(), ErrorCode::MalformedJson, None),
            (alloc::format!("{{{ok},\"ttl_sm\":5}}"), ErrorCode::UnknownField, Some("ttl_sm")),
            (alloc::format!("{{{ok},\"ttl_ms\":5,\"ttl_ms\":6}}"), ErrorCode::DuplicateField, Some("ttl_ms")),
            (
                alloc::format!("{{{ok},\"ttl_ms\":5,\"\\u0074tl_ms\":6}}"),
                ErrorCode::DuplicateField,
                Some("ttl_ms"),
            ),
            (alloc::format!("{{{ok},\"ttl_ms\":\"5\"}}"), ErrorCode::InvalidField, Some("ttl_ms")),
            (alloc::format!("{{{ok},\"ttl_ms\":5.0}}"), ErrorCode::InvalidField, Some("ttl_ms")),
            (alloc::format!("{{{ok},\"ttl_ms\":-5}}"), ErrorCode::InvalidField, Some("ttl_ms")),
            (alloc::format!("{{{ok},\"purpose\":\"a\\nb\"}}"), ErrorCode::InvalidField, Some("purpose")),
            ("{}".to_string(), ErrorCode::InvalidField, Some("write_set")),
            (
                r#"{"write_set":[{"scope":"a/b","mode":"exclusive"},{"scope":"a//b","mode":"shared"}]}"#
                    .to_string(),
                ErrorCode::InvalidResource,
                Some("write_set[1].scope"),
            ),
            (
                r#"{"write_set":[["a/b","exclusive"]]}"#.to_string(),
                ErrorCode::InvalidField,
                Some("write_set[0]"),
            ),
            (
                r#"{"write_set":[{"scope":"a/b","mode":"exclusiv"}]}"#.to_string(),
                ErrorCode::InvalidField,
                Some("write_set[0].mode"),
            ),
            (
                r#"{"write_set":[{"scope":"a/b","mode":"shared","x":1}]}"#.to_string(),
                ErrorCode::UnknownField,
                Some("write_set[0].x"),
            ),
        ];
        for (body, code, field) in cases {
            assert_eq!(refusal::<AcquireLease>(&body), (code, field.map(String::from)), "{body}");
        }
    }

    #[test]
    fn maps_refuse_equal_keys_at_any_depth() {
        assert_eq!(
            refusal::<CreateRun>(r#"{"name":"n","labels":{"a":"1","a":"2"}}"#),
            (ErrorCode::DuplicateField, Some("labels.a".to_string()))
        );
    }

    #[test]
    fn what_is_absent_or_null_takes_its_default() {
        assert_eq!(from_slice::<RenewLease>(b" {\"progress\": null} ").unwrap(), RenewLease::default());
        assert_eq!(from_slice::<RenewLease>(b"{}").unwrap(), RenewLease::default());
    }

    #[test]
    fn a_deep_body_is_refused_and_does_not_overflow_the_stack() {
        let deep = alloc::format!("{{\"a\":{}", "[".repeat(100_000));
        assert_eq!(refusal::<RenewLease>(&deep).0, ErrorCode::MalformedJson);
    }
}
