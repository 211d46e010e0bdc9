//! The log's contents, put together group by group.

use std::collections::VecDeque;

use super::error::DamageReason;
use super::record::{Codec, Kind};
use super::scan::{Group, Stored};
use super::segment::FIRST_SEGMENT;
use super::state::{LogState, Misfit, Span};

/// What the groups read so far add up to.
#[derive(Default)]
pub(super) struct Replay {
    pub(super) state: LogState,
    /// The live entries that were read, ascending. Those in segments that are not there are missing at the front.
    pub(super) entries: VecDeque<(u64, Vec<u8>)>,
    /// The last group's number; `None` before the first one.
    pub(super) group: Option<u64>,
}

/// What a group did beyond changing the contents.
#[derive(Default)]
pub(super) struct Effect {
    /// The greatest index of an entry in it.
    pub(super) max_index: Option<u64>,
    /// It ends its segment.
    pub(super) seals: bool,
}

impl Replay {
    /// The number that the next group must have; `None` if any will do.
    pub(super) fn expected_group(&self, segment: u64) -> Option<u64> {
        match self.group {
            Some(last) => last.checked_add(1),
            None if segment == FIRST_SEGMENT => Some(1),
            None => None,
        }
    }

    /// Applies `group` of `segment`; `is_first` says whether it is the segment's first.
    pub(super) fn apply(
        &mut self,
        codec: &Codec,
        segment: u64,
        is_first: bool,
        group: &Group<'_>,
    ) -> Result<Effect, DamageReason> {
        if let Some(expected) = self.expected_group(segment)
            && expected != group.number
        {
            return Err(DamageReason::GroupGap { expected, found: group.number });
        }
        let mut records = group.records.as_slice();
        if is_first {
            records = self.apply_checkpoint(codec, segment, records)?;
        }
        let mut effect = Effect::default();
        for record in records {
            self.apply_record(codec, record, &mut effect)?;
        }
        if effect.seals && records.len() > 1 {
            return Err(DamageReason::Contradiction("a seal among other records"));
        }
        self.group = Some(group.number);
        Ok(effect)
    }

    /// The live entries that should have been read, but were in segments that are not there.
    pub(super) fn missing_entries(&self) -> Option<(u64, u64)> {
        let Span::Set { first, next } = self.state.span else {
            return None;
        };
        let oldest = self.entries.front().map_or(next, |(index, _)| *index);
        (first < oldest).then(|| (first, oldest - 1))
    }

    fn apply_checkpoint<'g>(
        &mut self,
        codec: &Codec,
        segment: u64,
        records: &'g [Stored<'g>],
    ) -> Result<&'g [Stored<'g>], DamageReason> {
        let Some((Stored { kind: Kind::Checkpoint, payload, .. }, rest)) = records.split_first() else {
            return Err(DamageReason::Contradiction("a segment without checkpoint"));
        };
        let checkpoint = LogState::decode(&codec.reveal(payload))?;
        let is_oldest_left = self.group.is_none() && segment != FIRST_SEGMENT;
        if is_oldest_left {
            self.state = checkpoint;
        } else if self.state != checkpoint {
            return Err(DamageReason::Contradiction("a checkpoint that differs from the records before it"));
        }
        Ok(rest)
    }

    fn apply_record(
        &mut self,
        codec: &Codec,
        record: &Stored<'_>,
        effect: &mut Effect,
    ) -> Result<(), DamageReason> {
        let index = record.index;
        let payload = || codec.reveal(record.payload);
        match record.kind {
            Kind::Entry => {
                self.state.span.append(index).map_err(gap)?;
                self.entries.push_back((index, payload()));
                effect.max_index = effect.max_index.max(Some(index));
            }
            Kind::Truncate => {
                self.state.span.truncate(index);
                let kept = self.entries.partition_point(|(entry, _)| *entry < index);
                self.entries.truncate(kept);
            }
            Kind::Vote => self.state.vote = Some(payload()),
            Kind::Committed => self.state.committed = Some(payload()),
            Kind::Purge => {
                self.state.purge(index, payload()).map_err(gap)?;
                let gone = self.entries.partition_point(|(entry, _)| *entry <= index);
                self.entries.drain(..gone);
            }
            Kind::Checkpoint => return Err(DamageReason::Contradiction("a checkpoint within a segment")),
            Kind::Seal => effect.seals = true,
        }
        Ok(())
    }
}

fn gap(misfit: Misfit) -> DamageReason {
    DamageReason::EntryGap { expected: misfit.expected, found: misfit.found }
}
