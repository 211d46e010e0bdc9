//! Snapshots: whole states as plain files.
//!
//! **Owns** the `*.snap` files of one folder. **Guarantees** that a snapshot that has its name is complete and
//! durable, and that damage in any byte of it is found before the reader has been told that it is complete. **Must
//! not** decide what a damaged snapshot means, nor purge the log: a snapshot must be finished *before* the log that
//! it replaces is purged, and the caller keeps that order.
//!
//! A snapshot received from a peer is written the same way as one of our own.
//!
//! The folder has no lock of its own: the caller holds the data folder's before it opens the store, as opening
//! removes what looks unfinished.

mod error;
mod format;
mod reader;
mod writer;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use error::{SnapshotDamage, SnapshotError};
pub use format::BLOCK_BYTES;
pub use reader::SnapshotReader;
pub use writer::SnapshotWriter;

use super::durable;

/// How many snapshots are kept: the newest, and the one before it while a peer may still be reading it.
const KEPT: usize = 2;

/// The snapshots of one folder. Clones share it.
#[derive(Debug, Clone)]
pub struct SnapshotStore {
    folder: PathBuf,
    /// Tells the unfinished files of writers at work at the same time apart.
    writers: Arc<AtomicU64>,
}

/// A finished snapshot. Its name says no more than where it is; [`SnapshotFile::open`] verifies what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotFile {
    /// Where it is.
    pub path: PathBuf,
    /// The last log index that it covers, from its name; verified when it is opened.
    pub index: u64,
}

/// A snapshot that was read to its end and found to be intact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedSnapshot {
    /// The file.
    pub file: SnapshotFile,
    /// The caller's description of it.
    pub meta: Vec<u8>,
    /// Bytes of data.
    pub data_len: u64,
}

impl SnapshotStore {
    /// Opens the store in `folder`, which is made if it does not exist, and removes unfinished snapshots.
    pub fn open(folder: &Path) -> Result<Self, SnapshotError> {
        let failed = |error| SnapshotError::io("open", folder, error);
        durable::create_folder(folder).map_err(failed)?;
        durable::remove_unfinished(folder).map_err(failed)?;
        Ok(Self { folder: folder.to_owned(), writers: Arc::default() })
    }

    /// Begins a snapshot that covers the log up to `index`. `id` goes into the file's name to tell it from others of
    /// the same index: letters, digits, `.`, `-` and `_` are kept, other characters become `_`, at most 64 of them.
    /// A finished snapshot of the same index and id is replaced.
    pub fn writer(&self, index: u64, id: &str, meta: &[u8]) -> Result<SnapshotWriter, SnapshotError> {
        let number = self.writers.fetch_add(1, Ordering::Relaxed);
        SnapshotWriter::begin(self.clone(), index, &format::file_name(index, id), number, meta)
    }

    /// Writes a snapshot whose data is in memory.
    pub fn write(
        &self,
        index: u64,
        id: &str,
        meta: &[u8],
        data: &[u8],
    ) -> Result<SnapshotFile, SnapshotError> {
        let mut writer = self.writer(index, id, meta)?;
        writer.write_all(data).map_err(|error| SnapshotError::io("write", writer.path(), error))?;
        writer.finish()
    }

    /// The finished snapshots, newest first, unverified.
    pub fn list(&self) -> Result<Vec<SnapshotFile>, SnapshotError> {
        let names = durable::file_names(&self.folder)
            .map_err(|error| SnapshotError::io("list", &self.folder, error))?;
        let mut files: Vec<_> = names
            .iter()
            .filter_map(|name| {
                let index = format::index_in_name(name)?;
                Some(SnapshotFile { path: self.folder.join(name), index })
            })
            .collect();
        // The index leads in the name and has a fixed width; of one index, all snapshots hold the same state.
        files.sort_by(|one, other| other.path.cmp(&one.path));
        Ok(files)
    }

    /// The newest snapshot, read to its end and verified; `None` if there is none at all, which is damage if the log has
    /// a purge point. If the newest is damaged
    /// that is an error, whatever older ones there are: the log behind them is purged.
    pub fn latest(&self) -> Result<Option<VerifiedSnapshot>, SnapshotError> {
        match self.list()?.into_iter().next() {
            Some(file) => file.verify().map(Some),
            None => Ok(None),
        }
    }

    /// Removes all but the newest, and but `finished`, which somebody has just asked for.
    fn remove_older(&self, finished: &Path) -> Result<(), SnapshotError> {
        let older = self.list()?.into_iter().skip(KEPT).filter(|file| file.path != finished);
        for file in older {
            match fs::remove_file(&file.path) {
                Ok(()) => {}
                // Two writers that finish at the same time remove the same ones.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(SnapshotError::io("remove", &file.path, error)),
            }
        }
        durable::sync_folder(&self.folder).map_err(|error| SnapshotError::io("sync", &self.folder, error))
    }
}

impl SnapshotFile {
    /// Opens it for reading from the start.
    pub fn open(&self) -> Result<SnapshotReader, SnapshotError> {
        SnapshotReader::open(&self.path, self.index)
    }

    /// Reads it to its end.
    pub fn verify(&self) -> Result<VerifiedSnapshot, SnapshotError> {
        let mut reader = self.open()?;
        while reader.next_block()?.is_some() {}
        let meta = reader.meta().to_vec();
        Ok(VerifiedSnapshot { file: self.clone(), meta, data_len: reader.position() })
    }

    /// Its data, verified.
    pub fn read(&self) -> Result<Vec<u8>, SnapshotError> {
        let mut reader = self.open()?;
        let mut data = Vec::new();
        while let Some(block) = reader.next_block()? {
            data.extend_from_slice(block);
        }
        Ok(data)
    }
}
