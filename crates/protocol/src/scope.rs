//! Resource ids and scopes: what a lease is about.
use crate::text::checked_text;
use alloc::{string::String, sync::Arc};
use core::{borrow::Borrow, fmt, str::FromStr};

/// The most bytes a resource id has.
pub const MAX_RESOURCE_BYTES: usize = 512;
/// The most segments a resource id has.
pub const MAX_SEGMENTS: usize = 16;
/// The most bytes a segment has.
pub const MAX_SEGMENT_BYTES: usize = 128;
/// What makes a scope of a resource id: that resource and all below it.
pub const SUBTREE_SUFFIX: &str = "/**";

/// Why a text is no resource id or scope. The text itself isn't repeated: it may be anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceError {
    /// Nothing there.
    Empty,
    /// More than [`MAX_RESOURCE_BYTES`].
    TooLong(usize),
    /// More than [`MAX_SEGMENTS`].
    TooManySegments(usize),
    /// A segment (counted from 1) is empty, `.`, `..` or longer than [`MAX_SEGMENT_BYTES`].
    BadSegment(usize),
    /// A segment (counted from 1) has a character that is not allowed.
    BadCharacter(usize),
}

impl fmt::Display for ResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The JSON reader tells a bad resource from another bad field by this marker.
        f.write_str(INVALID_RESOURCE_MARKER)?;
        match self {
            Self::Empty => f.write_str("a resource id has 1 to 16 segments joined by `/`, this one is empty"),
            Self::TooLong(bytes) => {
                write!(f, "a resource id has at most {MAX_RESOURCE_BYTES} bytes, this one {bytes}")
            }
            Self::TooManySegments(count) => {
                write!(f, "a resource id has at most {MAX_SEGMENTS} segments, this one {count}")
            }
            Self::BadSegment(at) => write!(
                f,
                "segment {at} is empty, `.`, `..` or longer than {MAX_SEGMENT_BYTES} bytes; \
                 write the id without doubled, leading or trailing `/`"
            ),
            Self::BadCharacter(at) => write!(
                f,
                "segment {at} has a character outside `A-Z a-z 0-9 . _ ~ : @ + -` (only a scope may end in `/**`)"
            ),
        }
    }
}

impl core::error::Error for ResourceError {}

/// Begins the text of every [`ResourceError`].
pub const INVALID_RESOURCE_MARKER: &str = "invalid resource: ";

fn check_resource(text: &str) -> Result<(), ResourceError> {
    if text.is_empty() {
        return Err(ResourceError::Empty);
    }
    if text.len() > MAX_RESOURCE_BYTES {
        return Err(ResourceError::TooLong(text.len()));
    }
    let mut count = 0;
    for segment in text.split('/') {
        count += 1;
        if segment.is_empty() || segment == "." || segment == ".." || segment.len() > MAX_SEGMENT_BYTES {
            return Err(ResourceError::BadSegment(count));
        }
        if !segment.bytes().all(is_segment_byte) {
            return Err(ResourceError::BadCharacter(count));
        }
    }
    if count > MAX_SEGMENTS { Err(ResourceError::TooManySegments(count)) } else { Ok(()) }
}

const fn is_segment_byte(byte: u8) -> bool {
    matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'~' | b':' | b'@' | b'+' | b'-')
}

/// One resource: 1–16 segments of `A-Z a-z 0-9 . _ ~ : @ + -` joined by `/`, at most 512 bytes.
///
/// Case counts; there is one spelling an id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(Arc<str>);

checked_text!(
    ResourceId,
    "1-16 segments joined by `/`, each 1-128 of `A-Z a-z 0-9 . _ ~ : @ + -`, at most 512 bytes.",
    "release/prod-eu"
);

impl FromStr for ResourceId {
    type Err = ResourceError;

    fn from_str(text: &str) -> Result<Self, ResourceError> {
        check_resource(text)?;
        Ok(Self(text.into()))
    }
}

impl ResourceId {
    /// The scope of this resource alone.
    #[must_use]
    pub fn scope(&self) -> Scope {
        Scope(self.0.clone())
    }
}

/// A resource, or a resource and all below it (`…/**`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(Arc<str>);

checked_text!(
    Scope,
    "A resource id, or a resource id followed by `/**`: that resource and all below it.",
    "config/eu/**"
);

impl FromStr for Scope {
    type Err = ResourceError;

    fn from_str(text: &str) -> Result<Self, ResourceError> {
        check_resource(text.strip_suffix(SUBTREE_SUFFIX).unwrap_or(text))?;
        Ok(Self(text.into()))
    }
}

/// Scopes are ordered by their text, so that maps of them can be asked with a text.
impl Borrow<str> for Scope {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Scope {
    /// Whether it takes in all below its resource.
    #[must_use]
    pub fn is_subtree(&self) -> bool {
        self.0.ends_with(SUBTREE_SUFFIX)
    }

    /// The resource id in it, without `/**`.
    #[must_use]
    pub fn resource(&self) -> &str {
        self.0.strip_suffix(SUBTREE_SUFFIX).unwrap_or(&self.0)
    }

    /// How many segments its resource id has.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.resource().split('/').count()
    }

    /// Whether all of `other` lies within this scope.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        if self.is_subtree() { is_at_or_below(other.resource(), self.resource()) } else { self.0 == other.0 }
    }

    /// Whether the resource lies within this scope.
    #[must_use]
    pub fn covers(&self, resource: &ResourceId) -> bool {
        if self.is_subtree() { is_at_or_below(&resource.0, self.resource()) } else { *self.0 == *resource.0 }
    }

    /// Whether the two have a resource in common: one contains the other.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other) || other.contains(self)
    }

    /// The texts of all `/**` scopes that contain this one's resource, the scope's own `/**` among them, from
    /// the root down.
    pub fn covering_subtrees(&self) -> impl Iterator<Item = String> + '_ {
        let resource = self.resource();
        let ends = resource.match_indices('/').map(|(at, _)| at).chain(core::iter::once(resource.len()));
        ends.map(move |end| {
            let mut text = String::with_capacity(end + SUBTREE_SUFFIX.len());
            text.push_str(&resource[..end]);
            text.push_str(SUBTREE_SUFFIX);
            text
        })
    }
}

fn is_at_or_below(resource: &str, ancestor: &str) -> bool {
    resource.strip_prefix(ancestor).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, vec::Vec};
    use proptest::prelude::*;

    fn scope(text: &str) -> Scope {
        text.parse().unwrap()
    }

    #[test]
    fn odd_spellings_are_refused() {
        let long = "a".repeat(129);
        for bad in [
            "", "/", "a/", "/a", "a//b", ".", "..", "a/../b", "a/./b", "a b", "a/*", "**", "/**", "a/**/b",
            "a/**/**", "ä", "a%2Fb", "a\\b", "a\u{0}b", "a/**/", &long,
        ] {
            assert!(bad.parse::<Scope>().is_err(), "{bad:?}");
        }
        assert!("a/**".parse::<ResourceId>().is_err());
        assert!(["a"; 17].join("/").parse::<ResourceId>().is_err());
        assert!(format!("{}/b", ["c".repeat(127).as_str(); 4].join("/")).parse::<ResourceId>().is_err());
    }

    #[test]
    fn all_characters_of_the_contract_are_taken_and_case_counts() {
        let id: ResourceId = "release/AZaz09._~:@+-".parse().unwrap();
        assert_eq!(serde_json::from_str::<ResourceId>(&serde_json::to_string(&id).unwrap()).unwrap(), id);
        assert!(!scope("a/B").overlaps(&scope("a/b")));
    }

    #[test]
    fn a_subtree_is_the_resource_and_all_below_it_and_no_neighbour() {
        let tree = scope("config/eu/**");
        for inside in ["config/eu", "config/eu/x", "config/eu/x/y", "config/eu/**", "config/eu/x/**"] {
            assert!(tree.contains(&scope(inside)), "{inside}");
        }
        for outside in ["config", "config/**", "config/eu2", "config/eu-x/**"] {
            assert!(!tree.contains(&scope(outside)), "{outside}");
        }
        assert!(tree.overlaps(&scope("config/**")));
        assert!(!tree.overlaps(&scope("config")));
        assert!(!scope("config/eu").overlaps(&scope("config/eu/x")));
    }

    #[test]
    fn covering_subtrees_are_listed_from_the_root_down() {
        let texts: Vec<_> = scope("a/b/c").covering_subtrees().collect();
        assert_eq!(texts, ["a/**", "a/b/**", "a/b/c/**"]);
        assert_eq!(scope("a/b/**").covering_subtrees().collect::<Vec<_>>(), ["a/**", "a/b/**"]);
    }

    proptest! {
        #[test]
        fn overlap_is_symmetric_and_equals_what_the_covering_subtrees_say(
            a in "[ab](/[ab]){0,3}(/\\*\\*)?", b in "[ab](/[ab]){0,3}(/\\*\\*)?"
        ) {
            let (a, b) = (scope(&a), scope(&b));
            prop_assert_eq!(a.overlaps(&b), b.overlaps(&a));
            let listed = a == b
                || a.covering_subtrees().any(|text| text == b.as_str())
                || b.covering_subtrees().any(|text| text == a.as_str());
            prop_assert_eq!(a.overlaps(&b), listed);
        }
    }
}
