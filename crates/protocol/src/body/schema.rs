//! Schemas of text types.
use utoipa::openapi::{
    RefOr, Schema,
    schema::{ObjectBuilder, Type},
};

/// A string with a description, a pattern (empty: none) and an example.
pub(crate) fn string(description: &str, pattern: &str, example: &str) -> RefOr<Schema> {
    let pattern = (!pattern.is_empty()).then_some(pattern);
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
        .pattern(pattern)
        .examples([example])
        .into()
}
