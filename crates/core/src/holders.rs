//! Who holds one scope. Mostly nobody or one: a set of its own for each would cost more than the lease itself.
use alloc::collections::BTreeSet;
use ringfence_protocol::{LeaseId, Mode, RunId};
use serde::{Deserialize, Serialize};

/// Who holds a scope: by run first, so that a run's own hold is found without walking the others.
pub(crate) type Holder = (RunId, LeaseId);

/// The holders of one scope. All hold it in the same mode: no two modes go together, and a run doesn't hold a scope
/// twice. So those that can't conflict are passed over at once, however many they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Holders {
    #[default]
    Nobody,
    One(Mode, Holder),
    /// At least two: equal holders have one form, so that equal states have equal bytes.
    Many(Mode, BTreeSet<Holder>),
}

impl Holders {
    pub(crate) const fn is_empty(&self) -> bool {
        matches!(self, Self::Nobody)
    }

    /// The mode in which all hold it.
    pub(crate) const fn mode(&self) -> Option<Mode> {
        match self {
            Self::Nobody => None,
            Self::One(mode, _) | Self::Many(mode, _) => Some(*mode),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Holder> + '_ {
        let (one, many) = match self {
            Self::Nobody => (None, None),
            Self::One(_, holder) => (Some(*holder), None),
            Self::Many(_, holders) => (None, Some(holders.iter().copied())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// A lease of a run among them.
    pub(crate) fn of(&self, run: RunId) -> Option<LeaseId> {
        match self {
            Self::Nobody => None,
            Self::One(_, (holder, lease)) => (*holder == run).then_some(*lease),
            Self::Many(_, holders) => {
                let own = (run, LeaseId::from_bits(0))..=(run, LeaseId::from_bits(u128::MAX));
                holders.range(own).next().map(|(_, lease)| *lease)
            }
        }
    }

    pub(crate) fn insert(&mut self, mode: Mode, holder: Holder) {
        match self {
            Self::Nobody => *self = Self::One(mode, holder),
            Self::One(_, first) => *self = Self::Many(mode, BTreeSet::from([*first, holder])),
            Self::Many(_, holders) => {
                holders.insert(holder);
            }
        }
    }

    pub(crate) fn remove(&mut self, holder: Holder) {
        match self {
            Self::Nobody => {}
            Self::One(_, held) => {
                if *held == holder {
                    *self = Self::Nobody;
                }
            }
            Self::Many(mode, holders) => {
                holders.remove(&holder);
                if holders.len() == 1
                    && let Some(last) = holders.first()
                {
                    *self = Self::One(*mode, *last);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const fn holder(run: u8, lease: u8) -> Holder {
        (RunId::from_bits(run as u128), LeaseId::from_bits(lease as u128))
    }

    proptest! {
        #[test]
        fn holders_are_a_set_in_one_form(steps in prop::collection::vec((any::<bool>(), 0..3_u8, 0..3_u8), 0..30)) {
            let mut holders = Holders::Nobody;
            let mut set = BTreeSet::new();
            for (add, run, lease) in steps {
                let holder = holder(run, lease);
                if add && set.insert(holder) {
                    holders.insert(Mode::Shared, holder);
                } else if !add {
                    set.remove(&holder);
                    holders.remove(holder);
                }
                prop_assert_eq!(holders.iter().collect::<Vec<_>>(), set.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(matches!(holders, Holders::Many(..)), set.len() > 1);
                prop_assert_eq!(holders.is_empty(), set.is_empty());
                for run in 0..3 {
                    let first = set.iter().find(|held| held.0 == RunId::from_bits(run));
                    prop_assert_eq!(holders.of(RunId::from_bits(run)), first.map(|held| held.1));
                }
            }
        }
    }
}
