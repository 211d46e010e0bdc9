//! Time, as far as a decision looks at it: the one module that reads the wall clock.
//!
//! The wall clock decides one thing alone, whether a grant has run out, and a target may do without that
//! ([`Expiry::OrderOnly`](crate::Expiry::OrderOnly)). What is stale is decided by fences, whatever clocks say.
use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime},
};

/// Where the guard gets the time from.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The wall clock, in milliseconds since the Unix epoch.
    fn unix_ms(&self) -> u64;

    /// How long it is since some fixed moment; never goes back.
    fn elapsed(&self) -> Duration;
}

/// The clocks of the system.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn unix_ms(&self) -> u64 {
        #[expect(clippy::disallowed_methods, reason = "this is the clock module")]
        let now = SystemTime::now();
        // A clock before 1970 makes no grant look expired: then the fence decides alone.
        let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A clock that a test turns by hand.
#[derive(Debug)]
pub struct ManualClock {
    start_ms: u64,
    elapsed_ms: AtomicU64,
}

impl ManualClock {
    /// A clock that shows this instant, in seconds since the Unix epoch, until it is turned.
    #[must_use]
    pub const fn at_unix_s(unix_s: u64) -> Self {
        Self { start_ms: unix_s.saturating_mul(1000), elapsed_ms: AtomicU64::new(0) }
    }

    /// Turns it forward by this many milliseconds.
    pub fn advance_ms(&self, ms: u64) {
        self.elapsed_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn unix_ms(&self) -> u64 {
        self.start_ms.saturating_add(self.elapsed_ms.load(Ordering::SeqCst))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.elapsed_ms.load(Ordering::SeqCst))
    }
}
