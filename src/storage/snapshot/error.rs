//! What can go wrong with a snapshot.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::storage::durable;

/// Why a snapshot could not be written or read.
#[derive(Debug, Clone, Error)]
pub enum SnapshotError {
    /// The file is not what was written.
    #[error(
        "snapshot {} is damaged at byte {offset}: {reason}; wipe this node's data folder and rejoin the cluster under \
         a new node id",
        file.display()
    )]
    Damaged {
        /// The damaged file.
        file: PathBuf,
        /// Where in the file the damaged part begins.
        offset: u64,
        /// What is wrong.
        reason: SnapshotDamage,
    },
    /// The file was written by another version.
    #[error("{} has format {found}, this version knows {known}: start the version that wrote it", file.display())]
    UnknownFormat {
        /// The file.
        file: PathBuf,
        /// Its format number.
        found: u32,
        /// The only number this version reads.
        known: u32,
    },
    /// There is no space for it. The snapshots that were there are untouched.
    #[error("no space left for a snapshot: {action} {}", path.display())]
    DiskFull {
        /// What was being done.
        action: &'static str,
        /// To which file or folder.
        path: PathBuf,
    },
    /// The caller's description is longer than a file may carry.
    #[error("a snapshot's description of {bytes} bytes is over the limit of {limit}")]
    MetaTooLarge {
        /// Its bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The system refused a file operation.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
}

/// What is wrong with a damaged snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SnapshotDamage {
    /// The file's beginning.
    #[error("its header does not match its checksum")]
    Header,
    /// The file was renamed.
    #[error("its name does not fit its index {found}")]
    Name {
        /// The index in the header.
        found: u64,
    },
    /// One block of data.
    #[error("block {0} does not match its checksum")]
    Block(u64),
    /// The file's end, or the data as a whole.
    #[error("its footer does not match what precedes it")]
    Footer,
    /// The file ends too early.
    #[error("it ends too early")]
    Truncated,
    /// The file goes on too long.
    #[error("something follows its footer")]
    Trailing,
}

impl SnapshotError {
    /// The error for a failed file operation.
    pub(super) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        if durable::is_disk_full(&error) {
            Self::DiskFull { action, path: path.to_owned() }
        } else {
            Self::Io { action, path: path.to_owned(), source: Arc::new(error) }
        }
    }
}
