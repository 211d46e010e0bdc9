//! The log's own time, as the leader tells it.
//!
//! A new leader goes on from the greatest `log_ms` of its log by its own monotonic clock. Between two entries
//! time advances by at most [`MAX_STEP_MS`], however late the leader woke: a stalled leader must not end
//! everybody's lease at once. It never runs faster than real time, so no lease is shorter than promised; what is
//! cut off by the step is never caught up.
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The most that log time advances between two entries.
pub(crate) const MAX_STEP_MS: u64 = 1000;

/// Log time within one leadership.
#[derive(Debug, Clone, Copy)]
struct Running {
    term: u64,
    /// The stamp of the last entry.
    last_ms: u64,
    /// When that stamp was exact, in this node's monotonic time.
    at: Instant,
}

impl Running {
    fn step(&self, now: Instant) -> (u64, Instant) {
        let elapsed = now.saturating_duration_since(self.at);
        let whole_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        if whole_ms > MAX_STEP_MS {
            (self.last_ms + MAX_STEP_MS, now)
        } else {
            // What is less than a millisecond stays on the clock, or under load time would stand still.
            (self.last_ms + whole_ms, self.at + Duration::from_millis(whole_ms))
        }
    }
}

/// The clock of this node's leadership, if it leads.
#[derive(Debug, Default)]
pub(crate) struct LogClock {
    running: Mutex<Option<Running>>,
}

impl LogClock {
    /// Begins (or goes on with) the leadership of `term` from the log time that its log has reached.
    pub(crate) fn lead(&self, term: u64, log_ms: u64, now: Instant) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_none_or(|running| running.term != term) {
            *running = Some(Running { term, last_ms: log_ms, at: now });
        }
    }

    /// The leadership is over.
    pub(crate) fn stop(&self) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The stamp of the next entry of `term`; `None` if this node does not lead in it.
    pub(crate) fn stamp(&self, term: u64, now: Instant) -> Option<u64> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let running = running.as_mut().filter(|running| running.term == term)?;
        (running.last_ms, running.at) = running.step(now);
        Some(running.last_ms)
    }

    /// Log time now, without moving it: no entry before this moment has a greater stamp.
    pub(crate) fn peek(&self, now: Instant) -> Option<u64> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().map(|running| running.step(now).0)
    }

    /// How long ago the last entry was stamped.
    pub(crate) fn since_stamp(&self, now: Instant) -> Option<Duration> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().map(|running| now.saturating_duration_since(running.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn time_goes_on_where_the_log_ends_and_stands_still_between_leaderships() {
        let (clock, start) = (LogClock::default(), Instant::now());
        assert_eq!(clock.stamp(1, start), None);
        clock.lead(1, 5000, start);
        assert_eq!(clock.stamp(1, at(start, 300)), Some(5300));
        clock.stop();
        assert_eq!(clock.peek(at(start, 400)), None);
        clock.lead(2, 5300, at(start, 90_000));
        assert_eq!(clock.stamp(2, at(start, 90_010)), Some(5310));
        assert_eq!(clock.stamp(1, at(start, 90_020)), None, "the old term stamps nothing more");
    }

    #[test]
    fn a_stalled_leader_moves_time_by_one_second_and_never_catches_up() {
        let (clock, start) = (LogClock::default(), Instant::now());
        clock.lead(1, 0, start);
        assert_eq!(clock.stamp(1, at(start, 60_000)), Some(1000));
        assert_eq!(clock.stamp(1, at(start, 60_500)), Some(1500));
        assert_eq!(clock.stamp(1, at(start, 61_000)), Some(2000));
    }

    #[test]
    fn many_stamps_within_a_millisecond_do_not_stop_time() {
        let (clock, start) = (LogClock::default(), Instant::now());
        clock.lead(1, 0, start);
        let mut last = 0;
        for step in 1..=100_000_u64 {
            last = clock.stamp(1, start + Duration::from_micros(step * 10)).unwrap();
        }
        assert_eq!(last, 1000);
    }

    #[test]
    fn leading_on_in_the_same_term_does_not_restart_time() {
        let (clock, start) = (LogClock::default(), Instant::now());
        clock.lead(1, 0, start);
        assert_eq!(clock.stamp(1, at(start, 700)), Some(700));
        clock.lead(1, 0, at(start, 800));
        assert_eq!(clock.stamp(1, at(start, 900)), Some(900));
    }

    #[test]
    fn time_that_is_peeked_at_is_never_ahead_of_the_next_stamp() {
        let (clock, start) = (LogClock::default(), Instant::now());
        clock.lead(1, 0, start);
        for ms in [1, 999, 1000, 1001, 5000] {
            let now = at(start, ms);
            assert!(clock.peek(now) <= Some(MAX_STEP_MS));
        }
        assert_eq!(clock.peek(at(start, 5000)), clock.stamp(1, at(start, 5000)));
    }
}
