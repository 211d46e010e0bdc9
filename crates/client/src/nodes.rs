//! The nodes of a cluster and which of them to ask next.
use http::{
    Uri,
    uri::{Authority, PathAndQuery, Scheme},
};
use std::{
    fmt,
    str::FromStr,
    sync::atomic::{AtomicUsize, Ordering},
};

/// The address of one node: `http://host:port`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct NodeUrl(Authority);

/// Why a text is no address of a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{url}` is no address of a node: {rule}")]
pub struct NodeUrlError {
    url: String,
    rule: &'static str,
}

impl FromStr for NodeUrl {
    type Err = NodeUrlError;

    fn from_str(text: &str) -> Result<Self, NodeUrlError> {
        check(text.trim()).map_err(|rule| NodeUrlError { url: redacted(text), rule })
    }
}

/// A password in a refused address stays out of messages.
fn redacted(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => text.to_owned(),
    }
}

fn check(text: &str) -> Result<NodeUrl, &'static str> {
    let uri: Uri = text.parse().map_err(|_| "expected `http://host:port`")?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return Err("this client does not speak TLS; use `http://`"),
        _ => return Err("expected `http://host:port`"),
    }
    if uri.path_and_query().is_some_and(|path| path != "/") {
        return Err("an address has no path");
    }
    let authority = uri.into_parts().authority.ok_or("expected `http://host:port`")?;
    if authority.as_str().contains('@') {
        return Err("an address holds no credentials; give a token");
    }
    Ok(NodeUrl(authority))
}

impl NodeUrl {
    /// `host:port`, or the host alone for port 80.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.0.as_str()
    }

    /// The absolute URI of a path at this node.
    pub(crate) fn join(&self, path: &PathAndQuery) -> Uri {
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = Some(self.0.clone());
        parts.path_and_query = Some(path.clone());
        Uri::from_parts(parts).expect("scheme, authority and path together are a URI")
    }
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.0)
    }
}

impl fmt::Debug for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The nodes in the order given, and the one that answered last. Shared by all calls of a client, so that one
/// call's bad experience spares the others.
#[derive(Debug)]
pub(crate) struct Ring {
    urls: Vec<NodeUrl>,
    preferred: AtomicUsize,
}

impl Ring {
    /// `urls` is not empty: the builder refuses that.
    pub(crate) const fn new(urls: Vec<NodeUrl>) -> Self {
        Self { urls, preferred: AtomicUsize::new(0) }
    }

    pub(crate) const fn len(&self) -> usize {
        self.urls.len()
    }

    pub(crate) fn url(&self, node: usize) -> &NodeUrl {
        &self.urls[node]
    }

    /// Which node to ask now.
    pub(crate) fn preferred(&self) -> usize {
        self.preferred.load(Ordering::Relaxed)
    }

    /// This node answered: stay with it.
    pub(crate) fn prefer(&self, node: usize) {
        self.preferred.store(node, Ordering::Relaxed);
    }

    /// This node did not answer: go on to the next, unless another call has already done so.
    pub(crate) fn avoid(&self, node: usize) {
        let next = (node + 1) % self.urls.len();
        let moved = self.preferred.compare_exchange(node, next, Ordering::Relaxed, Ordering::Relaxed);
        if moved.is_err() {
            tracing::trace!(node, "another call has already moved on");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_a_host_and_a_port() {
        for good in ["http://127.0.0.1:7101", "http://[::1]:7101/", " http://node-1 "] {
            assert!(good.parse::<NodeUrl>().is_ok(), "{good}");
        }
        for bad in ["", "127.0.0.1:7101", "ftp://a", "https://a:1", "http://a/v1", "http://a/?x=1"] {
            assert!(bad.parse::<NodeUrl>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_password_in_a_refused_address_is_not_repeated() {
        let error = "http://me:hunter2@a:1".parse::<NodeUrl>().unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn two_calls_that_fail_at_one_node_move_on_by_one() {
        let urls = ["http://a", "http://b", "http://c"].map(|url| url.parse().unwrap());
        let ring = Ring::new(urls.into());
        ring.avoid(0);
        ring.avoid(0);
        assert_eq!(ring.preferred(), 1);
        ring.prefer(2);
        ring.avoid(2);
        assert_eq!(ring.preferred(), 0);
    }
}
