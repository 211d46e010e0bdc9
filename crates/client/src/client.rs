//! The client itself: how it is set up, and how it sends a call.
use crate::{
    answer::{Answer, Reply, decode},
    attempts::{Attempts, Link},
    call::Call,
    clock::{Clock, SystemClock},
    error::Error,
    nodes::{NodeUrl, NodeUrlError, Ring},
    transport::{Tcp, Transport},
};
use bytes::Bytes;
use http::HeaderValue;
use serde::de::DeserializeOwned;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// How long a call may take where nothing else is said.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(10);
/// The least deadline of a call.
pub const LEAST_DEADLINE: Duration = Duration::from_millis(100);

/// Why a client can't be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There is no node to ask.
    #[error("name at least one node")]
    NoNodes,
    /// A text is no address of a node.
    #[error(transparent)]
    Node(#[from] NodeUrlError),
    /// The token has characters that can't be sent. It is not repeated here.
    #[error("the token has characters that can't be sent in a header")]
    Token,
    /// Calls would have no time.
    #[error("the deadline of a call is {given:?}, less than the least of {LEAST_DEADLINE:?}")]
    Deadline {
        /// What was asked for.
        given: Duration,
    },
}

/// Sets up a [`Client`].
#[derive(Debug, Default)]
#[must_use]
pub struct ClientBuilder {
    urls: Vec<String>,
    token: Option<HeaderValue>,
    token_is_bad: bool,
    deadline: Option<Duration>,
    clock: Option<Arc<dyn Clock>>,
    transport: Option<Arc<dyn Transport>>,
}

impl ClientBuilder {
    /// Adds a node, `http://host:port`. Nodes are asked in the order in which they were added.
    pub fn node(mut self, url: impl Into<String>) -> Self {
        self.urls.push(url.into());
        self
    }

    /// Adds several nodes.
    pub fn nodes<U: Into<String>>(mut self, urls: impl IntoIterator<Item = U>) -> Self {
        self.urls.extend(urls.into_iter().map(Into::into));
        self
    }

    /// The credential: a token's secret or a run's credential.
    pub fn token(mut self, token: &str) -> Self {
        match bearer(token) {
            Some(value) => self.token = Some(value),
            None => self.token_is_bad = true,
        }
        self
    }

    /// How long a call may take in all, every try included. Default: [`DEFAULT_DEADLINE`].
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The clock that leases are measured by. Default: [`SystemClock`].
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The way to the nodes. Default: HTTP/1.1 over TCP.
    pub fn transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.transport = Some(transport);
        self
    }

    /// Makes the client. It connects when it has something to send.
    ///
    /// # Errors
    /// [`BuildError`] where there is no node, an address or the token is malformed, or the deadline is too short.
    pub fn build(self) -> Result<Client, BuildError> {
        let given = self.deadline.unwrap_or(DEFAULT_DEADLINE);
        if given < LEAST_DEADLINE {
            return Err(BuildError::Deadline { given });
        }
        if self.token_is_bad {
            return Err(BuildError::Token);
        }
        if self.urls.is_empty() {
            return Err(BuildError::NoNodes);
        }
        let urls: Result<Vec<NodeUrl>, _> = self.urls.iter().map(|url| url.parse()).collect();
        let link = Link {
            ring: Ring::new(urls?),
            transport: self.transport.unwrap_or_else(|| Arc::new(Tcp::new())),
            clock: self.clock.unwrap_or_else(|| Arc::new(SystemClock)),
        };
        Ok(Client {
            link: Arc::new(link),
            token: self.token,
            deadline: given,
            stale_reads: false,
            tasks: TaskTracker::new(),
        })
    }
}

fn bearer(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    // Keeps it out of every `Debug`.
    value.set_sensitive(true);
    Some(value)
}

/// A client of one cluster. Cheap to clone; clones share connections, the preferred node and background tasks.
///
/// It works on a current-thread runtime of tokio as well as on a multi-threaded one. A call is sent to one node
/// after another, always with the same `Idempotency-Key`, until there is an answer or its deadline has passed; the
/// client stays with the node that answered last. It never sends anew what a node has judged: a conflict, a stale
/// version, a refusal.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) link: Arc<Link>,
    token: Option<HeaderValue>,
    pub(crate) deadline: Duration,
    pub(crate) stale_reads: bool,
    pub(crate) tasks: TaskTracker,
}

impl Client {
    /// Sets up a client by and by.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A client of these nodes with this token and the default settings.
    ///
    /// # Errors
    /// As [`ClientBuilder::build`].
    pub fn new<U: Into<String>>(urls: impl IntoIterator<Item = U>, token: &str) -> Result<Self, BuildError> {
        Self::builder().nodes(urls).token(token).build()
    }

    /// The same client with another credential, such as that of a run it has just created.
    ///
    /// # Errors
    /// [`BuildError::Token`] where the token can't be sent in a header.
    pub fn with_token(&self, token: &str) -> Result<Self, BuildError> {
        let mut client = self.clone();
        client.token = Some(bearer(token).ok_or(BuildError::Token)?);
        Ok(client)
    }

    /// The same client, whose reads any node answers from its own state, without asking the leader.
    #[must_use]
    pub fn with_stale_reads(&self) -> Self {
        let mut client = self.clone();
        client.stale_reads = true;
        client
    }

    /// Sends a call and gives the answer's body as it came.
    ///
    /// # Errors
    /// [`Error`]; after a time-out or a broken connection [`Error::Unknown`], since it may have happened.
    pub async fn send(&self, call: Call) -> Result<Answer<Bytes>, Error> {
        self.exchange(call).await.map(|reply| reply.answer)
    }

    /// Sends a call and reads the answer's body as `T`.
    ///
    /// # Errors
    /// As [`send`](Self::send); [`Error::Unreadable`] where the body is no `T`.
    pub async fn ask<T: DeserializeOwned>(&self, call: Call) -> Result<Answer<T>, Error> {
        self.send(call).await.and_then(decode)
    }

    /// Waits until all background work is done: keep-alives of leases whose owners are gone, and releases under way.
    ///
    /// A program that drops leases calls it before it ends, or their releases may never be sent. It waits as long
    /// as a lease is held.
    pub async fn settled(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }

    /// Sends a call; the reply tells when it was sent.
    pub(crate) async fn exchange(&self, call: Call) -> Result<Reply, Error> {
        let until = Instant::now() + call.deadline().unwrap_or(self.deadline);
        self.attempts(call)?.outcome(until).await
    }

    /// Makes a call ready to be sent.
    pub(crate) fn attempts(&self, call: Call) -> Result<Attempts, Error> {
        let request = call.outgoing(self.token.as_ref())?;
        Ok(Attempts::new(self.link.clone(), Arc::new(request)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_could_not_work_is_refused_at_once() {
        let none: [&str; 0] = [];
        assert_eq!(Client::new(none, "t").unwrap_err(), BuildError::NoNodes);
        assert!(matches!(Client::new(["a:1"], "t").unwrap_err(), BuildError::Node(_)));
        assert_eq!(Client::new(["http://a:1"], "t\n").unwrap_err(), BuildError::Token);
        let given = Duration::from_millis(99);
        let short = Client::builder().node("http://a:1").deadline(given).build();
        let error = short.unwrap_err();
        assert_eq!(error, BuildError::Deadline { given });
        assert!(error.to_string().contains("99ms") && error.to_string().contains("100ms"), "{error}");
    }

    #[test]
    fn a_token_is_not_shown() {
        let client = Client::new(["http://a:1"], "hunter2").unwrap();
        assert!(!format!("{client:?} {:?}", Client::builder().token("hunter2")).contains("hunter2"));
    }
}
