//! What callers hand to the log's thread.

use super::error::WalError;
use super::record::Record;

/// Called once with the outcome of a submission, on the log's thread: it must be quick and must not block.
pub type Done = Box<dyn FnOnce(Result<(), WalError>) + Send>;

/// What has to be true before a submission is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Its records, and everything submitted before, are on the disk.
    Sync,
    /// Its place in the order is taken. The records are kept in memory and written, with the same fsync, before the
    /// next records submitted with [`Durability::Sync`], or when the log is closed. A crash before loses them.
    ///
    /// They are not written alone, for a later group on the disk proves to the recovery that all earlier ones were
    /// durable.
    Lazy,
}

/// Records with their callback.
pub(super) struct Submission {
    pub(super) records: Vec<Record>,
    pub(super) durability: Durability,
    pub(super) completion: Completion,
}

impl Submission {
    /// Bytes on the disk.
    pub(super) fn encoded_len(&self) -> usize {
        encoded_len(&self.records)
    }
}

/// Bytes that `records` take on the disk.
pub(super) fn encoded_len(records: &[Record]) -> usize {
    records.iter().map(|record| record.frame().encoded_len()).sum()
}

/// Makes sure that the callback is called: dropped unanswered, the submission was lost with its thread or queue.
pub(super) struct Completion(Option<Done>);

impl Completion {
    pub(super) fn new(done: Done) -> Self {
        Self(Some(done))
    }

    pub(super) fn finish(mut self, outcome: Result<(), WalError>) {
        if let Some(done) = self.0.take() {
            done(outcome);
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err(WalError::Closed));
        }
    }
}
