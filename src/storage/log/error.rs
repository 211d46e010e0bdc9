//! What can go wrong with a log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::storage::durable;
use crate::storage::lock::LockError;

/// Why the log did not open, or why a submission failed. Cloneable: one failure answers every waiting submission.
#[derive(Debug, Clone, Error)]
pub enum WalError {
    /// Acknowledged records are damaged or gone. The node must not start: it could vote twice or forget what it
    /// promised to keep.
    #[error(
        "{} is damaged at byte {offset}: {reason}; wipe this node's data folder and rejoin the cluster under a new node id",
        file.display()
    )]
    Damaged {
        /// The damaged or missing file.
        file: PathBuf,
        /// Where in the file; 0 when the file as a whole is meant.
        offset: u64,
        /// What is wrong.
        reason: DamageReason,
    },
    /// No log where one must be.
    #[error(
        "{} holds no log although this node has started one; restore the folder if it was moved or not mounted, \
         else wipe this node's data folder and rejoin the cluster under a new node id",
        folder.display()
    )]
    Missing {
        /// The folder without a log.
        folder: PathBuf,
    },
    /// A log was to be created where there is one with records.
    #[error(
        "{} already holds a log with records although this node is new; if the folder is another node's, give this \
         node its own, else wipe this node's data folder and rejoin the cluster under a new node id",
        folder.display()
    )]
    AlreadyStarted {
        /// The folder with the log.
        folder: PathBuf,
    },
    /// The log was written by another version.
    #[error(
        "{} has format {found}, this version knows {known}: start the version that wrote it",
        file.display()
    )]
    UnknownFormat {
        /// The file with the unknown format.
        file: PathBuf,
        /// Its format number.
        found: u32,
        /// The only number this version reads.
        known: u32,
    },
    /// Somebody else has the log open.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// There is no space for another segment. Nothing of the submission was acknowledged, and the log takes nothing
    /// more: free some space and start the process again.
    #[error("no space left for the log: {action} {}", path.display())]
    DiskFull {
        /// What was being done.
        action: &'static str,
        /// To which file or folder.
        path: PathBuf,
    },
    /// The system refused a file operation. While the log is in use this is final: after a failed write or fsync
    /// nobody knows what is on the disk, so it is never retried. The owner ends the process.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// An entry does not follow the last one. Nothing of the submission was written; the log can go on.
    #[error("entry {found} does not follow the log, which expects {expected:?}")]
    OutOfOrder {
        /// The index that the log expects; `None` if there is no such index any more.
        expected: Option<u64>,
        /// The index that was submitted.
        found: u64,
    },
    /// A submission is larger than a group may be. Nothing of it was written; the log can go on.
    #[error("a submission of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// Bytes that the submission, or one of its records, would take.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The log was closed, or its thread has died, before the submission was written.
    #[error("the log is closed")]
    Closed,
}

/// What is wrong with a damaged log.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DamageReason {
    /// The header of the segment does not match its checksum.
    #[error("its header does not match its checksum")]
    SegmentHeader,
    /// The file is shorter or longer than its header says.
    #[error("it has {found} bytes, its header says {expected}")]
    SegmentSize {
        /// Bytes according to the header.
        expected: u64,
        /// Bytes in the file.
        found: u64,
    },
    /// The name ends like a segment's, but is none.
    #[error("its name is not that of a segment")]
    NotASegment,
    /// The file was renamed: its header carries another number.
    #[error("its name does not fit its number {found}")]
    SegmentName {
        /// The number in the header.
        found: u64,
    },
    /// The file belongs to another log.
    #[error("it belongs to another node's log")]
    ForeignSegment,
    /// A segment between two others, or the one that follows a sealed one, does not exist.
    #[error("the segment is missing")]
    SegmentMissing,
    /// A segment that must hold records holds none.
    #[error("it holds no complete group of records although it must")]
    SegmentEmpty,
    /// Segments before the oldest one held entries that are still needed.
    #[error("the segments before it are missing: entries {first} to {last} are gone")]
    EntriesMissing {
        /// First entry that is gone.
        first: u64,
        /// Last entry that is gone.
        last: u64,
    },
    /// A bad record, and behind it traces of a later group: the bad one had been acknowledged.
    #[error("a bad record is followed by later ones")]
    BadRecord,
    /// The last group is bad although each of its sectors was written.
    #[error("the last group of records was written whole and does not match its checksums")]
    BadLastGroup,
    /// Group numbers are not contiguous.
    #[error("group {found} follows where group {expected} should be")]
    GroupGap {
        /// The number that should follow.
        expected: u64,
        /// The number found.
        found: u64,
    },
    /// Entry indexes are not contiguous.
    #[error("entry {found} follows where entry {expected:?} should be")]
    EntryGap {
        /// The index that should follow.
        expected: Option<u64>,
        /// The index found.
        found: u64,
    },
    /// Checksums hold, but the contents contradict each other.
    #[error("its records contradict each other: {0}")]
    Contradiction(&'static str),
}

impl WalError {
    /// The error for a failed file operation.
    pub(super) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        if durable::is_disk_full(&error) {
            Self::DiskFull { action, path: path.to_owned() }
        } else {
            Self::Io { action, path: path.to_owned(), source: Arc::new(error) }
        }
    }

    /// The error for damage at `offset` of `file`.
    pub(super) fn damaged(file: &Path, offset: usize, reason: DamageReason) -> Self {
        Self::Damaged { file: file.to_owned(), offset: offset as u64, reason }
    }
}
