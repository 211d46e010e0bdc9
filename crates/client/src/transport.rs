//! How one request travels to one node and its answer back: no retries, no time-outs, no meaning.
//!
//! A transport's one promise is to be honest about failure: [`SendError::NotSent`] only where not a byte of the
//! request can have reached a node. All that may be repeated hangs on this difference.
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::rt::Executor;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioTimer,
};
use std::{error::Error, fmt, pin::Pin, time::Duration};
use tokio_util::task::TaskTracker;

/// The most bytes of an answer's body.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(30);

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Nothing of the request left: nothing has happened.
    #[error("not sent: {0}")]
    NotSent(String),
    /// It may have arrived and been done.
    #[error("no answer: {0}")]
    NoAnswer(String),
}

/// One exchange under way. Dropping it gives up the answer, not what the node does.
pub type Exchange = Pin<Box<dyn Future<Output = Result<http::Response<Bytes>, SendError>> + Send>>;

/// Carries one request to the node that its absolute URI names.
///
/// There are two: HTTP/1.1 over TCP, and in tests a cluster within the process on a clock turned by hand.
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Starts an exchange. A request whose exchange was never polled has not been sent.
    fn send(&self, request: http::Request<Bytes>) -> Exchange;
}

/// HTTP/1.1 over TCP, with kept connections.
#[derive(Debug)]
pub(crate) struct Tcp {
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Tcp {
    pub(crate) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(Connections(TaskTracker::new()))
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        Self { client }
    }
}

impl Transport for Tcp {
    fn send(&self, request: http::Request<Bytes>) -> Exchange {
        let client = self.client.clone();
        Box::pin(async move {
            let answer = client.request(request.map(Full::new)).await.map_err(|error| {
                if error.is_connect() {
                    SendError::NotSent(chain(&error))
                } else {
                    SendError::NoAnswer(chain(&error))
                }
            })?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
            let body = body.map_err(|error| SendError::NoAnswer(chain(&*error)))?;
            Ok(http::Response::from_parts(head, body.to_bytes()))
        })
    }
}

/// Runs the connections of one client. They end with their sockets, or when the pool drops them.
#[derive(Debug, Clone)]
struct Connections(TaskTracker);

impl<F> Executor<F> for Connections
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, connection: F) {
        drop(self.0.spawn(connection));
    }
}

/// An error with its causes: "client error (Connect): tcp connect error: connection refused".
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
