//! The write-ahead log: vote, entries, truncations, committed position and purge point, in one order.
//!
//! In reading order: `record` and `segment` (what is on the disk), `state` (what records mean), `writer` (the
//! thread that writes), `scan`, `tail`, `replay`, `recovery` (how it is read again).
//!
//! **Owns** the `*.wal` files of one folder, its lock, and two threads: one writes, one makes the next segment ahead.
//!
//! **Guarantees.**
//! - Records are on the disk in the order in which they were submitted; there is never a later one without all
//!   earlier ones. A vote submitted before an entry is durable before it.
//! - A submission is recovered whole or not at all. It was durable before its callback got `Ok`. One whose callback
//!   got an error, or none because the process ended, may be there or not; if it is, so is all before it.
//! - What waits while an fsync runs shares the next one.
//! - After a failed write or fsync, nothing is acknowledged any more. The owner ends the process.
//! - Opening either gives every acknowledged record, or fails with an error that says what to do. See `tail` for the
//!   few kinds of damage to the very last group that no log can tell from a torn write.
//!
//! **Must not** interpret payloads, retry a failed fsync, skip a damaged record, or acknowledge before the disk has
//! it. There is no switch that turns the fsync off.
//!
//! The queue has no bound of its own: the caller bounds what it submits and has not yet been answered. Entries are
//! not read back but at opening: who submits them keeps what it wants to read.

mod disk;
mod error;
mod prepare;
mod record;
mod recovery;
mod replay;
mod scan;
mod segment;
mod state;
mod stats;
mod submission;
mod tail;
#[cfg(test)]
mod tests;
mod writer;

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use error::{DamageReason, WalError};
pub use record::Record;
pub use stats::WalStats;
pub use submission::{Done, Durability};

use disk::{Disk, SystemDisk};
use prepare::{Prepared, Preparer, SegmentMaker};
use recovery::Recovery;
use segment::{FIRST_SEGMENT, SECTOR, SEGMENT_HEADER};
use submission::{Completion, Submission};
use writer::{Active, Writer};

use super::durable;
use super::lock::FolderLock;

/// Size of a segment unless the options say otherwise.
pub const DEFAULT_SEGMENT_BYTES: usize = 16 << 20;
/// The most bytes that one submission may take on the disk, 48 to 55 per record included.
pub const MAX_SUBMISSION_BYTES: usize = 1 << 30;
/// The most bytes of a vote, a committed position, or the payload of a purge: each checkpoint repeats them.
pub const MAX_META_BYTES: usize = 1 << 20;

const MIN_SEGMENT_BYTES: usize = 4096;

/// Called after each fsync with its duration and the number of records that it made durable; on the log's thread.
pub type SyncObserver = Box<dyn Fn(Duration, usize) + Send>;

/// How a log is opened.
pub struct WalOptions {
    /// A number that no other log has. It is part of every checksum: another node's files, or an earlier life's of
    /// this one, are refused. Those who submit payloads should not know it.
    pub log_id: u64,
    /// Size of new segments, at least 4 KiB. Larger groups get a segment of their own size.
    pub segment_bytes: usize,
    /// Told about each fsync.
    pub on_sync: Option<SyncObserver>,
}

impl WalOptions {
    /// Segments of [`DEFAULT_SEGMENT_BYTES`], no observer.
    pub fn new(log_id: u64) -> Self {
        Self { log_id, segment_bytes: DEFAULT_SEGMENT_BYTES, on_sync: None }
    }
}

/// What a log held when it was opened. All of it is durable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The last vote.
    pub vote: Option<Vec<u8>>,
    /// The last committed position. May be older than the last one submitted, as it is written lazily.
    pub committed: Option<Vec<u8>>,
    /// The purge point: index and payload.
    pub purged: Option<(u64, Vec<u8>)>,
    /// The entries behind the purge point, without gap.
    pub entries: Vec<(u64, Vec<u8>)>,
    /// The number of the last group; 0 in a log without records.
    pub group: u64,
}

/// An open log. Dropping it writes what was submitted and waits for the thread, like [`Wal::close`].
#[derive(Debug)]
pub struct Wal {
    /// `None` only while closing.
    queue: Option<Sender<Submission>>,
    thread: Option<JoinHandle<Option<WalError>>>,
    stats: Arc<WalStats>,
}

impl Wal {
    /// Starts a log in `folder`, which is made if it does not exist. May be repeated until something was written.
    ///
    /// Fails with [`WalError::AlreadyStarted`] if there is a log with records.
    pub fn create(folder: &Path, options: WalOptions) -> Result<Self, WalError> {
        Self::create_on(Arc::new(SystemDisk), folder, options)
    }

    /// Opens the log in `folder`, and cuts off what a crash left unfinished.
    ///
    /// Fails with [`WalError::Missing`] if there is none, [`WalError::Damaged`] if it can't be trusted,
    /// [`WalError::UnknownFormat`] if another version wrote it, [`WalError::Lock`] if somebody else uses it.
    pub fn open(folder: &Path, options: WalOptions) -> Result<(Self, Recovered), WalError> {
        Self::open_on(Arc::new(SystemDisk), folder, options)
    }

    /// Queues `records` behind everything submitted before, from whichever thread. `done` is called exactly once, on
    /// the log's thread and in the order of submission; it must not block.
    ///
    /// The records stay together: all or none survive a crash. A submission that breaks the order of the entries or
    /// a size limit is refused as a whole and leaves the log as it was. Without records, and with
    /// [`Durability::Sync`], it waits for everything before it.
    pub fn submit(&self, records: Vec<Record>, durability: Durability, done: Done) {
        let submission = Submission { records, durability, completion: Completion::new(done) };
        if let Some(queue) = &self.queue
            && let Err(refused) = queue.send(submission)
        {
            // The thread has died. Dropping the submission tells its callback.
            drop(refused);
        }
    }

    /// Counters for the metrics.
    pub fn stats(&self) -> Arc<WalStats> {
        Arc::clone(&self.stats)
    }

    /// Writes what was submitted, lazy records too, and ends the threads. Returns the failure that had stopped the
    /// log, if one had.
    pub fn close(mut self) -> Result<(), WalError> {
        self.shut()
    }

    fn shut(&mut self) -> Result<(), WalError> {
        self.queue = None;
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        if thread.thread().id() == thread::current().id() {
            // A callback owned the log and was the last to drop it: the thread can't wait for itself, but ends next.
            return Ok(());
        }
        match thread.join() {
            Ok(None) => Ok(()),
            Ok(Some(failure)) => Err(failure),
            Err(_panic) => Err(WalError::Closed),
        }
    }

    fn create_on(disk: Arc<dyn Disk>, folder: &Path, options: WalOptions) -> Result<Self, WalError> {
        durable::create_folder(folder).map_err(|error| WalError::io("create", folder, error))?;
        let lock = FolderLock::acquire(folder)?;
        remove_unused(folder)?;
        let size = segment_size(&options);
        segment::create(&*disk, folder, FIRST_SEGMENT, size, options.log_id)?;
        let (wal, _empty) = Self::start(disk, folder, options, lock)?;
        Ok(wal)
    }

    fn open_on(
        disk: Arc<dyn Disk>,
        folder: &Path,
        options: WalOptions,
    ) -> Result<(Self, Recovered), WalError> {
        if !folder.is_dir() {
            return Err(WalError::Missing { folder: folder.to_owned() });
        }
        let lock = FolderLock::acquire(folder)?;
        Self::start(disk, folder, options, lock)
    }

    fn start(
        disk: Arc<dyn Disk>,
        folder: &Path,
        options: WalOptions,
        lock: FolderLock,
    ) -> Result<(Self, Recovered), WalError> {
        durable::remove_unfinished(folder).map_err(|error| WalError::io("tidy", folder, error))?;
        let recovery = recovery::recover(&*disk, folder, options.log_id)?;
        let stats = Arc::new(WalStats::default());
        let (writer, recovered) = continue_from(recovery, disk, folder, options, lock, &stats)?;
        let (queue, received) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("wal".into())
            .spawn(move || writer.run(&received))
            .map_err(|error| WalError::io("start a thread for", folder, error))?;
        Ok((Self { queue: Some(queue), thread: Some(thread), stats }, recovered))
    }
}

impl Drop for Wal {
    fn drop(&mut self) {
        if let Err(error) = self.shut() {
            tracing::error!(%error, "the log was dropped after it had failed");
        }
    }
}

/// Splits what was recovered into the writer that goes on from there and what the caller gets.
fn continue_from(
    recovery: Recovery,
    disk: Arc<dyn Disk>,
    folder: &Path,
    options: WalOptions,
    lock: FolderLock,
    stats: &Arc<WalStats>,
) -> Result<(Writer, Recovered), WalError> {
    let Recovery { replay, mut used, offset, prepared } = recovery;
    let segment = used.pop().expect("a log that was recovered has a segment to go on in");
    let active = Active { file: open_segment(folder, segment.number)?, segment, offset };
    let ready = match prepared {
        Some((number, size)) => Some(Prepared { number, size, file: open_segment(folder, number)? }),
        None => None,
    };
    let maker = SegmentMaker { disk: Arc::clone(&disk), folder: folder.to_owned(), log_id: options.log_id };
    let group = replay.group.unwrap_or(0);
    let recovered = Recovered {
        vote: replay.state.vote.clone(),
        committed: replay.state.committed.clone(),
        purged: replay.state.purged.clone(),
        entries: replay.entries.into(),
        group,
    };
    let writer = Writer {
        folder: folder.to_owned(),
        log_id: options.log_id,
        segment_bytes: segment_size(&options),
        disk,
        observer: options.on_sync,
        stats: Arc::clone(stats),
        preparer: Preparer::start(maker, Arc::clone(stats), ready)?,
        active,
        older: used.into(),
        planned: replay.state.span,
        state: replay.state,
        group,
        held: Vec::new(),
        failure: None,
        buffer: Vec::new(),
        _lock: lock,
    };
    Ok((writer, recovered))
}

fn open_segment(folder: &Path, number: u64) -> Result<File, WalError> {
    let path = segment::path(folder, number);
    File::options().read(true).write(true).open(&path).map_err(|error| WalError::io("open", &path, error))
}

fn segment_size(options: &WalOptions) -> usize {
    options.segment_bytes.max(MIN_SEGMENT_BYTES).next_multiple_of(SECTOR)
}

/// Removes segments that an unfinished [`Wal::create`] left behind; refuses if anything was ever written to one.
fn remove_unused(folder: &Path) -> Result<(), WalError> {
    for number in segment::list(folder)? {
        let path = segment::path(folder, number);
        let bytes = fs::read(&path).map_err(|error| WalError::io("read", &path, error))?;
        if tail::end_of_written(&bytes) > SEGMENT_HEADER {
            return Err(WalError::AlreadyStarted { folder: folder.to_owned() });
        }
        segment::remove(folder, number)?;
    }
    Ok(())
}
