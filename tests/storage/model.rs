//! Any sequence of submissions and restarts leaves what a plain list would hold.

use proptest::prelude::*;
use ringfence::storage::log::{Durability, Record, Recovered, Wal};
use tempfile::TempDir;

use crate::support::{options, submit_and_wait};

#[derive(Debug, Clone)]
enum Step {
    /// So many entries, of this length, in one submission.
    Append {
        count: u64,
        length: usize,
        fill: u8,
    },
    /// Removes so many entries at the end.
    Truncate {
        count: u64,
    },
    /// Removes this share of the entries, or goes so far beyond their end.
    Purge {
        percent: u64,
        beyond: u64,
    },
    Vote(Vec<u8>),
    Committed(Vec<u8>),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1_u64..6, 0_usize..600, any::<u8>())
            .prop_map(|(count, length, fill)| Step::Append { count, length, fill }),
        1 => (4_097_usize..20_000, any::<u8>())
            .prop_map(|(length, fill)| Step::Append { count: 1, length, fill }),
        2 => (0_u64..5).prop_map(|count| Step::Truncate { count }),
        2 => (0_u64..=100, Just(0_u64)).prop_map(|(percent, beyond)| Step::Purge { percent, beyond }),
        1 => (1_u64..50).prop_map(|beyond| Step::Purge { percent: 100, beyond }),
        2 => any::<Vec<u8>>().prop_map(Step::Vote),
        2 => any::<Vec<u8>>().prop_map(Step::Committed),
        3 => Just(Step::Reopen),
    ]
}

/// The plain list.
#[derive(Default)]
struct Model {
    held: Recovered,
    next: u64,
}

impl Model {
    fn apply(&mut self, step: &Step) -> Vec<Record> {
        match step {
            Step::Append { count, length, fill } => {
                let new: Vec<_> =
                    (self.next..self.next + count).map(|index| (index, vec![*fill; *length])).collect();
                self.next += count;
                self.held.entries.extend(new.iter().cloned());
                new.into_iter().map(|(index, bytes)| Record::Entry { index, bytes }).collect()
            }
            Step::Truncate { count } => {
                let kept = self.held.entries.len().saturating_sub(usize::try_from(*count).unwrap());
                self.next -= (self.held.entries.len() - kept) as u64;
                self.held.entries.truncate(kept);
                vec![Record::Truncate { from_index: self.next }]
            }
            Step::Purge { percent, beyond } => self.purge(*percent, *beyond),
            Step::Vote(bytes) => {
                self.held.vote = Some(bytes.clone());
                vec![Record::Vote(bytes.clone())]
            }
            Step::Committed(bytes) => {
                self.held.committed = Some(bytes.clone());
                vec![Record::Committed(bytes.clone())]
            }
            Step::Reopen => Vec::new(),
        }
    }

    fn purge(&mut self, percent: u64, beyond: u64) -> Vec<Record> {
        let first = self.next - self.held.entries.len() as u64;
        let upto = first + self.held.entries.len() as u64 * percent / 100 + beyond;
        let Some(upto_index) = upto.checked_sub(1) else {
            return Vec::new();
        };
        let bytes = upto_index.to_be_bytes().to_vec();
        self.held.entries.retain(|(index, _)| *index > upto_index);
        self.next = self.next.max(upto_index + 1);
        if self.held.purged.as_ref().is_none_or(|(point, _)| *point < upto_index) {
            self.held.purged = Some((upto_index, bytes.clone()));
        }
        vec![Record::Purge { upto_index, bytes }]
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_holds_what_a_plain_list_would_hold(
        first in 0_u64..3,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let folder = TempDir::new().unwrap();
        let mut wal = Wal::create(folder.path(), options()).unwrap();
        let mut model = Model { next: first, ..Model::default() };
        for step in steps.iter().chain([&Step::Reopen]) {
            let records = model.apply(step);
            match step {
                Step::Reopen => {
                    wal.close().unwrap();
                    let (reopened, recovered) = Wal::open(folder.path(), options()).unwrap();
                    let held = Recovered { group: 0, ..recovered };
                    prop_assert!(held == model.held, "recovered {} entries, {} in the model", held.entries.len(), model.held.entries.len());
                    wal = reopened;
                }
                Step::Committed(_) => wal.submit(records, Durability::Lazy, Box::new(Result::unwrap)),
                Step::Append { .. } | Step::Truncate { .. } | Step::Purge { .. } | Step::Vote(_) => {
                    submit_and_wait(&wal, records).unwrap();
                }
            }
        }
    }
}
