//! Numbers for the metrics: counters that any thread may read at any time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What the log has done since it was opened. Each number is exact; two read one after the other may be from
/// different moments.
#[derive(Debug, Default)]
pub struct WalStats {
    groups: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
    syncs: AtomicU64,
    sync_nanos: AtomicU64,
    last_sync_nanos: AtomicU64,
    low_on_space: AtomicBool,
}

impl WalStats {
    /// Groups written. Nearly as many as records under load: the callers don't let the log batch.
    pub fn groups(&self) -> u64 {
        self.groups.load(Ordering::Relaxed)
    }

    /// Submitted records written.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Bytes written, headers and checkpoints included, the filling of new segments not.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Syncs of a segment in use: one for each group and one at the end of each segment.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Time spent in these syncs.
    pub fn sync_time(&self) -> Duration {
        Duration::from_nanos(self.sync_nanos.load(Ordering::Relaxed))
    }

    /// Duration of the latest of these syncs.
    pub fn last_sync(&self) -> Duration {
        Duration::from_nanos(self.last_sync_nanos.load(Ordering::Relaxed))
    }

    /// The next segment could not be made. The log still takes what fits into the current one, enough for votes and
    /// a purge, then fails with [`WalError::DiskFull`](super::WalError::DiskFull). A node should stop taking new
    /// work and give up leadership while this holds; it ends by itself when there is space again.
    pub fn low_on_space(&self) -> bool {
        self.low_on_space.load(Ordering::Relaxed)
    }

    pub(super) fn count_group(&self, records: usize) {
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.records.fetch_add(records as u64, Ordering::Relaxed);
    }

    pub(super) fn count_sync(&self, bytes: usize, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.sync_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.last_sync_nanos.store(nanos, Ordering::Relaxed);
    }

    pub(super) fn set_low_on_space(&self, low: bool) {
        self.low_on_space.store(low, Ordering::Relaxed);
    }
}
