//! The fake cluster: routes requests to its table, remembers them, and behaves as its script says.
use super::table::Table;
use bytes::Bytes;
use http::{Method, Request, Response};
use ringfence_protocol::{
    ErrorCode, LeaseId, Problem, REPLAYED_HEADER, REVISION_HEADER,
    body::{AcquireLease, Lease},
    idempotency::{IDEMPOTENCY_KEY_HEADER, IdempotencyKey},
    problem::EndReason,
};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::{Instant, sleep, sleep_until};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Acquire,
    Renew,
    Release,
    Other,
}

/// One request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    pub(crate) node: usize,
    pub(crate) what: What,
    /// The how manyeth of its kind, from 1.
    pub(crate) nth: usize,
    pub(crate) key: Option<String>,
    pub(crate) lease: Option<LeaseId>,
    pub(crate) target: String,
    pub(crate) authorization: Option<String>,
}

/// How the cluster treats one request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    /// As it should.
    Answer,
    /// It isn't done and never answered; the connection stays.
    Hang,
    /// It is done and never answered; the connection stays.
    DoThenHang,
    /// It is done, and the connection breaks before the answer.
    DoThenDrop,
    /// It isn't done, and the connection breaks.
    Drop,
    /// Nobody listens there. (In memory only.)
    Closed,
    /// It is refused.
    Refuse(Box<Problem>),
    /// It arrives late, and its answer is late.
    Slow { there: Duration, back: Duration },
    /// Something else answers.
    Foreign(u16),
}

type Script = Box<dyn Fn(&Seen) -> Act + Send + Sync>;

pub(crate) struct Cluster {
    inner: Mutex<Inner>,
}

struct Inner {
    table: Table,
    log: Vec<Seen>,
    counts: BTreeMap<What, usize>,
    script: Script,
    /// Since when each key waits.
    queue: BTreeMap<String, Instant>,
    free_at: Instant,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cluster")
    }
}

impl Cluster {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                table: Table::default(),
                log: Vec::new(),
                counts: BTreeMap::new(),
                script: Box::new(|_| Act::Answer),
                queue: BTreeMap::new(),
                free_at: Instant::now(),
            }),
        })
    }

    pub(crate) fn script(&self, script: impl Fn(&Seen) -> Act + Send + Sync + 'static) {
        self.inner.lock().unwrap().script = Box::new(script);
    }

    pub(crate) fn behave(&self) {
        self.script(|_| Act::Answer);
    }

    /// Whoever waits is granted then.
    pub(crate) fn free_at(&self, free_at: Instant) {
        self.inner.lock().unwrap().free_at = free_at;
    }

    pub(crate) fn seen(&self, what: What) -> Vec<Seen> {
        let inner = self.inner.lock().unwrap();
        inner.log.iter().filter(|seen| seen.what == what).cloned().collect()
    }

    pub(crate) fn log(&self) -> Vec<Seen> {
        self.inner.lock().unwrap().log.clone()
    }

    pub(crate) fn held(&self) -> Vec<LeaseId> {
        self.inner.lock().unwrap().table.held()
    }

    pub(crate) fn is_held(&self, lease: LeaseId) -> bool {
        self.held().contains(&lease)
    }

    pub(crate) fn granted(&self) -> usize {
        self.inner.lock().unwrap().table.granted()
    }

    pub(crate) fn revoke(&self, lease: LeaseId) {
        self.inner.lock().unwrap().table.end(lease, EndReason::Revoked).unwrap();
    }

    pub(crate) fn forget(&self, lease: LeaseId) {
        self.inner.lock().unwrap().table.forget(lease);
    }

    /// Takes a request in. `None`: the connection breaks.
    pub(crate) async fn serve(&self, node: usize, request: Request<Bytes>) -> Option<Response<Bytes>> {
        let (seen, act) = self.arrived(node, &request);
        match act {
            Act::Answer => Some(self.answer(&seen, &request).await),
            Act::Hang => std::future::pending().await,
            Act::DoThenHang => {
                self.answer(&seen, &request).await;
                std::future::pending().await
            }
            Act::DoThenDrop => {
                self.answer(&seen, &request).await;
                None
            }
            Act::Drop | Act::Closed => None,
            Act::Refuse(problem) => Some(refusal(&problem)),
            Act::Slow { there, back } => {
                sleep(there).await;
                let answer = self.answer(&seen, &request).await;
                sleep(back).await;
                Some(answer)
            }
            Act::Foreign(status) => Some(response(status, b"<html>".to_vec(), false)),
        }
    }

    /// Whether nobody listens at a node, as the script says of a request that has not been sent.
    pub(crate) fn is_closed(&self, node: usize, request: &Request<Bytes>) -> bool {
        let inner = self.inner.lock().unwrap();
        (inner.script)(&inner.look(node, request)) == Act::Closed
    }

    fn arrived(&self, node: usize, request: &Request<Bytes>) -> (Seen, Act) {
        let mut inner = self.inner.lock().unwrap();
        let seen = inner.look(node, request);
        inner.counts.insert(seen.what, seen.nth);
        let act = (inner.script)(&seen);
        inner.log.push(seen.clone());
        (seen, act)
    }

    async fn answer(&self, seen: &Seen, request: &Request<Bytes>) -> Response<Bytes> {
        let outcome = match (seen.what, seen.lease) {
            (What::Acquire, _) => self.acquire(seen, request).await,
            (What::Renew, Some(lease)) => self.inner.lock().unwrap().table.renew(lease),
            (What::Release, Some(lease)) => self.inner.lock().unwrap().table.end(lease, EndReason::Released),
            (What::Renew | What::Release | What::Other, _) => {
                Err(Problem::new(ErrorCode::NotFound, "nothing here"))
            }
        };
        match outcome {
            Ok((lease, replayed)) => response(if replayed { 200 } else { 201 }, json(&lease), replayed),
            Err(problem) => refusal(&problem),
        }
    }

    async fn acquire(&self, seen: &Seen, request: &Request<Bytes>) -> Result<(Lease, bool), Problem> {
        let wish: AcquireLease = ringfence_protocol::json::from_slice(request.body())?;
        let key = seen.key.clone().unwrap();
        let (since, free_at) = self.queue(&key);
        if wish.wait_ms.is_some() {
            sleep_until(free_at).await;
        }
        let waited = wish.wait_ms.map_or(Duration::ZERO, |_| since.elapsed());
        self.inner.lock().unwrap().table.acquire(&key, &wish, waited)
    }

    fn queue(&self, key: &str) -> (Instant, Instant) {
        let mut inner = self.inner.lock().unwrap();
        let since = *inner.queue.entry(key.to_owned()).or_insert_with(Instant::now);
        (since, inner.free_at)
    }
}

impl Inner {
    fn look(&self, node: usize, request: &Request<Bytes>) -> Seen {
        let path = request.uri().path();
        let lease = path.split('/').nth(3).and_then(|id| id.parse().ok());
        let what = if *request.method() == Method::DELETE && lease.is_some() {
            What::Release
        } else if path == "/v1/leases" && *request.method() == Method::POST {
            What::Acquire
        } else if path.ends_with("/renew") {
            What::Renew
        } else {
            What::Other
        };
        Seen {
            at: Instant::now(),
            node,
            what,
            nth: self.counts.get(&what).copied().unwrap_or(0) + 1,
            key: key(request),
            lease,
            target: request.uri().path_and_query().unwrap().to_string(),
            authorization: header(request, "authorization"),
        }
    }
}

fn header(request: &Request<Bytes>, name: &str) -> Option<String> {
    Some(request.headers().get(name)?.to_str().unwrap().to_owned())
}

fn key(request: &Request<Bytes>) -> Option<String> {
    let value = request.headers().get(IDEMPOTENCY_KEY_HEADER)?;
    Some(IdempotencyKey::from_header(value.as_bytes()).unwrap().as_str().to_owned())
}

fn json(body: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(body).unwrap()
}

fn refusal(problem: &Problem) -> Response<Bytes> {
    response(problem.status, json(problem), false)
}

fn response(status: u16, body: Vec<u8>, replayed: bool) -> Response<Bytes> {
    let mut response =
        Response::builder().status(status).header(REVISION_HEADER, "rev-7").header("x-request-id", "req-1");
    if replayed {
        response = response.header(REPLAYED_HEADER, "true");
    }
    response.body(body.into()).unwrap()
}
