//! Reading and verifying a snapshot.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use super::error::{SnapshotDamage, SnapshotError};
use super::format::{
    BLOCK_BYTES, BLOCK_HEADER_BYTES, FOOTER_BYTES, FORMAT, HEADER_BYTES, Header, MAX_META_BYTES, Totals,
};
use crate::storage::fields::u32_at;

/// Reads a snapshot's data, block by block or as [`Read`]. Each block is verified before any of it is given out, but
/// that none is missing is known only at the end: data counts once the end was reached without an error.
#[derive(Debug)]
pub struct SnapshotReader {
    path: PathBuf,
    file: BufReader<File>,
    /// Where in the file the next part begins.
    offset: u64,
    meta: Vec<u8>,
    totals: Totals,
    block: Vec<u8>,
    /// How much of the block was given out through [`Read`].
    given: usize,
    at_end: bool,
}

impl SnapshotReader {
    pub(super) fn open(path: &Path, index: u64) -> Result<Self, SnapshotError> {
        let file = File::open(path).map_err(|error| SnapshotError::io("open", path, error))?;
        let mut reader = Self {
            path: path.to_owned(),
            file: BufReader::with_capacity(BLOCK_BYTES, file),
            offset: 0,
            meta: Vec::new(),
            totals: Totals::default(),
            block: Vec::new(),
            given: 0,
            at_end: false,
        };
        reader.read_header(index)?;
        Ok(reader)
    }

    /// The caller's description of the snapshot.
    pub fn meta(&self) -> &[u8] {
        &self.meta
    }

    /// Bytes of data read so far; at the end, all of them.
    pub fn position(&self) -> u64 {
        self.totals.data_len
    }

    /// The next block of data, verified; `None` at the end, once everything has been found to be there.
    pub fn next_block(&mut self) -> Result<Option<&[u8]>, SnapshotError> {
        if self.at_end {
            return Ok(None);
        }
        let start: [u8; BLOCK_HEADER_BYTES] = self.take()?;
        let length = u32_at(&start, 0) as usize;
        if length == 0 {
            self.read_footer(start)?;
            self.at_end = true;
            self.block.clear();
            self.given = 0;
            return Ok(None);
        }
        let damage = SnapshotDamage::Block(self.totals.blocks);
        if length > BLOCK_BYTES {
            return Err(self.damaged(damage));
        }
        self.block.resize(length, 0);
        self.given = 0;
        self.file.read_exact(&mut self.block).map_err(|error| self.unreadable(error))?;
        if self.totals.next_block_crc(&self.block) != u32_at(&start, 4) {
            return Err(self.damaged(damage));
        }
        self.totals.add(&self.block);
        self.offset += (BLOCK_HEADER_BYTES + length) as u64;
        Ok(Some(&self.block))
    }

    fn read_header(&mut self, index: u64) -> Result<(), SnapshotError> {
        let header: [u8; HEADER_BYTES] = self.take()?;
        let header = Header::decode(&header).ok_or_else(|| self.damaged(SnapshotDamage::Header))?;
        if header.format != FORMAT {
            return Err(SnapshotError::UnknownFormat {
                file: self.path.clone(),
                found: header.format,
                known: FORMAT,
            });
        }
        let meta_len = header.meta_len as usize;
        if meta_len > MAX_META_BYTES {
            return Err(self.damaged(SnapshotDamage::Header));
        }
        self.meta.resize(meta_len, 0);
        self.file.read_exact(&mut self.meta).map_err(|error| self.unreadable(error))?;
        if crc32c::crc32c(&self.meta) != header.meta_crc {
            return Err(self.damaged(SnapshotDamage::Header));
        }
        if header.index != index {
            return Err(self.damaged(SnapshotDamage::Name { found: header.index }));
        }
        self.offset = (HEADER_BYTES + meta_len) as u64;
        Ok(())
    }

    fn read_footer(&mut self, start: [u8; BLOCK_HEADER_BYTES]) -> Result<(), SnapshotError> {
        let rest: [u8; FOOTER_BYTES - BLOCK_HEADER_BYTES] = self.take()?;
        if [start.as_slice(), &rest].concat() != self.totals.encode() {
            return Err(self.damaged(SnapshotDamage::Footer));
        }
        let following = self.file.read(&mut [0]).map_err(|error| self.unreadable(error))?;
        if following > 0 {
            return Err(self.damaged(SnapshotDamage::Trailing));
        }
        Ok(())
    }

    fn take<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], SnapshotError> {
        let mut bytes = [0; LENGTH];
        self.file.read_exact(&mut bytes).map_err(|error| self.unreadable(error))?;
        Ok(bytes)
    }

    fn damaged(&self, reason: SnapshotDamage) -> SnapshotError {
        SnapshotError::Damaged { file: self.path.clone(), offset: self.offset, reason }
    }

    fn unreadable(&self, error: io::Error) -> SnapshotError {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            self.damaged(SnapshotDamage::Truncated)
        } else {
            SnapshotError::io("read", &self.path, error)
        }
    }
}

impl Read for SnapshotReader {
    /// Damage comes as an error of kind [`io::ErrorKind::InvalidData`] around a [`SnapshotError`].
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.given == self.block.len() {
            self.next_block().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
        let taken = out.len().min(self.block.len() - self.given);
        out[..taken].copy_from_slice(&self.block[self.given..self.given + taken]);
        self.given += taken;
        Ok(taken)
    }
}
