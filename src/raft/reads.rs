//! The read barrier: one confirmation of leadership serves all reads that arrived before it began.
use super::{ReadPoint, Unavailable, shared::Shared};
use crate::clock;
use openraft::raft::ReadPolicy;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

/// How many reads wait before the next one is told that the node is overloaded.
const QUEUE: usize = 8192;
const SETTLE_LIMIT: Duration = Duration::from_secs(2);
/// How long one confirmation may take before those who wait for it are told that there is no leader.
const ROUND_LIMIT: Duration = Duration::from_secs(2);

pub(super) type Waiter = oneshot::Sender<Result<ReadPoint, Unavailable>>;

/// The near end of the queue of reads.
#[derive(Clone)]
pub(super) struct Reads {
    queue: mpsc::Sender<Waiter>,
}

impl Reads {
    pub(super) fn channel() -> (Self, mpsc::Receiver<Waiter>) {
        let (queue, waiting) = mpsc::channel(QUEUE);
        (Self { queue }, waiting)
    }

    /// Waits for a confirmation that this node leads which began after this call.
    pub(super) async fn confirm(&self) -> Result<ReadPoint, Unavailable> {
        let (waiter, answered) = oneshot::channel();
        self.queue.try_send(waiter).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Unavailable::Overloaded,
            mpsc::error::TrySendError::Closed(_) => Unavailable::ShuttingDown,
        })?;
        // A read changes nothing: one whose outcome isn't known can be said not to have happened.
        answered.await.unwrap_or(Err(Unavailable::NoLeader))
    }
}

/// Answers reads until the node stops.
pub(super) async fn run(shared: Arc<Shared>, mut waiting: mpsc::Receiver<Waiter>) {
    let mut batch = Vec::new();
    while waiting.recv_many(&mut batch, QUEUE).await > 0 {
        tokio::task::yield_now().await;
        while let Ok(next) = waiting.try_recv() {
            batch.push(next);
        }
        let point = timeout(ROUND_LIMIT, confirm(&shared)).await.unwrap_or(Err(Unavailable::NoLeader));
        for waiter in batch.drain(..) {
            waiter.send(point).ok();
        }
    }
}

async fn confirm(shared: &Shared) -> Result<ReadPoint, Unavailable> {
    shared.settled_term(SETTLE_LIMIT).await.ok_or(Unavailable::NoLeader)?;
    metrics::counter!("ringfence_read_rounds_total").increment(1);
    let linearizer = shared.raft.get_read_linearizer(ReadPolicy::ReadIndex).await.map_err(|error| {
        tracing::debug!(%error, "leadership could not be confirmed");
        Unavailable::NoLeader
    })?;
    let ready = linearizer.await_ready(&shared.raft).await.map_err(|_| Unavailable::ShuttingDown)?;
    // Read after the confirmation: log time on a leader that was deposed before is never handed out.
    let log_ms = shared.clock.peek(clock::monotonic()).ok_or(Unavailable::NoLeader)?;
    Ok(ReadPoint { index: ready.read_log_id().index(), log_ms })
}
