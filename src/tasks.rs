//! The registry of tasks: every one has a name and a rule for what its end means.
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// What it means when a task ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtEnd {
    /// Nothing: it had a piece of work, and has done it.
    Fine,
    /// The node can't go on without it: stop the node.
    StopsNode,
}

/// Spawns tasks, stops them, and waits for them.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
    /// The node is stopping by itself: what ends now was meant to.
    ending: Arc<AtomicBool>,
}

impl Tasks {
    /// A registry whose tasks end when `stop` is cancelled.
    #[must_use]
    pub fn new(stop: CancellationToken) -> Self {
        Self { tracker: TaskTracker::new(), stop, ending: Arc::default() }
    }

    /// The signal to stop; cancelled too when a task that the node needs has ended.
    #[must_use]
    pub const fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Spawns a task that is dropped at its next wait once the node stops.
    pub fn spawn(&self, name: &'static str, at_end: AtEnd, task: impl Future<Output = ()> + Send + 'static) {
        let (stop, ending) = (self.stop.clone(), Arc::clone(&self.ending));
        self.tracker.spawn(async move {
            let ended = tokio::select! {
                // Cancel safe: the task is never polled again.
                () = stop.cancelled() => false,
                () = task => true,
            };
            if ended && at_end == AtEnd::StopsNode && !ending.load(Ordering::Relaxed) {
                tracing::error!(task = name, "a task that the node needs has ended: stopping");
                stop.cancel();
            }
        });
    }

    /// From now on it is no failure when a task ends.
    pub fn expect_ends(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// Spawns a task that sees to its own end when the node stops.
    pub fn spawn_draining(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(task);
    }

    /// Waits until all tasks have ended.
    pub async fn join(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}
