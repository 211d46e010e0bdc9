//! Why a tree is no value of a type, in the words of the contract.
use super::node::join;
use crate::{ErrorCode, Problem, scope::INVALID_RESOURCE_MARKER};
use alloc::{
    format,
    string::{String, ToString},
};
use core::fmt;
use serde::de;

/// The code, the path of the field, and what is wrong with it.
#[derive(Debug)]
pub(super) struct Rejection {
    code: ErrorCode,
    path: String,
    detail: String,
}

impl Rejection {
    fn new(code: ErrorCode, path: &str, detail: String) -> Self {
        Self { code, path: path.to_string(), detail }
    }

    /// The same, one step further out.
    pub(super) fn within(mut self, step: String) -> Self {
        self.path = join(step, &self.path);
        self
    }

    /// A key that could not be read: where the reader did not name it, this does.
    pub(super) fn at_key(self, name: String) -> Self {
        if self.path.is_empty() { self.within(name) } else { self }
    }

    pub(super) fn into_problem(self) -> Problem {
        let mut problem = Problem::new(self.code, self.detail);
        problem.field = (!self.path.is_empty()).then_some(self.path);
        problem
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.detail)
    }
}

impl de::StdError for Rejection {}

impl de::Error for Rejection {
    fn custom<T: fmt::Display>(message: T) -> Self {
        let text = message.to_string();
        match text.strip_prefix(INVALID_RESOURCE_MARKER) {
            Some(detail) => Self::new(ErrorCode::InvalidResource, "", detail.to_string()),
            None => Self::new(ErrorCode::InvalidField, "", text),
        }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let known = expected.join(", ");
        Self::new(ErrorCode::UnknownField, field, format!("there is no such field here; known are: {known}"))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(ErrorCode::InvalidField, field, "this field is required".to_string())
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::new(ErrorCode::DuplicateField, field, "this field occurs twice".to_string())
    }
}
