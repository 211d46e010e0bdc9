//! The next segment, made ahead on a thread of its own: filling and syncing 16 MiB takes longer than a group may wait.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::disk::Disk;
use super::error::WalError;
use super::segment;
use super::stats::WalStats;

/// How long to leave a full disk alone before the next try.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// An empty segment, ready for use.
pub(super) struct Prepared {
    pub(super) number: u64,
    pub(super) size: usize,
    pub(super) file: File,
}

/// What is needed to make segments.
#[derive(Clone)]
pub(super) struct SegmentMaker {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) folder: PathBuf,
    pub(super) log_id: u64,
}

impl SegmentMaker {
    pub(super) fn make(&self, number: u64, size: usize) -> Result<Prepared, WalError> {
        let file = segment::create(&*self.disk, &self.folder, number, size, self.log_id)?;
        Ok(Prepared { number, size, file })
    }
}

/// Owns the thread and the segment that it has made. Dropping waits for the thread.
pub(super) struct Preparer {
    maker: SegmentMaker,
    stats: Arc<WalStats>,
    state: State,
    /// `None` only while dropping.
    orders: Option<Sender<(u64, usize)>>,
    results: Receiver<Result<Prepared, WalError>>,
    thread: Option<JoinHandle<()>>,
}

enum State {
    Idle { not_before: Option<Instant> },
    Ordered,
    Ready(Prepared),
}

impl Preparer {
    /// Starts the thread. `ready` is a segment left over from before.
    pub(super) fn start(
        maker: SegmentMaker,
        stats: Arc<WalStats>,
        ready: Option<Prepared>,
    ) -> Result<Self, WalError> {
        let (orders, received) = mpsc::channel::<(u64, usize)>();
        let (results_in, results) = mpsc::channel();
        let thread_maker = maker.clone();
        let thread = thread::Builder::new()
            .name("wal-prepare".into())
            .spawn(move || {
                for (number, size) in received {
                    // Nobody to take the result: the log is being closed.
                    if results_in.send(thread_maker.make(number, size)).is_err() {
                        return;
                    }
                }
            })
            .map_err(|error| WalError::io("start a thread for", &maker.folder, error))?;
        let state = ready.map_or(State::Idle { not_before: None }, State::Ready);
        Ok(Self { maker, stats, state, orders: Some(orders), results, thread: Some(thread) })
    }

    /// Has segment `number` made unless that was done, is under way, or has just failed. Never waits.
    pub(super) fn order(&mut self, number: u64, size: usize) {
        if matches!(self.state, State::Ordered) {
            match self.results.try_recv() {
                Ok(result) => self.note(result),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
            }
        }
        let State::Idle { not_before } = &self.state else {
            return;
        };
        if not_before.is_some_and(|moment| Instant::now() < moment) {
            return;
        }
        if self.orders.as_ref().is_some_and(|orders| orders.send((number, size)).is_ok()) {
            self.state = State::Ordered;
        }
    }

    /// Segment `number` with at least `size` bytes. Waits for one under way; makes it here if there is none that fits.
    pub(super) fn take(&mut self, number: u64, size: usize) -> Result<Prepared, WalError> {
        if matches!(self.state, State::Ordered) {
            match self.results.recv() {
                Ok(result) => self.note(result),
                Err(mpsc::RecvError) => self.state = State::Idle { not_before: None },
            }
        }
        match std::mem::replace(&mut self.state, State::Idle { not_before: None }) {
            State::Ready(prepared) if prepared.number == number && prepared.size >= size => Ok(prepared),
            State::Ready(_) | State::Idle { .. } | State::Ordered => self.maker.make(number, size),
        }
    }

    fn note(&mut self, result: Result<Prepared, WalError>) {
        self.stats.set_low_on_space(result.is_err());
        self.state = match result {
            Ok(prepared) => State::Ready(prepared),
            Err(error) => {
                tracing::warn!(%error, "the next segment of the log could not be made; trying again");
                State::Idle { not_before: Some(Instant::now() + RETRY_AFTER) }
            }
        };
    }
}

impl Drop for Preparer {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that makes the log's segments has panicked");
        }
    }
}
