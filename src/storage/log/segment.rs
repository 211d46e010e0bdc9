//! Segment files: their names, their header, how they come to be.
//!
//! A segment is a file of fixed size. It is written full of zeros and synced before it gets its name, so that a later
//! write into it changes neither size nor allocation, cannot run out of space, and needs no more than `fdatasync`.
//!
//! ```text
//! header (512)   magic 8 · format u32 · 0 u32 · number u64 · file size u64 · log id u64 · 0… · CRC u32 at 508
//! then           groups of records, zeros to the end
//! ```
//!
//! The place of magic, format and checksum is the same in every format, present and future.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::error::{DamageReason, WalError};
use crate::storage::durable::{self, UNFINISHED_SUFFIX};
use crate::storage::fields::{u32_at, u64_at};

/// Bytes of a segment's header; the first group starts here.
pub(super) const SEGMENT_HEADER: usize = 512;
/// What a disk writes as a whole, if anything.
pub(super) const SECTOR: usize = 512;
/// The number of a log's first segment.
pub(super) const FIRST_SEGMENT: u64 = 1;

const MAGIC: [u8; 8] = *b"RINGFWAL";
const FORMAT: u32 = 1;
const SUFFIX: &str = ".wal";
const CRC_AT: usize = SEGMENT_HEADER - 4;
const FILL_BYTES: usize = 1 << 20;

/// The path of segment `number`.
pub(super) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(file_name(number))
}

fn file_name(number: u64) -> String {
    format!("{number:016}{SUFFIX}")
}

/// The numbers of the segments in `folder`, ascending. Other files are not ours and are left alone.
pub(super) fn list(folder: &Path) -> Result<Vec<u64>, WalError> {
    let names = durable::file_names(folder).map_err(|error| WalError::io("list", folder, error))?;
    let mut numbers = Vec::new();
    for name in names {
        let Some(stem) = name.strip_suffix(SUFFIX) else {
            continue;
        };
        match stem.parse() {
            Ok(number) if file_name(number) == name => numbers.push(number),
            _ => {
                return Err(WalError::damaged(&folder.join(name), 0, DamageReason::NotASegment));
            }
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Makes an empty segment of `size` bytes, durable in contents and name. Replaces an empty one of the same number.
pub(super) fn create(
    disk: &dyn Disk,
    folder: &Path,
    number: u64,
    size: usize,
    log_id: u64,
) -> Result<File, WalError> {
    let path = path(folder, number);
    let unfinished = folder.join(format!("{number:016}{UNFINISHED_SUFFIX}"));
    let fill = || -> io::Result<File> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&unfinished)?;
        zero(disk, &file, SEGMENT_HEADER, size)?;
        disk.write(&file, &header(number, size, log_id), 0)?;
        disk.sync(&file)?;
        fs::rename(&unfinished, &path)?;
        durable::sync_folder(folder)?;
        Ok(file)
    };
    fill().map_err(|error| WalError::io("prepare segment", &path, error))
}

/// Writes zeros over the bytes from `start` to `end`.
pub(super) fn zero(disk: &dyn Disk, file: &File, start: usize, end: usize) -> io::Result<()> {
    let zeros = vec![0; FILL_BYTES.min(end.saturating_sub(start))];
    let mut at = start;
    while at < end {
        let length = zeros.len().min(end - at);
        disk.write(file, &zeros[..length], at as u64)?;
        at += length;
    }
    Ok(())
}

/// Removes segment `number`, durably: a later removal is never on the disk without an earlier one.
pub(super) fn remove(folder: &Path, number: u64) -> Result<(), WalError> {
    let path = path(folder, number);
    fs::remove_file(&path)
        .and_then(|()| durable::sync_folder(folder))
        .map_err(|error| WalError::io("remove segment", &path, error))
}

/// Reads segment `number` and verifies its header.
pub(super) fn read(folder: &Path, number: u64, log_id: u64) -> Result<Vec<u8>, WalError> {
    let path = path(folder, number);
    let bytes = fs::read(&path).map_err(|error| WalError::io("read", &path, error))?;
    let damaged = |reason| WalError::damaged(&path, 0, reason);
    let header = bytes.get(..SEGMENT_HEADER).ok_or_else(|| damaged(DamageReason::SegmentHeader))?;
    if header[..8] != MAGIC || crc32c::crc32c(&header[..CRC_AT]) != u32_at(header, CRC_AT) {
        return Err(damaged(DamageReason::SegmentHeader));
    }
    let found = u32_at(header, 8);
    if found != FORMAT {
        return Err(WalError::UnknownFormat { file: path, found, known: FORMAT });
    }
    if u64_at(header, 32) != log_id {
        return Err(damaged(DamageReason::ForeignSegment));
    }
    if u64_at(header, 16) != number {
        return Err(damaged(DamageReason::SegmentName { found: u64_at(header, 16) }));
    }
    let expected = u64_at(header, 24);
    if expected != bytes.len() as u64 {
        return Err(damaged(DamageReason::SegmentSize { expected, found: bytes.len() as u64 }));
    }
    Ok(bytes)
}

fn header(number: u64, size: usize, log_id: u64) -> [u8; SEGMENT_HEADER] {
    let mut bytes = [0; SEGMENT_HEADER];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[16..24].copy_from_slice(&number.to_le_bytes());
    bytes[24..32].copy_from_slice(&(size as u64).to_le_bytes());
    bytes[32..40].copy_from_slice(&log_id.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..CRC_AT]);
    bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    bytes
}
