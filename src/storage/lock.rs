//! One process per folder.
//!
//! **Owns** a file named `LOCK` and the advisory lock (`flock`) on it. The kernel lets go of the lock when the
//! process ends, however it ends: the file that stays behind means nothing.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

/// The name of the lock file.
pub const LOCK_FILE: &str = "LOCK";

/// The exclusive use of a folder, until dropped.
#[derive(Debug)]
pub struct FolderLock {
    file: File,
}

/// Why a folder could not be locked.
#[derive(Debug, Clone, Error)]
pub enum LockError {
    /// Another process, or another part of this one, holds it.
    #[error("{} is in use by another process: a data folder serves one process at a time", folder.display())]
    InUse {
        /// The folder that is locked.
        folder: PathBuf,
    },
    /// The lock file could not be made or locked.
    #[error("cannot lock {}: {source}", folder.display())]
    Io {
        /// The folder that was to be locked.
        folder: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
}

impl FolderLock {
    /// Locks `folder`, which must exist. Never waits.
    pub fn acquire(folder: &Path) -> Result<Self, LockError> {
        let failed = |error| LockError::Io { folder: folder.to_owned(), source: Arc::new(error) };
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(folder.join(LOCK_FILE))
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file }),
            Err(TryLockError::WouldBlock) => Err(LockError::InUse { folder: folder.to_owned() }),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that is just being started still shares it.
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "a folder could not be unlocked");
        }
    }
}
