//! The pauses between tries: growing, and never the same for two clients.
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const MOST: Duration = Duration::from_secs(1);

/// Counts failures in a row.
#[derive(Debug)]
pub(crate) struct Backoff {
    /// How many nodes may refuse the connection before a pause helps.
    free: usize,
    failures: u32,
}

impl Backoff {
    pub(crate) const fn new(nodes: usize) -> Self {
        Self { free: nodes.saturating_sub(1), failures: 0 }
    }

    /// The pause after one more failure. A node that could not even be reached costs none while there are others
    /// that have not been asked.
    pub(crate) fn after_failure(&mut self, not_sent: bool) -> Duration {
        if not_sent && self.free > 0 {
            self.free -= 1;
            return Duration::ZERO;
        }
        let pause = FIRST.saturating_mul(1 << self.failures.min(10)).min(MOST);
        self.failures = self.failures.saturating_add(1);
        jittered(pause)
    }
}

/// Between half of it and all of it, so that clients that failed together don't come back together.
pub(crate) fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.5..=1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_refuse_are_passed_over_at_once_and_then_pauses_grow_to_a_bound() {
        let mut backoff = Backoff::new(3);
        assert_eq!(backoff.after_failure(true), Duration::ZERO);
        assert_eq!(backoff.after_failure(true), Duration::ZERO);
        let pauses: Vec<_> = (0..20).map(|_| backoff.after_failure(true)).collect();
        assert!(pauses[0] >= FIRST / 2 && pauses[0] <= FIRST);
        assert!(pauses.iter().all(|pause| *pause <= MOST));
        assert!(pauses[19] >= MOST / 2);
    }

    #[test]
    fn an_answer_of_unavailable_is_followed_by_a_pause() {
        assert!(Backoff::new(3).after_failure(false) >= FIRST / 2);
    }
}
