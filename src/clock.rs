//! The only reader of time in a node.
//!
//! Monotonic time drives the log's clock and deadlines; wall time is for records, ids and people. Nothing is
//! decided by wall time.
use ringfence_protocol::Timestamp;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Wall time now.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this module is the reader of time")]
pub fn wall() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Timestamp::from_unix_ms(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}

/// Monotonic time now.
#[must_use]
pub fn monotonic() -> Instant {
    Instant::now()
}
