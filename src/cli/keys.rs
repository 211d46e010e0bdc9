//! Options that several commands share.
use super::failure::Failure;
use clap::Args;
use ringfence_client::PageOf;
use ringfence_protocol::{
    Action, Mode, Scope,
    body::{Actions, WriteSetEntry},
    idempotency::IdempotencyKey,
};

/// What makes a request repeatable.
#[derive(Debug, Args)]
pub(crate) struct Key {
    /// The Idempotency-Key: the same one again gives the first outcome. Absent: a new one.
    #[arg(long)]
    idempotency_key: Option<String>,
}

impl Key {
    pub(crate) fn get(&self) -> Result<Option<IdempotencyKey>, Failure> {
        let Some(text) = &self.idempotency_key else { return Ok(None) };
        let key = IdempotencyKey::from_header(text.as_bytes());
        key.map(Some).map_err(|error| Failure::Usage(format!("--idempotency-key: {error}")))
    }
}

/// Which page of a list.
#[derive(Debug, Args)]
pub(crate) struct Paging {
    /// At most this many, 1 to 1000.
    #[arg(long)]
    limit: Option<usize>,
    /// Where the page begins, from the one before.
    #[arg(long)]
    cursor: Option<String>,
}

impl Paging {
    pub(crate) fn page(self) -> PageOf {
        PageOf { limit: self.limit, cursor: self.cursor }
    }
}

/// Reads `SCOPE[:MODE][=ACTION,…]`; without a mode it is exclusive.
///
/// A scope may have colons itself: what follows the last one is a mode only if it is one.
pub(crate) fn entry(text: &str) -> Result<WriteSetEntry, String> {
    let (place, actions) =
        text.split_once('=').map_or((text, None), |(place, actions)| (place, Some(actions)));
    let (scope, mode) = match place.rsplit_once(':') {
        Some((scope, mode)) if mode.parse::<Mode>().is_ok() => (scope, mode.parse::<Mode>()?),
        Some(_) | None => (place, Mode::Exclusive),
    };
    let scope: Scope =
        scope.parse().map_err(|error: ringfence_protocol::scope::ResourceError| error.to_string())?;
    let actions = match actions {
        None => Actions::ANY,
        Some(list) => {
            let parse = |action: &str| action.parse::<Action>().map_err(|error| error.to_string());
            let list = list.split(',').map(parse).collect::<Result<_, _>>()?;
            Actions::new(list).ok_or("name 1 to 32 actions, or `*` alone")?
        }
    };
    Ok(WriteSetEntry { scope, mode, actions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_a_scope_a_mode_and_actions() {
        let parsed = entry("release/prod-eu:optimistic=deploy,rollback").unwrap();
        assert_eq!(parsed.scope.as_str(), "release/prod-eu");
        assert_eq!(parsed.mode, Mode::Optimistic);
        assert_eq!(parsed.actions.list().unwrap().len(), 2);
        let plain = entry("image/sha256:abc").unwrap();
        assert_eq!((plain.scope.as_str(), plain.mode), ("image/sha256:abc", Mode::Exclusive));
        for bad in ["", "a//b", "a/b=", "a/b=x y"] {
            assert!(entry(bad).is_err(), "{bad}");
        }
    }
}
