//! Filters of lists, and their spelling in a query string.
use ringfence_protocol::{
    RunId, Scope,
    body::{LeaseState, RunState},
};

/// Which page of a list. The default is the first, of the size that the node chooses (100).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageOf {
    /// At most this many items, 1 to 1000.
    pub limit: Option<usize>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// Which runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// In this state only.
    pub state: Option<RunState>,
    /// Which page.
    pub page: PageOf,
}

/// Which leases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaseFilter {
    /// Of this run only.
    pub run: Option<RunId>,
    /// That overlap this scope only.
    pub scope: Option<Scope>,
    /// In this state only.
    pub state: Option<LeaseState>,
    /// Which page.
    pub page: PageOf,
}

/// Builds a path with its query.
#[derive(Debug)]
pub(crate) struct Query(String);

impl Query {
    pub(crate) fn new(path: &str) -> Self {
        Self(path.to_owned())
    }

    pub(crate) fn with(mut self, name: &str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            self.0.push(if self.0.contains('?') { '&' } else { '?' });
            self.0.push_str(name);
            self.0.push('=');
            encode(value, &mut self.0);
        }
        self
    }

    pub(crate) fn page(self, page: &PageOf) -> Self {
        let limit = page.limit.map(|limit| limit.to_string());
        self.with("limit", limit.as_deref()).with("cursor", page.cursor.as_deref())
    }

    pub(crate) fn stale(self, stale: bool) -> Self {
        self.with("consistency", stale.then_some("stale"))
    }

    pub(crate) fn build(self) -> String {
        self.0
    }
}

/// Percent-encodes all but RFC 3986's unreserved characters: a `+` left as it is would be read as a blank.
fn encode(value: &str, into: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            into.push(char::from(byte));
        } else {
            into.push('%');
            into.push(char::from(DIGITS[usize::from(byte >> 4)]));
            into.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_of_a_scope_survives_a_query() {
        let built = Query::new("/v1/leases")
            .with("run", None)
            .with("scope", Some("a.b_c~d:e@f+g-h/1/**"))
            .page(&PageOf { limit: Some(7), cursor: Some("é=".into()) })
            .stale(true)
            .build();
        assert_eq!(
            built,
            "/v1/leases?scope=a.b_c~d%3Ae%40f%2Bg-h%2F1%2F%2A%2A&limit=7&cursor=%C3%A9%3D&consistency=stale"
        );
    }

    #[test]
    fn a_path_without_conditions_has_no_query() {
        assert_eq!(Query::new("/v1/runs").page(&PageOf::default()).stale(false).build(), "/v1/runs");
    }
}
