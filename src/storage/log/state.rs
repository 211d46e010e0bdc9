//! What the log holds apart from the entries' bytes, and the rules by which records change it.
//!
//! The writer and the recovery share these rules: what the one accepts, the other can read.

use super::error::DamageReason;
use crate::storage::fields::{u32_at, u64_at};

/// Which entries the log holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Span {
    /// No entry yet and no purge: the first entry may have any index.
    #[default]
    Unset,
    /// The entries from `first` up to but without `next`.
    Set {
        /// The oldest entry, if there is any: `first <= next`.
        first: u64,
        /// The index that the next entry must have.
        next: u64,
    },
}

/// A record that does not fit the span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Misfit {
    pub(super) expected: Option<u64>,
    pub(super) found: u64,
}

impl Span {
    /// Adds the entry `index`.
    pub(super) fn append(&mut self, index: u64) -> Result<(), Misfit> {
        // The last possible index is never used, so that there is always a next one.
        let after = index.checked_add(1).ok_or(Misfit { expected: None, found: index })?;
        match self {
            Self::Unset => *self = Self::Set { first: index, next: after },
            Self::Set { next, .. } if *next == index => *next = after,
            Self::Set { next, .. } => {
                return Err(Misfit { expected: Some(*next), found: index });
            }
        }
        Ok(())
    }

    /// Removes the entries from `from` on.
    pub(super) fn truncate(&mut self, from: u64) {
        if let Self::Set { first, next } = self {
            *next = from.clamp(*first, *next);
        }
    }

    /// Removes the entries up to `upto`.
    pub(super) fn purge(&mut self, upto: u64) -> Result<(), Misfit> {
        let after = upto.checked_add(1).ok_or(Misfit { expected: None, found: upto })?;
        match self {
            Self::Unset => *self = Self::Set { first: after, next: after },
            Self::Set { first, next } => {
                *first = after.max(*first);
                *next = after.max(*next);
            }
        }
        Ok(())
    }
}

/// Everything but the entries' bytes. A checkpoint carries it from segment to segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LogState {
    pub(super) vote: Option<Vec<u8>>,
    pub(super) committed: Option<Vec<u8>>,
    pub(super) purged: Option<(u64, Vec<u8>)>,
    pub(super) span: Span,
}

impl LogState {
    /// Moves the purge point, unless it is there or further already.
    pub(super) fn purge(&mut self, upto: u64, bytes: Vec<u8>) -> Result<(), Misfit> {
        self.span.purge(upto)?;
        if self.purged.as_ref().is_none_or(|(point, _)| *point < upto) {
            self.purged = Some((upto, bytes));
        }
        Ok(())
    }

    /// The payload of a checkpoint: vote, committed, purge point and span, each with a byte that says whether it is
    /// there.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_optional(&mut out, self.vote.as_deref());
        put_optional(&mut out, self.committed.as_deref());
        put_optional(&mut out, self.purged.as_ref().map(|(_, bytes)| bytes.as_slice()));
        if let Some((point, _)) = &self.purged {
            out.extend_from_slice(&point.to_le_bytes());
        }
        match self.span {
            Span::Unset => out.push(0),
            Span::Set { first, next } => {
                out.push(1);
                out.extend_from_slice(&first.to_le_bytes());
                out.extend_from_slice(&next.to_le_bytes());
            }
        }
        out
    }

    /// Reads what [`LogState::encode`] has written.
    pub(super) fn decode(payload: &[u8]) -> Result<Self, DamageReason> {
        let mut fields = Fields(payload);
        Self::decode_fields(&mut fields)
            .filter(|_| fields.0.is_empty())
            .ok_or(DamageReason::Contradiction("a checkpoint that cannot be read"))
    }

    fn decode_fields(fields: &mut Fields<'_>) -> Option<Self> {
        let vote = fields.optional()?;
        let committed = fields.optional()?;
        let purged = match fields.optional()? {
            Some(bytes) => Some((fields.number()?, bytes)),
            None => None,
        };
        let span = match fields.flag()? {
            false => Span::Unset,
            true => Span::Set { first: fields.number()?, next: fields.number()? },
        };
        let ordered = !matches!(span, Span::Set { first, next } if first > next);
        ordered.then_some(Self { vote, committed, purged, span })
    }
}

fn put_optional(out: &mut Vec<u8>, field: Option<&[u8]>) {
    out.push(u8::from(field.is_some()));
    if let Some(bytes) = field {
        let length = u32::try_from(bytes.len()).expect("the writer bounds what a checkpoint carries");
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(bytes);
    }
}

/// Takes fields off the front of a payload.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(field)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.take(1)? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<u64> {
        self.take(8).map(|field| u64_at(field, 0))
    }

    fn optional(&mut self) -> Option<Option<Vec<u8>>> {
        if !self.flag()? {
            return Some(None);
        }
        let length = u32_at(self.take(4)?, 0) as usize;
        Some(Some(self.take(length)?.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_follow_each_other_without_gap() {
        let mut span = Span::default();
        assert_eq!(span.append(5), Ok(()));
        assert_eq!(span.append(6), Ok(()));
        assert_eq!(span.append(8), Err(Misfit { expected: Some(7), found: 8 }));
        assert_eq!(span.append(6), Err(Misfit { expected: Some(7), found: 6 }));
        assert_eq!(span, Span::Set { first: 5, next: 7 });
    }

    #[test]
    fn truncation_never_reaches_below_the_purge_point() {
        let mut span = Span::Set { first: 5, next: 9 };
        span.truncate(12);
        assert_eq!(span, Span::Set { first: 5, next: 9 });
        span.truncate(7);
        assert_eq!(span, Span::Set { first: 5, next: 7 });
        span.truncate(2);
        assert_eq!(span, Span::Set { first: 5, next: 5 });
    }

    #[test]
    fn a_purge_beyond_the_end_moves_the_end() {
        let mut span = Span::Set { first: 5, next: 9 };
        assert_eq!(span.purge(3), Ok(()));
        assert_eq!(span, Span::Set { first: 5, next: 9 });
        assert_eq!(span.purge(20), Ok(()));
        assert_eq!(span, Span::Set { first: 21, next: 21 });
    }

    #[test]
    fn the_last_possible_index_is_refused() {
        assert!(Span::default().append(u64::MAX).is_err());
        assert!(Span::default().purge(u64::MAX).is_err());
    }

    #[test]
    fn a_checkpoint_round_trips_and_each_shortened_one_is_refused() {
        let full = LogState {
            vote: Some(b"vote".to_vec()),
            committed: Some(Vec::new()),
            purged: Some((4, b"log id".to_vec())),
            span: Span::Set { first: 5, next: 9 },
        };
        for state in [LogState::default(), full] {
            let payload = state.encode();
            assert_eq!(LogState::decode(&payload), Ok(state));
            for length in 0..payload.len() {
                assert!(LogState::decode(&payload[..length]).is_err());
            }
        }
    }
}
