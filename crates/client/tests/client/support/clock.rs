//! A clock whose boot time goes with tokio's timers, and can go on while they stand still.
use ringfence_client::{BootInstant, Clock};
use std::{sync::Mutex, time::Duration};
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct FakeClock {
    start: Instant,
    suspended: Mutex<Duration>,
}

impl FakeClock {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), suspended: Mutex::new(Duration::from_secs(1000)) }
    }

    /// The machine sleeps: boot time goes on, timers don't.
    pub(crate) fn suspend(&self, asleep: Duration) {
        *self.suspended.lock().unwrap() += asleep;
    }
}

impl Clock for FakeClock {
    fn now(&self) -> BootInstant {
        BootInstant::since_boot(self.start.elapsed()).plus(*self.suspended.lock().unwrap())
    }
}
