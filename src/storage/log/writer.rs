//! The thread that writes the log.
//!
//! It takes everything that waits, writes it as one group with one fsync, and answers in the order of submission.
//! After the first failed file operation it writes nothing more: what a failed write or fsync left on the disk is
//! unknown, and a second fsync that succeeds proves nothing about the first.

use std::collections::VecDeque;
use std::fs::File;
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use super::disk::Disk;
use super::error::WalError;
use super::prepare::{Prepared, Preparer};
use super::record::{Codec, EMPTY_RECORD, Frame, Kind, Record, encoded_len};
use super::recovery::UsedSegment;
use super::segment::{self, SECTOR, SEGMENT_HEADER};
use super::state::{LogState, Misfit, Span};
use super::stats::WalStats;
use super::submission::{self, Durability, Submission};
use super::{MAX_META_BYTES, MAX_SUBMISSION_BYTES, SyncObserver};
use crate::storage::lock::FolderLock;

/// A group takes no further submission beyond this, or beyond a quarter of a segment, so that a segment is used well
/// and nobody waits for the bytes of too many others.
const MAX_GROUP_BYTES: usize = 4 << 20;
/// Lazy records beyond this are written without waiting for others.
const MAX_HELD_BYTES: usize = 64 << 10;

/// The log's thread: everything that it owns.
pub(super) struct Writer {
    pub(super) folder: PathBuf,
    pub(super) log_id: u64,
    pub(super) segment_bytes: usize,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) observer: Option<SyncObserver>,
    pub(super) stats: Arc<WalStats>,
    pub(super) preparer: Preparer,
    pub(super) active: Active,
    /// The segments before the active one, ascending.
    pub(super) older: VecDeque<UsedSegment>,
    /// What the records on the disk add up to.
    pub(super) state: LogState,
    /// The number of the last group.
    pub(super) group: u64,
    /// What the entries will be once everything admitted is written.
    pub(super) planned: Span,
    /// Lazy records that were answered and not yet written.
    pub(super) held: Vec<Record>,
    /// The first failure, for ever.
    pub(super) failure: Option<WalError>,
    pub(super) buffer: Vec<u8>,
    /// Keeps others out until the thread has ended.
    pub(super) _lock: FolderLock,
}

/// The segment being written.
pub(super) struct Active {
    pub(super) file: File,
    pub(super) segment: UsedSegment,
    /// Where the next group goes.
    pub(super) offset: usize,
}

impl Active {
    pub(super) fn unused(prepared: Prepared) -> Self {
        let segment = UsedSegment { number: prepared.number, size: prepared.size, max_index: None };
        Self { file: prepared.file, segment, offset: SEGMENT_HEADER }
    }

    fn is_unused(&self) -> bool {
        self.offset == SEGMENT_HEADER
    }

    /// Whether a group of `length` fits and leaves room for the seal.
    fn fits(&self, length: usize) -> bool {
        self.offset + length + EMPTY_RECORD <= self.segment.size
    }
}

impl Writer {
    /// Works until every sender of `queue` is gone and the queue is empty. Returns the failure, if there was one.
    pub(super) fn run(mut self, queue: &Receiver<Submission>) -> Option<WalError> {
        let mut waiting = VecDeque::new();
        loop {
            if waiting.is_empty() {
                match queue.recv() {
                    Ok(submission) => waiting.push_back(submission),
                    Err(_closed) => break,
                }
            }
            waiting.extend(queue.try_iter());
            let batch = self.next_batch(&mut waiting);
            self.commit(batch);
            self.tidy();
        }
        let held = mem::take(&mut self.held);
        // A failure is kept in `failure`; nobody waits for these records.
        self.write(held).err();
        self.failure
    }

    /// The longest front of `waiting` that makes a group of reasonable size; at least one.
    fn next_batch(&self, waiting: &mut VecDeque<Submission>) -> Vec<Submission> {
        let limit = MAX_GROUP_BYTES.min(self.segment_bytes / 4);
        let mut length = 0;
        let mut count = 0;
        for submission in waiting.iter() {
            length += submission.encoded_len();
            if count > 0 && length > limit {
                break;
            }
            count += 1;
        }
        waiting.drain(..count).collect()
    }

    fn commit(&mut self, batch: Vec<Submission>) {
        let mut records = mem::take(&mut self.held);
        let mut is_due = false;
        let mut answers = Vec::with_capacity(batch.len());
        for submission in batch {
            let admitted = self.admit(&submission.records);
            if admitted.is_ok() {
                is_due |= submission.durability == Durability::Sync;
                records.extend(submission.records);
            }
            answers.push((submission.completion, admitted));
        }
        let written = if is_due || submission::encoded_len(&records) > MAX_HELD_BYTES {
            self.write(records)
        } else {
            self.held = records;
            Ok(())
        };
        for (completion, admitted) in answers {
            completion.finish(admitted.and_then(|()| written.clone()));
        }
    }

    /// Decides whether `records` may be written, and plans for them if so.
    fn admit(&mut self, records: &[Record]) -> Result<(), WalError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        check_sizes(records)?;
        let mut span = self.planned;
        for record in records {
            plan(&mut span, record)
                .map_err(|Misfit { expected, found }| WalError::OutOfOrder { expected, found })?;
        }
        self.planned = span;
        Ok(())
    }

    /// Writes `records` as one group. A failure is final.
    fn write(&mut self, records: Vec<Record>) -> Result<(), WalError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if records.is_empty() {
            return Ok(());
        }
        let written = self.write_group(&records);
        match &written {
            Ok(()) => records.into_iter().for_each(|record| self.apply(record)),
            Err(error) => self.fail(error),
        }
        written
    }

    fn fail(&mut self, error: &WalError) {
        tracing::error!(%error, "the log has failed and takes nothing more");
        self.failure = Some(error.clone());
    }

    fn write_group(&mut self, records: &[Record]) -> Result<(), WalError> {
        self.make_room(submission::encoded_len(records))?;
        let checkpoint = self.state.encode();
        let first = Frame { kind: Kind::Checkpoint, index: 0, payload: &checkpoint };
        let frames: Vec<_> = self
            .active
            .is_unused()
            .then_some(first)
            .into_iter()
            .chain(records.iter().map(Record::frame))
            .collect();
        self.append(&frames, records.len())?;
        self.stats.count_group(records.len());
        Ok(())
    }

    /// Makes the active segment one that can take a group of `length`.
    fn make_room(&mut self, length: usize) -> Result<(), WalError> {
        let with_checkpoint = length + encoded_len(self.state.encode().len());
        let needed = if self.active.is_unused() { with_checkpoint } else { length };
        if self.active.fits(needed) {
            return Ok(());
        }
        let own_size = (SEGMENT_HEADER + with_checkpoint + EMPTY_RECORD).next_multiple_of(SECTOR);
        let size = own_size.max(self.segment_bytes);
        let number = self.active.segment.number;
        if self.active.is_unused() {
            self.active = Active::unused(self.preparer.take(number, size)?);
            return Ok(());
        }
        // The order matters: (1) the next segment has its name, (2) the seal says that there is one, (3) the next
        // one is written. A power cut after 2 without 1 would look like a lost segment, after 3 without 2 like a
        // lost end of this one.
        let next = self.preparer.take(number + 1, size)?;
        self.append(&[Frame { kind: Kind::Seal, index: 0, payload: &[] }], 0)?;
        self.older.push_back(self.active.segment);
        self.active = Active::unused(next);
        Ok(())
    }

    /// Writes `frames` as the next group and syncs. `records` is how many of them were submitted.
    fn append(&mut self, frames: &[Frame<'_>], records: usize) -> Result<(), WalError> {
        let number = self.active.segment.number;
        self.buffer.clear();
        Codec::new(self.log_id, number).encode_group(self.group + 1, frames, &mut self.buffer);
        self.disk
            .write(&self.active.file, &self.buffer, self.active.offset as u64)
            .map_err(|error| WalError::io("write", &segment::path(&self.folder, number), error))?;
        self.sync(records)?;
        self.group += 1;
        self.active.offset += self.buffer.len();
        let entries = frames.iter().filter(|frame| frame.kind == Kind::Entry).map(|frame| frame.index);
        self.active.segment.max_index = self.active.segment.max_index.max(entries.max());
        // One huge group must not keep its memory for ever.
        self.buffer.shrink_to(2 * MAX_GROUP_BYTES);
        Ok(())
    }

    fn sync(&mut self, records: usize) -> Result<(), WalError> {
        let start = Instant::now();
        self.disk.sync(&self.active.file).map_err(|error| {
            WalError::io("sync", &segment::path(&self.folder, self.active.segment.number), error)
        })?;
        let took = start.elapsed();
        self.stats.count_sync(self.buffer.len(), took);
        if let Some(observer) = &self.observer {
            observer(took, records);
        }
        Ok(())
    }

    /// Takes over what was written.
    fn apply(&mut self, record: Record) {
        let fits = match record {
            Record::Entry { index, .. } => self.state.span.append(index),
            Record::Truncate { from_index } => {
                self.state.span.truncate(from_index);
                Ok(())
            }
            Record::Vote(bytes) => {
                self.state.vote = Some(bytes);
                Ok(())
            }
            Record::Committed(bytes) => {
                self.state.committed = Some(bytes);
                Ok(())
            }
            Record::Purge { upto_index, bytes } => self.state.purge(upto_index, bytes),
        };
        fits.expect("a record is planned before it is written, and written in the planned order");
    }

    /// What can be done once the callers have their answers.
    fn tidy(&mut self) {
        // Only behind a segment in use: the recovery takes a segment's existence for proof that the one before it
        // has been used. For the same reason, older ones go only when the active one has its checkpoint.
        if self.failure.is_some() || self.active.is_unused() {
            return;
        }
        self.preparer.order(self.active.segment.number + 1, self.segment_bytes);
        if let Err(error) = self.remove_purged() {
            self.fail(&error);
        }
    }

    /// Removes the oldest segments as long as all of their entries are purged.
    fn remove_purged(&mut self) -> Result<(), WalError> {
        let purged = self.state.purged.as_ref().map(|(point, _)| *point);
        // A segment without entries holds nothing that the active one's checkpoint does not: `None` is the least.
        while let Some(oldest) = self.older.pop_front_if(|segment| segment.max_index <= purged) {
            segment::remove(&self.folder, oldest.number)?;
        }
        Ok(())
    }
}

/// What `record` will do to the entries.
fn plan(span: &mut Span, record: &Record) -> Result<(), Misfit> {
    match record {
        Record::Entry { index, .. } => span.append(*index),
        Record::Purge { upto_index, .. } => span.purge(*upto_index),
        Record::Truncate { from_index } => {
            span.truncate(*from_index);
            Ok(())
        }
        Record::Vote(_) | Record::Committed(_) => Ok(()),
    }
}

/// Keeps groups and checkpoints within what their length fields can say.
fn check_sizes(records: &[Record]) -> Result<(), WalError> {
    let too_large =
        |bytes: usize, limit: usize| Err(WalError::TooLarge { bytes: bytes as u64, limit: limit as u64 });
    for record in records {
        let meta = match record {
            Record::Vote(bytes) | Record::Committed(bytes) | Record::Purge { bytes, .. } => bytes.len(),
            Record::Entry { .. } | Record::Truncate { .. } => 0,
        };
        if meta > MAX_META_BYTES {
            return too_large(meta, MAX_META_BYTES);
        }
    }
    match submission::encoded_len(records) {
        bytes if bytes > MAX_SUBMISSION_BYTES => too_large(bytes, MAX_SUBMISSION_BYTES),
        _ => Ok(()),
    }
}
