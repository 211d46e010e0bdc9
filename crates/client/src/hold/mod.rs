//! Holding a lease: what is asked for, and how it is kept alive.
mod deadline;
mod held;
mod keeper;
mod view;
mod work;

pub use deadline::{Sending, local_deadline};
pub use held::{Ending, HeldLease};
pub use view::{Authority, LeaseView, Lost, Status};
pub use work::Ran;

use ringfence_protocol::body::AcquireLease;
use std::time::Duration;

/// The ttl of a lease whose request names none.
pub const DEFAULT_TTL: Duration = Duration::from_secs(10);
const LEAST_TTL_MS: u64 = 1_000;
const MOST_TTL_MS: u64 = 3_600_000;
/// The least margin. Two clocks of ±200 ppm differ by 0.4 ms in a second; a margin takes in twice as much.
const LEAST_MARGIN: Duration = Duration::from_millis(1);
const MARGIN_SHARE: u32 = 1_000;
/// The least time between two renewals.
const LEAST_RENEW_EVERY: Duration = Duration::from_millis(50);

/// How a lease is kept alive. The default fits its ttl.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeepAlive {
    /// How often it is renewed, from sending to sending; up to a tenth earlier by chance. Default: a third of the ttl.
    pub renew_every: Option<Duration>,
    /// How long before its end at the cluster it counts as lost here. Default: a twentieth of the ttl, at least 50 ms.
    pub margin: Option<Duration>,
}

/// Why settings of a keep-alive can't work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimingError {
    /// The cluster takes no such ttl.
    #[error("ttl_ms is {ttl_ms}, but must be from {LEAST_TTL_MS} to {MOST_TTL_MS}")]
    Ttl {
        /// What was asked for.
        ttl_ms: u64,
    },
    /// Clocks that tick a little differently would use it up.
    #[error("margin is {margin:?}, but must be at least {least:?}, for a ttl of {ttl:?}")]
    Margin {
        /// What was asked for.
        margin: Duration,
        /// The least for this ttl.
        least: Duration,
        /// The ttl.
        ttl: Duration,
    },
    /// It would do nothing but renew.
    #[error("renew_every is {renew_every:?}, but must be at least {LEAST_RENEW_EVERY:?}")]
    TooOften {
        /// What was asked for.
        renew_every: Duration,
    },
    /// One renewal that fails would lose the lease.
    #[error(
        "ttl is {ttl:?}, but must be longer than twice renew_every ({renew_every:?}) and margin ({margin:?}) together"
    )]
    TooSeldom {
        /// The ttl.
        ttl: Duration,
        /// How often it would be renewed.
        renew_every: Duration,
        /// The margin.
        margin: Duration,
    },
}

/// A lease to be held: what to ask for and how to keep it alive, checked.
#[derive(Debug, Clone)]
pub struct Hold {
    lease: AcquireLease,
    timing: Timing,
}

/// The checked settings, defaults applied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    ttl: Duration,
    renew_every: Duration,
    margin: Duration,
}

impl Hold {
    /// Takes a request and settings that can work together.
    ///
    /// # Errors
    /// [`TimingError`], which names the rule and the values that break it.
    pub fn new(lease: AcquireLease, keep: KeepAlive) -> Result<Self, TimingError> {
        let timing = Timing::new(lease.ttl_ms, keep)?;
        Ok(Self { lease, timing })
    }

    /// What will be asked for.
    #[must_use]
    pub const fn request(&self) -> &AcquireLease {
        &self.lease
    }
}

impl Timing {
    fn new(ttl_ms: Option<u64>, keep: KeepAlive) -> Result<Self, TimingError> {
        let ttl = ttl_ms.map_or(DEFAULT_TTL, Duration::from_millis);
        if let Some(ttl_ms) = ttl_ms.filter(|ttl_ms| !(LEAST_TTL_MS..=MOST_TTL_MS).contains(ttl_ms)) {
            return Err(TimingError::Ttl { ttl_ms });
        }
        let margin = keep.margin.unwrap_or_else(|| (ttl / 20).max(Duration::from_millis(50)));
        let renew_every = keep.renew_every.unwrap_or(ttl / 3);
        let least = (ttl / MARGIN_SHARE).max(LEAST_MARGIN);
        if margin < least {
            return Err(TimingError::Margin { margin, least, ttl });
        }
        if renew_every < LEAST_RENEW_EVERY {
            return Err(TimingError::TooOften { renew_every });
        }
        if ttl <= renew_every.saturating_mul(2).saturating_add(margin) {
            return Err(TimingError::TooSeldom { ttl, renew_every, margin });
        }
        Ok(Self { ttl, renew_every, margin })
    }

    /// How long after a renewal was sent the next one is, for a lease that lives this long from then. Near the end of
    /// its run a lease lives shorter than its ttl.
    fn next_after(&self, expires_in: Duration) -> Duration {
        let third = (expires_in.saturating_sub(self.margin) / 3).max(LEAST_RENEW_EVERY);
        self.renew_every.min(third).mul_f64(rand::random_range(0.9..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(ttl_ms: u64, renew_ms: Option<u64>, margin_us: Option<u64>) -> Result<Timing, TimingError> {
        let keep = KeepAlive {
            renew_every: renew_ms.map(Duration::from_millis),
            margin: margin_us.map(Duration::from_micros),
        };
        Timing::new(Some(ttl_ms), keep)
    }

    #[test]
    fn settings_that_can_not_work_are_refused_with_the_rule_and_the_values() {
        let bad = [
            (999, None, None, &["999", "1000"][..]),
            (3_600_001, None, None, &["3600001", "3600000"]),
            (0, None, None, &["ttl_ms is 0"]),
            (5000, Some(6000), None, &["5s", "6s"]),
            (5000, Some(5000), None, &["5s", "renew_every (5s)"]),
            (5000, Some(2400), Some(200_000), &["5s", "2.4s", "200ms"]),
            (5000, Some(0), None, &["0ns", "50ms"]),
            (5000, Some(49), None, &["49ms", "50ms"]),
            (5000, None, Some(0), &["0ns", "5ms"]),
            (5000, None, Some(4999), &["4.999ms", "5ms", "5s"]),
            (5000, None, Some(5_000_000), &["5s", "margin (5s)"]),
            (1000, Some(u64::MAX / 1_000_000), None, &["1s"]),
        ];
        for (ttl_ms, renew_ms, margin_us, named) in bad {
            let text = timing(ttl_ms, renew_ms, margin_us).unwrap_err().to_string();
            assert!(named.iter().all(|name| text.contains(name)), "{text} names {named:?}");
        }
    }

    #[test]
    fn the_defaults_fit_every_ttl_that_the_cluster_takes() {
        assert!((1_000..=3_600_000).step_by(977).all(|ttl_ms| timing(ttl_ms, None, None).is_ok()));
        assert!(timing(3_600_000, None, None).is_ok());
        assert!(timing(5000, Some(2000), Some(100_000)).is_ok());
    }

    #[test]
    fn a_lease_that_lives_shorter_than_its_ttl_is_renewed_sooner() {
        let timing = timing(9000, None, None).unwrap();
        assert!(timing.next_after(Duration::from_millis(9000)) > Duration::from_millis(2500));
        assert!(timing.next_after(Duration::from_millis(2000)) < Duration::from_millis(520));
        assert!(timing.next_after(Duration::ZERO) >= LEAST_RENEW_EVERY * 9 / 10);
    }
}
