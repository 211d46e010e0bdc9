//! Work tied to a held lease: it ends before the lease is given back, and before another one is asked for.
use super::{Ending, HeldLease, Hold, LeaseView, Lost};
use crate::{backoff::jittered, client::Client, error::Error};
use ringfence_protocol::{ErrorCode, RunId};
use std::{ops::ControlFlow, time::Duration};
use tokio::time::{Instant, sleep};

/// The pause before a lease that was refused is asked for again.
const PAUSE: Duration = Duration::from_millis(500);

/// What came of work under a lease.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ran<T> {
    /// What the work returned.
    pub value: T,
    /// Why the lease was lost before the work returned, if it was.
    pub lost: Option<Lost>,
    /// How the lease ended.
    pub ending: Result<Ending, Error>,
}

impl Client {
    /// Holds a lease while `work` runs, and gives it back when it has returned.
    ///
    /// The work is told of a loss by [`LeaseView::cancelled`] and must return then; nothing is done behind its back, so
    /// it can clean up. It is waited for however long that takes.
    ///
    /// # Errors
    /// As of [`hold`](Self::hold): then the work has not begun.
    pub async fn run_while_held<T, F>(
        &self,
        hold: Hold,
        work: impl FnOnce(LeaseView) -> F,
    ) -> Result<Ran<T>, Error>
    where
        F: Future<Output = T>,
    {
        let lease = self.hold(hold).await?;
        Ok(run(lease, work).await)
    }

    /// As [`run_while_held`](Self::run_while_held), but when the lease is lost, another one is acquired and the work
    /// begun again under it, until it returns [`ControlFlow::Break`].
    ///
    /// The order is always: lost, work returned, acquired anew, work begun. `patience` is how long a new lease is asked
    /// for, through conflicts and outages.
    ///
    /// # Errors
    /// As of [`hold`](Self::hold), when no lease could be had, or not again within `patience`.
    pub async fn run_again_while_held<T, F>(
        &self,
        hold: Hold,
        patience: Duration,
        mut work: impl FnMut(LeaseView) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = ControlFlow<T>>,
    {
        let mut lease = self.hold(hold.clone()).await?;
        loop {
            if let ControlFlow::Break(value) = run(lease, &mut work).await.value {
                return Ok(value);
            }
            lease = self.hold_again(&hold, patience).await?;
        }
    }

    async fn hold_again(&self, hold: &Hold, patience: Duration) -> Result<HeldLease, Error> {
        let until = Instant::now() + patience;
        loop {
            match self.hold(hold.clone()).await {
                Err(error) if may_pass(&error) && Instant::now() < until => {
                    tracing::debug!(%error, run = ?run_of(hold), "no new lease yet");
                    sleep(jittered(PAUSE)).await;
                }
                settled => return settled,
            }
        }
    }
}

async fn run<T, F>(lease: HeldLease, work: impl FnOnce(LeaseView) -> F) -> Ran<T>
where
    F: Future<Output = T>,
{
    // The future of the work is dropped before `lease` is, should this one be dropped.
    let value = work(lease.view()).await;
    let lost = lease.lost();
    let ending = lease.release().await;
    Ran { value, lost, ending }
}

const fn run_of(hold: &Hold) -> Option<RunId> {
    hold.request().run
}

/// Whether the same wish may be granted later: in use, also by the lease that was just lost, or nobody there.
fn may_pass(error: &Error) -> bool {
    match error {
        Error::Refused { problem, .. } => problem.retryable || problem.error == ErrorCode::AlreadyHeld,
        Error::Unreachable { .. } | Error::Unknown { .. } | Error::TooLate { .. } => true,
        Error::Unreadable { .. } | Error::Invalid(_) => false,
    }
}
