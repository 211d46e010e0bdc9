//! Writing a snapshot.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::error::SnapshotError;
use super::format::{self, BLOCK_BYTES, FORMAT, Header, MAX_META_BYTES, Totals};
use super::{SnapshotFile, SnapshotStore};
use crate::storage::durable;

/// Takes a snapshot's data. It has its name, and is durable, only after [`SnapshotWriter::finish`]; dropped before,
/// it leaves nothing.
#[derive(Debug)]
pub struct SnapshotWriter {
    store: SnapshotStore,
    file: File,
    unfinished: PathBuf,
    finished: SnapshotFile,
    /// Data not yet written: always less than a block.
    block: Vec<u8>,
    totals: Totals,
    /// A write has failed: what is in the file is unknown.
    failed: bool,
}

impl SnapshotWriter {
    pub(super) fn begin(
        store: SnapshotStore,
        index: u64,
        name: &str,
        number: u64,
        meta: &[u8],
    ) -> Result<Self, SnapshotError> {
        let meta_len = u32::try_from(meta.len()).ok().filter(|_| meta.len() <= MAX_META_BYTES);
        let meta_len =
            meta_len.ok_or(SnapshotError::MetaTooLarge { bytes: meta.len(), limit: MAX_META_BYTES })?;
        let unfinished = store.folder.join(format::unfinished_name(name, number));
        let header = Header { format: FORMAT, meta_len, index, meta_crc: crc32c::crc32c(meta) };
        let failed = |error| SnapshotError::io("create", &unfinished, error);
        let file = File::create(&unfinished).map_err(failed)?;
        let finished = SnapshotFile { path: store.folder.join(name), index };
        let block = Vec::with_capacity(BLOCK_BYTES);
        let mut writer =
            Self { store, file, unfinished, finished, block, totals: Totals::default(), failed: false };
        let begun = writer.put(&[&header.encode(), meta]);
        begun.map_err(|error| SnapshotError::io("write", &writer.unfinished, error))?;
        Ok(writer)
    }

    /// The unfinished file.
    pub fn path(&self) -> &Path {
        &self.unfinished
    }

    /// Completes the snapshot and makes it durable, then removes older ones. After that, and not before, the log that
    /// it replaces may be purged.
    pub fn finish(mut self) -> Result<SnapshotFile, SnapshotError> {
        self.complete().map_err(|error| SnapshotError::io("finish", &self.unfinished, error))?;
        self.store.remove_older(&self.finished.path)?;
        Ok(self.finished.clone())
    }

    fn complete(&mut self) -> io::Result<()> {
        self.put_block()?;
        let footer = self.totals.encode();
        self.put(&[&footer])?;
        self.file.sync_all()?;
        fs::rename(&self.unfinished, &self.finished.path)?;
        durable::sync_folder(&self.store.folder)
    }

    fn put_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let block = std::mem::take(&mut self.block);
        let length = u32::try_from(block.len()).expect("a block has at most 64 KiB");
        let crc = self.totals.next_block_crc(&block);
        self.put(&[&length.to_le_bytes(), &crc.to_le_bytes(), &block])?;
        self.totals.add(&block);
        self.block = block;
        self.block.clear();
        Ok(())
    }

    fn put(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier write to this snapshot has failed"));
        }
        let written = self.file.write_all(&parts.concat());
        self.failed = written.is_err();
        written
    }
}

impl Write for SnapshotWriter {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.block.len() == BLOCK_BYTES {
            self.put_block()?;
        }
        let taken = data.len().min(BLOCK_BYTES - self.block.len());
        self.block.extend_from_slice(&data[..taken]);
        Ok(taken)
    }

    /// Does nothing: only [`SnapshotWriter::finish`] makes a snapshot.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        // After `finish` the name is gone; otherwise the next opening removes what can't be removed now.
        fs::remove_file(&self.unfinished).ok();
    }
}
