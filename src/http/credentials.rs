//! Run credentials whose signatures were checked already: 40 µs that a renewal need not pay each time.
//!
//! What is remembered is that the *signature* holds, which never changes. Whether the run may still act is asked of
//! the state at each request.
use super::app::Life;
use ringfence_protocol::RunId;
use std::{
    collections::HashMap,
    mem,
    sync::{Mutex, PoisonError},
};

/// What a checked credential says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checked {
    /// The run that it belongs to.
    pub(super) run: RunId,
    /// The life of the cluster that signed it.
    pub(super) life: Life,
}

/// Checked credentials by the SHA-256 of their text: at most `capacity`, the least recently used half forgotten.
#[derive(Debug)]
pub(super) struct Credentials {
    generations: Mutex<Generations>,
    generation_capacity: usize,
}

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<[u8; 32], Checked>,
    old: HashMap<[u8; 32], Checked>,
}

impl Credentials {
    pub(super) fn new(capacity: usize) -> Self {
        Self { generations: Mutex::default(), generation_capacity: (capacity / 2).max(1) }
    }

    /// What was checked under this hash.
    pub(super) fn get(&self, hash: &[u8; 32]) -> Option<Checked> {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(checked) = generations.young.get(hash) {
            return Some(*checked);
        }
        let checked = generations.old.remove(hash)?;
        generations.insert(*hash, checked, self.generation_capacity);
        Some(checked)
    }

    /// Remembers a credential whose signature holds.
    pub(super) fn insert(&self, hash: [u8; 32], checked: Checked) {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        generations.insert(hash, checked, self.generation_capacity);
    }
}

impl Generations {
    fn insert(&mut self, hash: [u8; 32], checked: Checked, capacity: usize) {
        if self.young.len() >= capacity {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(hash, checked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_protocol::id::{ClusterId, Incarnation};

    fn checked(run: u128) -> Checked {
        let life = Life { cluster: ClusterId::from_bits(1), incarnation: Incarnation::from_bits(2) };
        Checked { run: RunId::from_bits(run), life }
    }

    fn key(number: u8) -> [u8; 32] {
        [number; 32]
    }

    #[test]
    fn what_is_used_stays_and_what_is_not_is_forgotten_within_the_bound() {
        let credentials = Credentials::new(4);
        credentials.insert(key(0), checked(0));
        for number in 1..=100 {
            credentials.insert(key(number), checked(u128::from(number)));
            assert_eq!(credentials.get(&key(0)), Some(checked(0)), "after {number}");
        }
        assert_eq!(credentials.get(&key(1)), None);
        let generations = credentials.generations.lock().unwrap();
        assert!(generations.young.len() + generations.old.len() <= 4);
    }
}
