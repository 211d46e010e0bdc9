//! The one reader of time for deadlines: a clock that goes on while the machine sleeps.
//!
//! `std::time::Instant` and tokio's timers stand still in suspend on Linux, so a lease would look alive after a
//! closed lid. Every deadline of a lease is therefore a [`BootInstant`]; tokio's timers only wake the loops that
//! look at the clock again. Wall clocks decide nothing here.
use std::{fmt, time::Duration};

/// A moment on a clock that started with the machine and counts suspend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BootInstant(Duration);

impl BootInstant {
    /// The moment this long after the machine started.
    #[must_use]
    pub const fn since_boot(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// This moment and a while more; the end of time where it would overflow.
    #[must_use]
    pub const fn plus(self, more: Duration) -> Self {
        Self(self.0.saturating_add(more))
    }

    /// This moment and a while less; the start of the machine where it would be earlier.
    #[must_use]
    pub const fn minus(self, less: Duration) -> Self {
        Self(self.0.saturating_sub(less))
    }

    /// How long after `earlier` this is; zero where it isn't.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Reads the time that leases are measured by.
///
/// It never goes back and must count the time that the machine is suspended.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Now.
    fn now(&self) -> BootInstant;
}

/// `CLOCK_BOOTTIME` of Linux.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> BootInstant {
        let read = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        // Never negative since boot, and nanoseconds stay below 10^9: zero would only make leases end early.
        let seconds = u64::try_from(read.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(read.tv_nsec).unwrap_or(0);
        BootInstant(Duration::new(seconds, nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_does_not_go_back() {
        let mut last = SystemClock.now();
        assert!(last > BootInstant::default());
        for _ in 0..1000 {
            let now = SystemClock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn moments_saturate_at_both_ends() {
        let moment = BootInstant::since_boot(Duration::from_secs(5));
        assert_eq!(moment.minus(Duration::from_secs(6)), BootInstant::default());
        assert_eq!(moment.since(moment.plus(Duration::from_secs(1))), Duration::ZERO);
        assert!(moment.plus(Duration::MAX) > moment);
    }
}
