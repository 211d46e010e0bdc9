//! The signals that ask for an end. One that is listened for does not end this process.
use crate::cli::failure::Failure;
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// SIGINT, SIGTERM and SIGHUP, from now on.
pub(crate) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: unix::Signal,
}

impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    /// Where no handler can be had.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let failed = |error| Failure::local("signals can't be handled", error);
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            hangup: signal(SignalKind::hangup()).map_err(failed)?,
        })
    }

    /// Waits for the next one. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            // All are cancel safe.
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.hangup.recv() => Signal::HUP,
        }
    }
}
