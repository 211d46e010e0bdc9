//! Reading the groups of one segment, one after the other.

use std::ops::Range;

use super::record::{Codec, Kind};
use super::segment::SEGMENT_HEADER;
use super::tail::{self, Tail};

/// The bytes of a segment whose header was verified.
pub(super) struct Image<'a> {
    pub(super) codec: Codec,
    pub(super) bytes: &'a [u8],
}

/// A group whose records all match their checksums.
pub(super) struct Group<'a> {
    pub(super) number: u64,
    pub(super) range: Range<usize>,
    pub(super) records: Vec<Stored<'a>>,
}

/// A record as stored: the payload is still masked.
pub(super) struct Stored<'a> {
    pub(super) kind: Kind,
    pub(super) index: u64,
    pub(super) payload: &'a [u8],
}

/// What a position in a segment holds.
pub(super) enum Step<'a> {
    /// A whole group.
    Group(Group<'a>),
    /// Zeros to the end.
    End,
    /// Something else.
    Bad,
}

impl<'a> Image<'a> {
    /// What is at `at`.
    pub(super) fn step(&self, at: usize) -> Step<'a> {
        match self.group(at) {
            Some(group) => Step::Group(group),
            None if self.end_of_written() <= at => Step::End,
            None => Step::Bad,
        }
    }

    /// Judges the bad group at `at`, which should have been number `group`.
    pub(super) fn judge(&self, at: usize, group: u64) -> Tail {
        tail::judge(&self.codec, self.bytes, at, group)
    }

    /// Whether nothing was ever written behind the header.
    pub(super) fn is_unused(&self) -> bool {
        self.end_of_written() <= SEGMENT_HEADER
    }

    /// The end of what is not zero.
    pub(super) fn end_of_written(&self) -> usize {
        tail::end_of_written(self.bytes)
    }

    fn group(&self, start: usize) -> Option<Group<'a>> {
        let first = self.codec.header(self.bytes.get(start..)?)?;
        let end = start.checked_add(first.group_left)?;
        let mut records = Vec::new();
        let mut at = start;
        while at < end {
            let rest = self.bytes.get(at..end)?;
            let header = self.codec.header(rest)?;
            if header.group != first.group || header.group_left != rest.len() {
                return None;
            }
            let payload = self.codec.stored_payload(&header, rest)?;
            records.push(Stored { kind: header.kind()?, index: header.index, payload });
            at += header.record_len();
        }
        // A last record that claims more than is left of its group has led beyond the end.
        (at == end && !records.is_empty()).then_some(Group {
            number: first.group,
            range: start..end,
            records,
        })
    }
}
