//! The bounded queue in front of the log, and the one task that empties it.
//!
//! Commands that wait are put into one proposal; what arrives while an fsync runs shares the next one. There is no
//! linger timer: the fsync under way is the window.
use super::{
    Unavailable,
    shared::Shared,
    types::{Applied, Payload},
};
use crate::{
    clock,
    tasks::{AtEnd, Tasks},
};
use bytes::Bytes;
use futures_util::StreamExt;
use openraft::errors::ClientWriteError;
use ringfence_core::{Command, command::Request};
use std::{sync::Arc, time::Duration};
use tokio::sync::{mpsc, oneshot};

/// How many requests wait before the next one is told that the node is overloaded.
const QUEUE: usize = 8192;
/// How many are put into one proposal.
const BATCH: usize = 1024;
/// How long requests are held while this node leads but has not applied its own term yet.
const SETTLE_LIMIT: Duration = Duration::from_secs(2);

/// A request and who waits for its outcome.
pub(super) struct Proposal {
    request: Request,
    answer: oneshot::Sender<Result<Applied, Unavailable>>,
}

/// The near end of the queue.
#[derive(Clone)]
pub(super) struct Proposals {
    queue: mpsc::Sender<Proposal>,
}

impl Proposals {
    /// Makes the queue and starts the task that empties it.
    pub(super) fn channel() -> (Self, mpsc::Receiver<Proposal>) {
        let (queue, waiting) = mpsc::channel(QUEUE);
        (Self { queue }, waiting)
    }

    /// Puts a request into the log of this node, if it leads, and waits for what it gave.
    pub(super) async fn propose(&self, request: Request) -> Result<Applied, Unavailable> {
        let (answer, answered) = oneshot::channel();
        self.queue.try_send(Proposal { request, answer }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Unavailable::Overloaded,
            mpsc::error::TrySendError::Closed(_) => Unavailable::ShuttingDown,
        })?;
        // The batch that held it was dropped: nobody can say how far it came.
        answered.await.unwrap_or(Err(Unavailable::Uncertain))
    }
}

/// Empties the queue until the node stops.
pub(super) async fn run(shared: Arc<Shared>, mut waiting: mpsc::Receiver<Proposal>, tasks: Tasks) {
    let mut batch = Vec::new();
    while waiting.recv_many(&mut batch, BATCH).await > 0 {
        // One turn for those who are about to ask: they share the proposal.
        tokio::task::yield_now().await;
        while batch.len() < BATCH
            && let Ok(next) = waiting.try_recv()
        {
            batch.push(next);
        }
        // Whoever has stopped waiting has been told that it did not happen only if it never does.
        submit(&shared, &mut batch, &tasks).await;
    }
}

async fn submit(shared: &Arc<Shared>, batch: &mut Vec<Proposal>, tasks: &Tasks) {
    let Some(term) = shared.settled_term(SETTLE_LIMIT).await else {
        refuse(batch, Unavailable::NoLeader);
        return;
    };
    if shared.disk.low_on_space() {
        refuse_clients(batch);
    }
    if batch.is_empty() {
        return;
    }
    let Some(log_ms) = shared.clock.stamp(term, clock::monotonic()) else {
        refuse(batch, Unavailable::NoLeader);
        return;
    };
    let wall = clock::wall();
    let (mut payloads, mut waiting) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
    for Proposal { request, answer } in batch.drain(..) {
        payloads.push(Payload(Bytes::from(Command { log_ms, wall, request }.to_bytes())));
        waiting.push(answer);
    }
    metrics::counter!("ringfence_operations_total").increment(payloads.len() as u64);
    metrics::counter!("ringfence_appends_total").increment(1);
    match shared.raft.client_write_many(payloads).await {
        Ok(outcomes) => tasks.spawn("outcomes", AtEnd::Fine, hand_out(outcomes, waiting)),
        Err(error) => {
            tracing::error!(%error, "the log takes nothing any more");
            for answer in waiting {
                answer.send(Err(Unavailable::ShuttingDown)).ok();
            }
        }
    }
}

fn refuse(batch: &mut Vec<Proposal>, why: Unavailable) {
    for proposal in batch.drain(..) {
        proposal.answer.send(Err(why)).ok();
    }
}

/// With a nearly full disk only time goes on, so that what is held still ends; there is room kept back for that.
fn refuse_clients(batch: &mut Vec<Proposal>) {
    for proposal in batch.extract_if(.., |proposal| matches!(proposal.request, Request::Client(_))) {
        proposal.answer.send(Err(Unavailable::StorageFull)).ok();
    }
}

type Outcomes = futures_util::stream::BoxStream<
    'static,
    Result<
        openraft::raft::WriteResult<super::types::TypeConfig>,
        openraft::errors::Fatal<super::types::TypeConfig>,
    >,
>;

async fn hand_out(mut outcomes: Outcomes, waiting: Vec<oneshot::Sender<Result<Applied, Unavailable>>>) {
    for answer in waiting {
        let outcome = match outcomes.next().await {
            Some(Ok(Ok(written))) => Ok(written.response),
            // Not taken into the log.
            Some(Ok(Err(ClientWriteError::ForwardToLeader(_)))) => Err(Unavailable::NoLeader),
            // Taken into the log, but the leadership was lost: it may be committed yet.
            Some(Ok(Err(
                ClientWriteError::LogEntryDiscarded(_)
                | ClientWriteError::ChangeMembershipError(_)
                | ClientWriteError::PreconditionFailed(_),
            )))
            | Some(Err(_))
            | None => Err(Unavailable::Uncertain),
        };
        // Whoever asked may have run out of time.
        answer.send(outcome).ok();
    }
}
