//! `If-Match` and `If-None-Match` (RFC 9110 §13), as a write and as a read understand them.
//!
//! Both headers together come to one thing that a write expects, [`Expected`], so that it can be the predicate
//! of the write's own statement: nothing is compared before and written after.
use crate::{
    refusal::{Reason, Refusal},
    tag::{self, EntityTag, Version},
};

/// The preconditions of one request, read.
#[derive(Debug, Clone, Default)]
pub struct Preconditions {
    if_match: Option<Field>,
    if_none_match: Option<Field>,
}

#[derive(Debug, Clone)]
struct Field {
    tags: Tags,
    /// As it was sent, for the answer.
    sent: String,
}

#[derive(Debug, Clone)]
enum Tags {
    Any,
    List(Vec<EntityTag>),
}

/// What a write expects to find, in the form that its statement asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// Nothing: it creates (`If-None-Match: *`).
    Absent,
    /// One of these versions.
    OneOf(Versions),
}

/// The versions that a write may replace, and how it named them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions {
    versions: Vec<Version>,
    sent: String,
}

/// Why a write has no version to go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VersionLack {
    /// There is no precondition.
    #[error(
        "the version is missing: read the resource and send its ETag in `If-Match`, or `If-None-Match: *` to create"
    )]
    Missing,
    /// `If-Match: *` names no version.
    #[error("`If-Match: *` names no version: read the resource and send its ETag")]
    AnyVersion,
    /// `If-None-Match` with tags says what is not expected, and nothing else.
    #[error(
        "`If-None-Match` with tags names no version that is expected: send the ETag that was read in `If-Match`"
    )]
    OnlyExcluded,
}

/// What a read answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// The caller wants the representation.
    Send,
    /// The caller has it: 304.
    NotModified,
}

const RULE: &str = "takes `*`, or tags in quotes: \"41\"";

impl Field {
    fn parse(header: &'static str, value: &[u8]) -> Result<Self, Refusal> {
        let tags =
            if value.trim_ascii() == b"*" { Some(Tags::Any) } else { tag::parse_list(value).map(Tags::List) };
        let tags = tags.ok_or(Reason::InvalidPrecondition { header, rule: RULE })?;
        let sent = String::from_utf8_lossy(value.trim_ascii()).into_owned();
        Ok(Self { tags, sent })
    }
}

impl Preconditions {
    /// Reads the headers' values; more than one line of a header is joined with commas first.
    ///
    /// # Errors
    /// [`Reason::InvalidPrecondition`] where one is neither `*` nor a list of tags.
    pub fn parse(if_match: Option<&[u8]>, if_none_match: Option<&[u8]>) -> Result<Self, Refusal> {
        let read = |header, value: Option<&[u8]>| value.map(|value| Field::parse(header, value)).transpose();
        Ok(Self {
            if_match: read("If-Match", if_match)?,
            if_none_match: read("If-None-Match", if_none_match)?,
        })
    }

    /// What a write under these expects. Weak tags match nothing (§13.1.1).
    ///
    /// # Errors
    /// [`VersionLack`] where they don't say which version, or that there is none.
    pub fn for_write(&self) -> Result<Expected, VersionLack> {
        match (&self.if_match, &self.if_none_match) {
            (None, None) => Err(VersionLack::Missing),
            (Some(Field { tags: Tags::Any, .. }), _) => Err(VersionLack::AnyVersion),
            (None, Some(Field { tags: Tags::Any, .. })) => Ok(Expected::Absent),
            (None, Some(Field { tags: Tags::List(_), .. })) => Err(VersionLack::OnlyExcluded),
            (Some(Field { tags: Tags::List(wanted), sent }), excluded) => {
                let versions = wanted
                    .iter()
                    .filter_map(EntityTag::strong_version)
                    .filter(|version| !excluded.as_ref().is_some_and(|field| field.excludes(*version)))
                    .collect();
                let sent = sent.clone();
                Ok(Expected::OneOf(Versions { versions, sent }))
            }
        }
    }

    /// What a read of something at this version answers (§13.2.2).
    ///
    /// # Errors
    /// [`Reason::StaleVersion`] where `If-Match` does not hold.
    pub fn for_read(&self, current: Version) -> Result<Freshness, Refusal> {
        if let Some(Field { tags: Tags::List(wanted), sent }) = &self.if_match
            && !wanted.iter().any(|tag| tag.strong_version() == Some(current))
        {
            return Err(stale(Some(sent.clone()), Some(current)));
        }
        let known = self.if_none_match.as_ref().is_some_and(|field| field.excludes(current));
        Ok(if known { Freshness::NotModified } else { Freshness::Send })
    }
}

impl Field {
    /// Whether, as `If-None-Match`, it excludes this version: by weak comparison (§13.1.2).
    fn excludes(&self, version: Version) -> bool {
        match &self.tags {
            Tags::Any => true,
            Tags::List(tags) => tags.iter().any(|tag| tag.weak_version() == Some(version)),
        }
    }
}

impl Expected {
    /// The versions that may be replaced; none where the write creates.
    #[must_use]
    pub fn versions(&self) -> &[Version] {
        match self {
            Self::Absent => &[],
            Self::OneOf(versions) => &versions.versions,
        }
    }

    /// Whether the write may go ahead on what is there. For stores whose write has no predicate of its own;
    /// to be asked within the transaction of the write alone.
    #[must_use]
    pub fn admits(&self, current: Option<Version>) -> bool {
        match current {
            None => matches!(self, Self::Absent),
            Some(current) => self.versions().contains(&current),
        }
    }

    /// The refusal of a write that found something else.
    #[must_use]
    pub fn stale(&self, current: Option<Version>) -> Refusal {
        stale(self.sent(), current)
    }

    fn sent(&self) -> Option<String> {
        match self {
            Self::Absent => None,
            Self::OneOf(versions) => Some(versions.sent.clone()),
        }
    }
}

fn stale(expected: Option<String>, current: Option<Version>) -> Refusal {
    let current = current.map(Version::etag);
    Reason::StaleVersion { expected, current }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(if_match: &str, if_none_match: &str) -> Preconditions {
        Preconditions::parse(bytes(if_match), bytes(if_none_match)).unwrap()
    }

    fn bytes(text: &str) -> Option<&[u8]> {
        (!text.is_empty()).then_some(text.as_bytes())
    }

    fn version(number: u64) -> Version {
        Version::new(number).unwrap()
    }

    #[test]
    fn a_write_goes_ahead_as_the_table_of_rfc_9110_says() {
        // (If-Match, If-None-Match, passes at 41, passes where nothing is)
        for (if_match, if_none_match, at_41, at_none) in [
            (r#""41""#, "", true, false),
            (r#""40""#, "", false, false),
            (r#""40", "41""#, "", true, false),
            (r#"W/"41""#, "", false, false),
            (r#"W/"41", "41""#, "", true, false),
            (r#""abc""#, "", false, false),
            ("", "*", false, true),
            (r#""41""#, "*", false, false),
            (r#""41""#, r#"W/"41""#, false, false),
            (r#""41""#, r#""40""#, true, false),
        ] {
            let expected = read(if_match, if_none_match).for_write().unwrap();
            let found = (expected.admits(Some(version(41))), expected.admits(None));
            assert_eq!(found, (at_41, at_none), "If-Match: {if_match} If-None-Match: {if_none_match}");
        }
    }

    #[test]
    fn a_write_needs_a_version_and_is_told_why_it_has_none() {
        for (if_match, if_none_match, lack) in [
            ("", "", VersionLack::Missing),
            ("*", "", VersionLack::AnyVersion),
            (" * ", "*", VersionLack::AnyVersion),
            ("", r#""41""#, VersionLack::OnlyExcluded),
        ] {
            assert_eq!(read(if_match, if_none_match).for_write(), Err(lack));
        }
    }

    #[test]
    fn a_read_is_answered_as_rfc_9110_says() {
        for (if_match, if_none_match, answer) in [
            ("", "", Some(Freshness::Send)),
            ("*", "", Some(Freshness::Send)),
            (r#""41""#, "", Some(Freshness::Send)),
            (r#"W/"41""#, "", None),
            ("", r#"W/"41""#, Some(Freshness::NotModified)),
            ("", r#""40", "41""#, Some(Freshness::NotModified)),
            ("", "*", Some(Freshness::NotModified)),
            ("", r#""40""#, Some(Freshness::Send)),
            (r#""40""#, r#""41""#, None),
        ] {
            let found = read(if_match, if_none_match).for_read(version(41)).ok();
            assert_eq!(found, answer, "If-Match: {if_match} If-None-Match: {if_none_match}");
        }
    }

    #[test]
    fn a_header_that_is_there_and_says_nothing_is_malformed() {
        for bad in ["", " ", "41", "\"41", "*, \"41\""] {
            for (a, b) in [(Some(bad.as_bytes()), None), (None, Some(bad.as_bytes()))] {
                let refusal = Preconditions::parse(a, b).unwrap_err();
                assert!(matches!(refusal.reason, Reason::InvalidPrecondition { .. }), "{bad:?}");
            }
        }
    }

    #[test]
    fn the_refusal_repeats_what_was_sent_and_names_what_is_there() {
        let expected = read(r#""40", W/"41""#, "").for_write().unwrap();
        assert_eq!(
            expected.stale(Some(version(42))).reason,
            Reason::StaleVersion {
                expected: Some(r#""40", W/"41""#.to_owned()),
                current: Some(r#""42""#.to_owned()),
            }
        );
    }
}
