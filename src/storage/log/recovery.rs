//! What a folder's segments add up to, or why they can't be trusted.
//!
//! The layout that a running log keeps, and that is verified here:
//!
//! - Segments are numbered without gaps. Each but the last used one ends with a seal, which was durable before the
//!   next segment was used; the one behind the last used one may be there already, unused.
//! - A segment is made only after the first group of the one before it was durable. So an unused or torn segment is
//!   always the last but at most one, and never has another one behind it.
//! - Only the oldest segments are ever removed, when all of their entries were purged. The checkpoint that begins
//!   the oldest one left says which entries they held.
//!
//! Before anything is reported, the torn tail is zeroed and the last group written *again* and synced: after a failed
//! fsync the kernel may show bytes that the disk never took, and a sync alone would not write them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::error::{DamageReason, WalError};
use super::record::Codec;
use super::replay::Replay;
use super::scan::{Group, Image, Step};
use super::segment::{self, FIRST_SEGMENT, SEGMENT_HEADER};
use super::tail::Tail;
use crate::storage::durable;

/// A log that can be trusted and continued.
pub(super) struct Recovery {
    pub(super) replay: Replay,
    /// The used segments, ascending; the last one is to be continued.
    pub(super) used: Vec<UsedSegment>,
    /// Where the next group goes in the last used segment.
    pub(super) offset: usize,
    /// The unused segment behind it: its number and size.
    pub(super) prepared: Option<(u64, usize)>,
}

/// A segment that holds groups, or is about to.
#[derive(Debug, Clone, Copy)]
pub(super) struct UsedSegment {
    pub(super) number: u64,
    pub(super) size: usize,
    /// The greatest index of an entry ever written to it.
    pub(super) max_index: Option<u64>,
}

/// Reads the log in `folder`, verifies it, and makes durable what it reports.
pub(super) fn recover(disk: &dyn Disk, folder: &Path, log_id: u64) -> Result<Recovery, WalError> {
    let numbers = segment::list(folder)?;
    let Some(oldest) = numbers.first() else {
        return Err(WalError::Missing { folder: folder.to_owned() });
    };
    for (expected, number) in (*oldest..).zip(&numbers) {
        if expected != *number {
            return Err(missing_segment(folder, expected));
        }
    }
    let mut reader = Reader::new(folder, log_id);
    for number in &numbers {
        let bytes = segment::read(folder, *number, log_id)?;
        reader.read_segment(*number, &bytes)?;
    }
    reader.finish(disk, *oldest)
}

fn missing_segment(folder: &Path, number: u64) -> WalError {
    WalError::damaged(&segment::path(folder, number), 0, DamageReason::SegmentMissing)
}

/// Bytes that are to be on the disk for certain.
struct LastGroup {
    number: u64,
    start: usize,
    bytes: Vec<u8>,
}

struct Reader<'a> {
    folder: &'a Path,
    log_id: u64,
    replay: Replay,
    used: Vec<UsedSegment>,
    /// The end of the good groups in the last used segment.
    offset: usize,
    /// The end of everything in the last used segment, torn groups included.
    written_end: usize,
    /// The last used segment ends with a seal, or none was read yet: the next one is used too.
    sealed: bool,
    last_group: Option<LastGroup>,
    prepared: Option<(u64, usize)>,
}

impl<'a> Reader<'a> {
    fn new(folder: &'a Path, log_id: u64) -> Self {
        Self {
            folder,
            log_id,
            replay: Replay::default(),
            used: Vec::new(),
            offset: SEGMENT_HEADER,
            written_end: SEGMENT_HEADER,
            sealed: true,
            last_group: None,
            prepared: None,
        }
    }

    fn path(&self, number: u64) -> PathBuf {
        segment::path(self.folder, number)
    }

    fn read_segment(&mut self, number: u64, bytes: &[u8]) -> Result<(), WalError> {
        let image = Image { codec: Codec::new(self.log_id, number), bytes };
        if self.sealed { self.read_groups(number, &image) } else { self.expect_unused(number, &image) }
    }

    /// A segment behind one without seal: made ahead, or proof that the end of the one before it is gone.
    fn expect_unused(&mut self, number: u64, image: &Image<'_>) -> Result<(), WalError> {
        let last = number - 1;
        if !image.is_unused() {
            return Err(WalError::damaged(&self.path(last), self.offset, DamageReason::BadRecord));
        }
        if self.prepared.is_some() || self.offset == SEGMENT_HEADER {
            return Err(WalError::damaged(&self.path(last), 0, DamageReason::SegmentEmpty));
        }
        self.prepared = Some((number, image.bytes.len()));
        Ok(())
    }

    fn read_groups(&mut self, number: u64, image: &Image<'_>) -> Result<(), WalError> {
        self.used.push(UsedSegment { number, size: image.bytes.len(), max_index: None });
        self.offset = SEGMENT_HEADER;
        self.written_end = image.end_of_written();
        self.sealed = false;
        loop {
            match image.step(self.offset) {
                Step::Group(group) if self.sealed => {
                    let reason = DamageReason::Contradiction("a group behind the seal");
                    return Err(WalError::damaged(&self.path(number), group.range.start, reason));
                }
                Step::Group(group) => self.take_group(number, image, &group)?,
                Step::End => return Ok(()),
                Step::Bad => return self.judge(number, image),
            }
        }
    }

    fn take_group(&mut self, number: u64, image: &Image<'_>, group: &Group<'_>) -> Result<(), WalError> {
        let is_first = self.offset == SEGMENT_HEADER;
        let effect = self
            .replay
            .apply(&image.codec, number, is_first, group)
            .map_err(|reason| WalError::damaged(&self.path(number), group.range.start, reason))?;
        if let Some(segment) = self.used.last_mut() {
            segment.max_index = segment.max_index.max(effect.max_index);
        }
        self.sealed = effect.seals;
        self.offset = group.range.end;
        let bytes = image.bytes[group.range.clone()].to_vec();
        self.last_group = Some(LastGroup { number, start: group.range.start, bytes });
        Ok(())
    }

    /// Returns if the bad group at the current offset is a torn tail; later segments must then be unused.
    fn judge(&self, number: u64, image: &Image<'_>) -> Result<(), WalError> {
        let damaged = |reason| WalError::damaged(&self.path(number), self.offset, reason);
        if self.sealed {
            return Err(damaged(DamageReason::Contradiction("bytes behind the seal")));
        }
        // The first group of an oldest segment that is not the log's first was durable before older ones were removed.
        let Some(expected) = self.replay.expected_group(number) else {
            return Err(damaged(DamageReason::SegmentEmpty));
        };
        match image.judge(self.offset, expected) {
            Tail::Torn => Ok(()),
            Tail::Followed => Err(damaged(DamageReason::BadRecord)),
            Tail::Whole => Err(damaged(DamageReason::BadLastGroup)),
        }
    }

    fn finish(self, disk: &dyn Disk, oldest: u64) -> Result<Recovery, WalError> {
        let last = oldest + self.used.len() as u64 - 1;
        if self.sealed {
            return Err(missing_segment(self.folder, last + 1));
        }
        if self.replay.group.is_none() && oldest != FIRST_SEGMENT {
            return Err(WalError::damaged(&self.path(oldest), 0, DamageReason::SegmentEmpty));
        }
        if let Some((first, last)) = self.replay.missing_entries() {
            let reason = DamageReason::EntriesMissing { first, last };
            return Err(WalError::damaged(&self.path(oldest), 0, reason));
        }
        self.settle(disk, last)?;
        Ok(Recovery { replay: self.replay, used: self.used, offset: self.offset, prepared: self.prepared })
    }

    /// Makes durable what is about to be reported: the last group, the zeros behind it, and the folder.
    fn settle(&self, disk: &dyn Disk, last: u64) -> Result<(), WalError> {
        if let Some(group) = &self.last_group {
            self.rewrite(group.number, |file| {
                disk.write(file, &group.bytes, group.start as u64)?;
                disk.sync(file)
            })?;
        }
        if self.written_end > self.offset {
            let cut = self.written_end - self.offset;
            tracing::warn!(
                segment = last,
                offset = self.offset,
                bytes = cut,
                "cutting a torn tail off the log"
            );
            self.rewrite(last, |file| {
                segment::zero(disk, file, self.offset, self.written_end)?;
                disk.sync(file)
            })?;
        }
        durable::sync_folder(self.folder).map_err(|error| WalError::io("sync", self.folder, error))
    }

    fn rewrite(&self, number: u64, write: impl FnOnce(&File) -> io::Result<()>) -> Result<(), WalError> {
        let path = self.path(number);
        File::options()
            .read(true)
            .write(true)
            .open(&path)
            .and_then(|file| write(&file))
            .map_err(|error| WalError::io("settle the end of", &path, error))
    }
}
