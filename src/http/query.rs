//! Query strings, read strictly: an unknown or repeated parameter is refused, never ignored.
//!
//! Percent-encoding is decoded; a `+` is itself, since no value here has a blank in it and scopes have `+`.
use super::{answer::Failure, call::Consistency};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use percent_encoding::percent_decode_str;
use ringfence_protocol::{
    ErrorCode, Problem, Scope,
    body::{DEFAULT_PAGE, MAX_PAGE, Page},
};
use std::{borrow::Cow, fmt::Display, str::FromStr};

/// Query parameters, each to be taken once.
#[derive(Debug, Default)]
pub(super) struct Parameters(Vec<(String, String)>);

/// Which page of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageOf<Id> {
    /// The last id of the page before.
    pub(super) after: Option<Id>,
    /// The most items.
    pub(super) limit: usize,
}

/// Refuses parameters that the route does not know.
pub(super) fn check(known: &[&str], query: Option<&str>) -> Result<(), Failure> {
    let Parameters(pairs) = Parameters::parse(query)?;
    for (at, (name, _)) in pairs.iter().enumerate() {
        if !known.contains(&name.as_str()) {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(invalid(name, format!("there is no such query parameter here; known are: {known}")));
        }
        if pairs[..at].iter().any(|(earlier, _)| earlier == name) {
            return Err(invalid(name, "send this query parameter once"));
        }
    }
    Ok(())
}

fn invalid(name: &str, detail: impl Into<String>) -> Failure {
    Problem::invalid_field(name, detail).into()
}

impl Parameters {
    /// Splits and decodes a query string (RFC 3986 §3.4).
    pub(super) fn parse(query: Option<&str>) -> Result<Self, Failure> {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let decode = |text: &str| percent_decode_str(text).decode_utf8().map(Cow::into_owned);
        let pairs = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (decode(name), decode(value)) {
                (Ok(name), Ok(value)) => Ok((name, value)),
                (Ok(name), Err(_)) => Err(invalid(&name, "not UTF-8 once decoded")),
                (Err(_), Ok(_) | Err(_)) => Err(invalid("query", "a name is not UTF-8 once decoded")),
            }
        });
        pairs.collect::<Result<_, _>>().map(Self)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A parameter of a type, if it is there.
    pub(super) fn get<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Failure> {
        let parsed = self.text(name).map(str::parse).transpose();
        parsed.map_err(|error: T::Err| invalid(name, error.to_string()))
    }

    /// A scope, if it is there; a malformed one is `invalid_resource`, as in a body.
    pub(super) fn scope(&self, name: &str) -> Result<Option<Scope>, Failure> {
        let parsed = self.text(name).map(str::parse).transpose();
        parsed.map_err(|error: <Scope as FromStr>::Err| {
            let mut problem = Problem::new(ErrorCode::InvalidResource, error.to_string());
            problem.field = Some(name.to_owned());
            problem.into()
        })
    }

    /// `consistency=stale`, or the default.
    pub(super) fn consistency(&self) -> Result<Consistency, Failure> {
        match self.text("consistency") {
            None => Ok(Consistency::Linearizable),
            Some("stale") => Ok(Consistency::Stale),
            Some(_) => Err(invalid("consistency", "only `stale` can be asked for; absent: linearizable")),
        }
    }

    /// `limit` and `cursor`.
    pub(super) fn page<Id: FromStr>(&self) -> Result<PageOf<Id>, Failure> {
        let limit = self.text("limit").map_or(Ok(DEFAULT_PAGE), str::parse).ok();
        let limit = limit.filter(|limit| (1..=MAX_PAGE).contains(limit));
        let limit = limit.ok_or_else(|| invalid("limit", format!("an integer from 1 to {MAX_PAGE}")))?;
        let after = self.text("cursor").map(|cursor| {
            let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
            std::str::from_utf8(&bytes).ok()?.parse().ok()
        });
        match after {
            Some(None) => Err(invalid("cursor", "take it from `next_cursor` of the page before, as it is")),
            Some(Some(after)) => Ok(PageOf { after: Some(after), limit }),
            None => Ok(PageOf { after: None, limit }),
        }
    }
}

impl<Id> PageOf<Id> {
    /// How many to ask for: one more than the page has tells whether there is another page.
    pub(super) const fn with_one_more(&self) -> usize {
        self.limit + 1
    }

    /// The page of what was found.
    pub(super) fn of<T>(&self, mut items: Vec<T>, id: impl Fn(&T) -> Id) -> Page<T>
    where
        Id: Display,
    {
        let has_more = items.len() > self.limit;
        items.truncate(self.limit);
        let last = items.last().filter(|_| has_more);
        let next_cursor = last.map(|last| URL_SAFE_NO_PAD.encode(id(last).to_string()));
        Page { items, next_cursor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_protocol::{LeaseId, RunId};

    fn parameters(query: &str) -> Parameters {
        Parameters::parse(Some(query)).unwrap()
    }

    fn code<T>(result: Result<T, Failure>) -> Option<ErrorCode> {
        result.err().map(|failure| failure.code())
    }

    #[test]
    fn unknown_and_repeated_parameters_are_refused() {
        let known = &["limit", "state"];
        assert!(check(known, None).is_ok());
        assert!(check(known, Some("limit=1&state=active")).is_ok());
        for bad in ["limt=1", "limit=1&limit=1", "LIMIT=1", "limit=1&x", "%FF=1", "limit=%FF"] {
            assert_eq!(code(check(known, Some(bad))), Some(ErrorCode::InvalidField), "{bad}");
        }
    }

    #[test]
    fn a_scope_is_read_encoded_or_as_it_is() {
        for query in ["scope=a/b+c/**", "scope=a%2Fb%2Bc%2F%2A%2A"] {
            assert_eq!(parameters(query).scope("scope").unwrap().unwrap().as_str(), "a/b+c/**");
        }
        assert_eq!(code(parameters("scope=a//b").scope("scope")), Some(ErrorCode::InvalidResource));
    }

    #[test]
    fn only_stale_can_be_asked_for() {
        assert_eq!(parameters("").consistency().unwrap(), Consistency::Linearizable);
        assert_eq!(parameters("consistency=stale").consistency().unwrap(), Consistency::Stale);
        assert!(parameters("consistency=strong").consistency().is_err());
    }

    #[test]
    fn a_cursor_leads_on_and_a_foreign_one_is_refused() {
        let first = PageOf { after: None, limit: 2 };
        let runs: Vec<_> = (6..=8).map(RunId::from_bits).collect();
        let (last, page) = (runs[1], first.of(runs.clone(), |run| *run));
        assert_eq!(page.items, runs[..2]);
        assert_eq!(first.of(runs[..2].to_vec(), |run| *run).next_cursor, None);
        let query = format!("limit=2&cursor={}", page.next_cursor.unwrap());
        assert_eq!(parameters(&query).page().unwrap(), PageOf { after: Some(last), limit: 2 });
        assert_eq!(code(parameters(&query).page::<LeaseId>()), Some(ErrorCode::InvalidField));
        for bad in ["cursor=", "cursor=%21", "limit=0", "limit=1001", "limit=-1", "limit=x", "limit="] {
            assert_eq!(code(parameters(bad).page::<RunId>()), Some(ErrorCode::InvalidField), "{bad}");
        }
        assert_eq!(parameters("").page::<RunId>().unwrap(), PageOf { after: None, limit: DEFAULT_PAGE });
    }
}
