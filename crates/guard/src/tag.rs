//! Entity tags (RFC 9110 §8.8.3) and the versions that they are made of.
//!
//! Tags come from version numbers, never from bytes that a proxy may change: version 41 is `"41"`.
use std::fmt;

/// The version of a resource: counts its changes, from 1. A resource that is made anew goes on counting, so
/// that no tag ever comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// The version of what was just created for the first time.
    pub const FIRST: Self = Self(1);
    /// The greatest version: what a database keeps as a signed integer.
    pub const MAX: u64 = i64::MAX as u64;

    /// Takes a number from 1 to [`Version::MAX`].
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number >= 1 && number <= Self::MAX { Some(Self(number)) } else { None }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The strong tag of this version, quotes included.
    #[must_use]
    pub fn etag(self) -> String {
        format!("\"{}\"", self.0)
    }

    /// Reads what stands between the quotes: decimal digits, in the one way that they are written.
    fn from_opaque(opaque: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(opaque).ok()?;
        let digits = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
        digits.then(|| text.parse().ok().and_then(Self::new)).flatten()
    }
}

/// One tag as somebody sent it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct EntityTag {
    weak: bool,
    opaque: Box<[u8]>,
}

impl EntityTag {
    /// The version that the tag is equal to by strong comparison; a weak tag is equal to none (RFC 9110 §8.8.3.2).
    pub(crate) fn strong_version(&self) -> Option<Version> {
        if self.weak {
            return None;
        }
        Version::from_opaque(&self.opaque)
    }

    /// The version that the tag is equal to by weak comparison.
    pub(crate) fn weak_version(&self) -> Option<Version> {
        Version::from_opaque(&self.opaque)
    }
}

impl fmt::Debug for EntityTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let opaque = String::from_utf8_lossy(&self.opaque);
        write!(f, "{}\"{opaque}\"", if self.weak { "W/" } else { "" })
    }
}

/// Reads `#entity-tag`: at least one tag; empty list elements are passed over (RFC 9110 §5.6.1.2). `None` where
/// it is no such list.
pub(crate) fn parse_list(mut rest: &[u8]) -> Option<Vec<EntityTag>> {
    let mut tags = Vec::new();
    loop {
        rest = skip_empty_elements(rest)?;
        if rest.is_empty() {
            return (!tags.is_empty()).then_some(tags);
        }
        let (tag, after) = parse_tag(rest)?;
        tags.push(tag);
        rest = trim_start(after);
        match rest.split_first() {
            None => return Some(tags),
            Some((b',', after)) => rest = after,
            Some(_) => return None,
        }
    }
}

/// How many empty elements in a row are "a reasonable number".
const MAX_EMPTY_ELEMENTS: usize = 16;

fn skip_empty_elements(mut rest: &[u8]) -> Option<&[u8]> {
    for _ in 0..=MAX_EMPTY_ELEMENTS {
        rest = trim_start(rest);
        match rest.strip_prefix(b",") {
            Some(after) => rest = after,
            None => return Some(rest),
        }
    }
    None
}

fn trim_start(bytes: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = bytes.iter().position(|byte| !blank(byte)).unwrap_or(bytes.len());
    &bytes[start..]
}

fn parse_tag(bytes: &[u8]) -> Option<(EntityTag, &[u8])> {
    let (weak, quoted) = match bytes.strip_prefix(b"W/") {
        Some(quoted) => (true, quoted),
        None => (false, bytes),
    };
    let inside = quoted.strip_prefix(b"\"")?;
    let end = inside.iter().position(|byte| *byte == b'"')?;
    let opaque = &inside[..end];
    // etagc: no blanks, no controls; commas are allowed inside.
    let allowed = opaque.iter().all(|byte| matches!(byte, 0x21 | 0x23..=0x7E | 0x80..));
    allowed.then(|| {
        let opaque = opaque.into();
        (EntityTag { weak, opaque }, &inside[end + 1..])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Vec<String>> {
        parse_list(text.as_bytes()).map(|tags| tags.iter().map(|tag| format!("{tag:?}")).collect())
    }

    #[test]
    fn lists_of_tags_are_read_as_the_grammar_has_them() {
        for (text, tags) in [
            (r#""41""#, vec![r#""41""#]),
            (r#"W/"41""#, vec![r#"W/"41""#]),
            (r#""a", "b"	,"c""#, vec![r#""a""#, r#""b""#, r#""c""#]),
            (r#", ,"a",, "b", "#, vec![r#""a""#, r#""b""#]),
            (r#""a,b""#, vec![r#""a,b""#]),
            (r#""""#, vec![r#""""#]),
            ("\"ä\"", vec!["\"ä\""]),
        ] {
            assert_eq!(read(text), Some(tags.into_iter().map(String::from).collect()), "{text}");
        }
    }

    #[test]
    fn what_is_no_list_of_tags_is_refused() {
        for text in [
            "",
            " ",
            ",",
            "41",
            "\"41",
            "41\"",
            "'41'",
            "w/\"41\"",
            "W/41",
            "W /\"41\"",
            "\"4 1\"",
            "\"4\u{1}1\"",
            "\"a\" \"b\"",
            "\"a\";q=1",
            "\"a\", b",
            "*",
            "\"a\", *",
            &",".repeat(40),
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn one_spelling_a_version() {
        let strong = |text: &str| parse_list(text.as_bytes()).unwrap()[0].strong_version();
        assert_eq!(strong(r#""41""#), Version::new(41));
        assert_eq!(strong(&Version::new(7).unwrap().etag()), Version::new(7));
        assert_eq!(strong(r#""9223372036854775807""#), Version::new(Version::MAX));
        for other in ["041", "+41", "4_1", "0", "", "41-gzip", "9223372036854775808", "٤١"] {
            assert_eq!(strong(&format!("\"{other}\"")), None, "{other}");
        }
        assert_eq!(strong(r#"W/"41""#), None, "weak tags are equal to nothing");
    }
}
