//! One request, sent to one node after another until there is an answer or the time is up.
//!
//! [`Attempts`] owns the tries that are under way. It guarantees that all of them are the same request, that none
//! uses up more than a quarter of the time that is left before the next node is asked, and that what may have
//! happened is never reported as failed. An unanswered try is still listened to while later ones are under way: a
//! slow answer counts too. It must not decide what an answer means for a lease.
use crate::{
    answer::{Reading, Reply, read},
    backoff::Backoff,
    call::Outgoing,
    clock::{BootInstant, Clock},
    error::Error,
    nodes::Ring,
    transport::{SendError, Transport},
};
use bytes::Bytes;
use ringfence_protocol::{
    ErrorCode, Problem,
    problem::{Applied, Resolver},
};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{
    task::{AbortHandle, JoinError, JoinSet},
    time::{Instant, sleep_until},
};

/// The most tries that are listened to at once. The oldest makes room, when three quarters of the time are over.
const MOST_AT_ONCE: usize = 5;
/// The least time that makes another try worth while.
const LEAST_PATIENCE: Duration = Duration::from_millis(10);
/// The most time that a node gets before the next is asked: it has promised an answer within this.
const MOST_PATIENCE: Duration = Duration::from_secs(5);

/// What all calls of a client share: the way to the nodes, and the clock.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) ring: Ring,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// What one try came to.
#[derive(Debug)]
struct Tried {
    number: u32,
    node: usize,
    sent: BootInstant,
    result: Result<http::Response<Bytes>, SendError>,
}

/// What happened last.
#[derive(Debug)]
pub(crate) enum Step {
    /// A node failed, was unavailable, or has been waited for long enough; others are asked.
    Trouble,
    /// There is an answer, or the time is up.
    Done(Result<Reply, Error>),
}

/// The tries of one request. Dropping it gives up all of them.
#[derive(Debug)]
pub(crate) struct Attempts {
    link: Arc<Link>,
    request: Arc<Outgoing>,
    running: JoinSet<Tried>,
    oldest_first: VecDeque<AbortHandle>,
    newest_node: usize,
    /// When to try again; `None`: never.
    next_at: Option<Instant>,
    backoff: Backoff,
    tries: u32,
    first_sent: Option<BootInstant>,
    /// How many tries ended without an answer and may have taken effect.
    unanswered: u32,
    last_problem: Option<Box<Problem>>,
    last: String,
}

impl Attempts {
    pub(crate) fn new(link: Arc<Link>, request: Arc<Outgoing>) -> Self {
        let backoff = Backoff::new(link.ring.len());
        Self {
            link,
            request,
            running: JoinSet::new(),
            oldest_first: VecDeque::new(),
            newest_node: 0,
            next_at: Some(Instant::now()),
            backoff,
            tries: 0,
            first_sent: None,
            unanswered: 0,
            last_problem: None,
            last: "nothing was tried".to_owned(),
        }
    }

    /// Whether anything was sent, or is about to be.
    pub(crate) const fn has_begun(&self) -> bool {
        self.tries > 0
    }

    /// Whether tries are under way that may still be answered.
    pub(crate) fn is_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Sends nothing any more, and only listens to what is under way.
    pub(crate) const fn listen_only(&mut self) {
        self.next_at = None;
    }

    /// Goes on until there is an answer or `until` is reached. Can be called again to go on longer.
    ///
    /// Cancel safe: the tries under way stay.
    pub(crate) async fn outcome(&mut self, until: Instant) -> Result<Reply, Error> {
        loop {
            if let Step::Done(result) = self.step(until).await {
                return result;
            }
        }
    }

    /// Goes on until something is worth telling. Cancel safe as [`outcome`](Self::outcome) is.
    pub(crate) async fn step(&mut self, until: Instant) -> Step {
        loop {
            let now = Instant::now();
            let next = self.next_at.filter(|next| *next < until);
            if now >= until || (next.is_none() && self.running.is_empty()) {
                return Step::Done(Err(self.given_up()));
            }
            // Not left to the timer, whose grain is a millisecond.
            if next.is_some_and(|next| next <= now) {
                if self.try_next(until) {
                    return Step::Trouble;
                }
                continue;
            }
            tokio::select! {
                biased;
                // Cancel safe: `join_next` takes nothing out unless it returns.
                Some(ended) = self.running.join_next() => {
                    if let Some(step) = self.ended(ended) {
                        return step;
                    }
                }
                () = sleep_until(next.unwrap_or(until)) => {}
            }
        }
    }

    /// Gives up all tries and waits until none can send anything any more.
    pub(crate) async fn stop(mut self) {
        self.running.shutdown().await;
    }

    /// Asks a node. Tells whether one before it has been waited for long enough.
    fn try_next(&mut self, until: Instant) -> bool {
        let now = Instant::now();
        let patience = (until.saturating_duration_since(now) / 4).min(MOST_PATIENCE);
        if patience < LEAST_PATIENCE {
            // Only listens till then; whoever gives more time goes on from there.
            self.next_at = Some(until);
            return false;
        }
        let waited_in_vain = !self.running.is_empty();
        if waited_in_vain {
            self.link.ring.avoid(self.newest_node);
            self.last = format!("{} did not answer in time", self.link.ring.url(self.newest_node));
        }
        if self.running.len() >= MOST_AT_ONCE
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            oldest.abort();
        }
        self.start(self.link.ring.preferred());
        self.next_at = Some(now + patience);
        waited_in_vain
    }

    fn start(&mut self, node: usize) {
        let sent = self.link.clock.now();
        self.tries = self.tries.saturating_add(1);
        self.first_sent.get_or_insert(sent);
        self.newest_node = node;
        let number = self.tries;
        let exchange = self.link.transport.send(self.request.at(self.link.ring.url(node)));
        let task = self.running.spawn(async move {
            let result = exchange.await;
            Tried { number, node, sent, result }
        });
        self.oldest_first.push_back(task);
    }

    fn ended(&mut self, ended: Result<Tried, JoinError>) -> Option<Step> {
        self.oldest_first.retain(|task| !task.is_finished());
        let tried = match ended {
            Ok(tried) => tried,
            Err(error) => {
                self.unanswered += 1;
                // An oldest try that made room is no news: it was told when the next began.
                return error.is_panic().then(|| self.failed_task(&error));
            }
        };
        let newest = tried.number == self.tries;
        match tried.result {
            Ok(response) => self.answered(tried.node, tried.sent, newest, response),
            Err(error) => {
                self.unanswered += u32::from(matches!(error, SendError::NoAnswer(_)));
                let elsewhere = matches!(error, SendError::NotSent(_));
                self.last = format!("{}: {error}", self.link.ring.url(tried.node));
                Some(self.go_on(tried.node, newest, elsewhere, None))
            }
        }
    }

    fn failed_task(&mut self, error: &JoinError) -> Step {
        self.last = error.to_string();
        self.go_on(self.newest_node, true, false, None)
    }

    fn answered(
        &mut self,
        node: usize,
        sent: BootInstant,
        newest: bool,
        response: http::Response<Bytes>,
    ) -> Option<Step> {
        match read(response) {
            Reading::Success(answer) => {
                self.link.ring.prefer(node);
                let first_sent = self.first_sent.unwrap_or(sent);
                Some(Step::Done(Ok(Reply { answer, sent, first_sent })))
            }
            Reading::Problem(problem) if is_unavailable(&problem) => {
                self.unanswered += u32::from(problem.applied != Some(Applied::No));
                self.last = format!("{}: {problem}", self.link.ring.url(node));
                let wait = least_wait(&problem).map(|wait| wait.min(MOST_PATIENCE / 2));
                self.last_problem = Some(problem);
                Some(self.go_on(node, newest, false, wait))
            }
            Reading::Problem(problem) => {
                // A node that is broken inside has answered, but another may do better next time.
                if problem.status >= 500 {
                    self.link.ring.avoid(node);
                } else {
                    self.link.ring.prefer(node);
                }
                Some(Step::Done(Err(self.refused(problem))))
            }
            Reading::Foreign { status, detail } if matches!(status, 502..=504) => {
                // What stands between may have passed the request on.
                self.unanswered += 1;
                self.last = format!("{}: status {status}: {detail}", self.link.ring.url(node));
                Some(self.go_on(node, newest, false, None))
            }
            Reading::Foreign { status, detail } => {
                self.link.ring.avoid(node);
                Some(Step::Done(Err(Error::Unreadable { status, detail })))
            }
        }
    }

    /// Plans the next try, unless a later one is under way: that one's patience counts then.
    fn go_on(&mut self, node: usize, newest: bool, elsewhere: bool, wait: Option<Duration>) -> Step {
        self.link.ring.avoid(node);
        tracing::debug!(tries = self.tries, last = %self.last, "no answer yet");
        if newest && self.next_at.is_some() {
            let pause = self.backoff.after_failure(elsewhere).max(wait.unwrap_or_default());
            self.next_at = Some(Instant::now() + pause);
        }
        Step::Trouble
    }

    fn in_doubt(&self) -> bool {
        self.request.changes && (self.unanswered > 0 || self.is_running())
    }

    fn refused(&self, problem: Box<Problem>) -> Error {
        let unanswered = if self.in_doubt() { self.request.key.clone() } else { None };
        Error::Refused { problem, unanswered }
    }

    fn given_up(&mut self) -> Error {
        if self.in_doubt() {
            return Error::Unknown {
                key: self.request.key.clone(),
                tries: self.tries,
                last: self.last.clone(),
            };
        }
        match self.last_problem.take() {
            Some(problem) => self.refused(problem),
            None => Error::Unreachable { tries: self.tries, last: self.last.clone() },
        }
    }
}

/// Whether another node, or the same a little later, can answer the very same request.
///
/// Not so what waits for people (`storage_full`), nor what the caller must decide anew: a conflict, a stale version.
fn is_unavailable(problem: &Problem) -> bool {
    problem.status == 503 && problem.error.resolver() == Resolver::Wait
}

/// A node that has too much to do gets the pause that it asks for. The others only don't know the leader yet.
fn least_wait(problem: &Problem) -> Option<Duration> {
    let overloaded = problem.error == ErrorCode::Overloaded;
    let asked = problem.retry_after_ms.filter(|_| overloaded)?;
    Some(Duration::from_millis(asked))
}
