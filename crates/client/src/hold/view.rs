//! What is known here of a held lease: good until when, or lost and why.
//!
//! [`Shared`] owns the life of one lease. It guarantees that it is lost at its deadline whatever the network does,
//! that it is lost once, and that what is lost stays lost. It must not send anything.
use super::deadline::{Sending, local_deadline};
use crate::clock::{BootInstant, Clock};
use ringfence_protocol::{Fence, LeaseId, Problem, RunId, body::Lease, problem::EndReason};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How often the clock is looked at while a timer runs: timers stand still in suspend, the clock doesn't.
const TICK: Duration = Duration::from_millis(200);

/// Why a lease can't be used any more. All are final: work under the lease must stop.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// The cluster says that it is over; `None` is a reason that this client has no word for.
    #[error("the lease is over: {}", .0.map_or("for a reason unknown here", EndReason::as_str))]
    Ended(Option<EndReason>),
    /// The cluster knows no such lease (any more).
    #[error("the cluster knows no such lease")]
    NotFound,
    /// The credential may not renew it (any more).
    #[error("the credential was refused: {0}")]
    Denied(Arc<Problem>),
    /// No renewal was acknowledged in time.
    #[error("no renewal was acknowledged before the deadline")]
    DeadlinePassed,
    /// Its keep-alive was stopped, with the runtime that it ran on.
    #[error("its keep-alive was stopped")]
    Unkept,
    /// Its owner here gave it back.
    #[error("it was given back")]
    Released,
}

/// How a lease is doing.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Status {
    /// It is held.
    Held,
    /// It is held, but renewals get no answer. Go on until it is lost or reachable again.
    Unreachable,
    /// It can't be used any more.
    Over(Lost),
}

/// What a holder shows to a target.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Authority {
    /// The lease.
    pub lease: LeaseId,
    /// Its fence.
    pub fence: Fence,
    /// The newest signed grant, for the header `Ringfence-Grant`.
    pub grant: Arc<str>,
}

impl fmt::Debug for Authority {
    // A grant is a credential: it stays out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({}, fence {})", self.lease, self.fence)
    }
}

#[derive(Debug)]
enum Life {
    Held { deadline: BootInstant, authority: Authority },
    Over(Lost),
}

#[derive(Debug)]
struct Shared {
    id: LeaseId,
    run: RunId,
    fence: Fence,
    margin: Duration,
    clock: Arc<dyn Clock>,
    life: Mutex<Life>,
    // Both change with `life`, under its lock.
    status: watch::Sender<Status>,
    grants: watch::Sender<Authority>,
    over: CancellationToken,
}

/// A look at a held lease, for the work under it. Clones look at the same lease; none of them keeps it alive.
#[derive(Debug, Clone)]
pub struct LeaseView(Arc<Shared>);

impl LeaseView {
    /// The lease.
    #[must_use]
    pub fn id(&self) -> LeaseId {
        self.0.id
    }

    /// The run that holds it.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.0.run
    }

    /// Its fence, as long as it lives.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.0.fence
    }

    /// What to show to a target, if the lease may still be used at this moment. It reads the clock itself, so it is
    /// right even where the runtime is late. Once it fails, it fails for ever.
    ///
    /// It tells *now*; by the time a write arrives, it may be over. Only the target's own check of the fence keeps a
    /// late write out.
    ///
    /// # Errors
    /// [`Lost`], and why.
    pub fn check(&self) -> Result<Authority, Lost> {
        self.look().map(|(authority, _)| authority)
    }

    /// How long it may be used if it isn't renewed; zero once it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.look().map_or(Duration::ZERO, |(_, remaining)| remaining)
    }

    /// Why it can't be used any more, if so.
    #[must_use]
    pub fn lost(&self) -> Option<Lost> {
        self.check().err()
    }

    /// Waits until it can't be used any more.
    pub async fn cancelled(&self) {
        self.0.over.cancelled().await;
    }

    /// A token that is cancelled when the lease can't be used any more, to hand on to the work.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.0.over.child_token()
    }

    /// How it is doing, and every change of that.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Status> {
        self.0.status.subscribe()
    }

    /// The newest grant, and every newer one.
    #[must_use]
    pub fn grants(&self) -> watch::Receiver<Authority> {
        self.0.grants.subscribe()
    }

    /// A lease as it was granted; `None` where the answer has no grant in it.
    pub(crate) fn granted(
        lease: &Lease,
        sending: Sending,
        margin: Duration,
        clock: Arc<dyn Clock>,
    ) -> Option<Self> {
        let authority = authority(lease)?;
        let waited = Duration::from_millis(lease.waited_ms);
        let deadline = local_deadline(sending, waited, expires_in(lease), margin);
        Some(Self(Arc::new(Shared {
            id: lease.id,
            run: lease.run,
            fence: lease.fence,
            margin,
            clock,
            life: Mutex::new(Life::Held { deadline, authority: authority.clone() }),
            status: watch::Sender::new(Status::Held),
            grants: watch::Sender::new(authority),
            over: CancellationToken::new(),
        })))
    }

    /// A renewal was acknowledged. One that comes after the deadline changes nothing: the lease is lost.
    pub(crate) fn renewed(&self, lease: &Lease, sent: BootInstant) {
        let sending = Sending { first: sent, answered: sent };
        let renewed = local_deadline(sending, Duration::ZERO, expires_in(lease), self.0.margin);
        let mut life = self.lock();
        self.end_if_due(&mut life);
        let Life::Held { deadline, authority: newest } = &mut *life else {
            return;
        };
        // Acknowledgements may overtake each other; each promise stands on its own.
        if renewed > *deadline {
            *deadline = renewed;
            if let Some(authority) = authority(lease) {
                newest.clone_from(&authority);
                self.0.grants.send_replace(authority);
            }
        }
        self.0.status.send_replace(Status::Held);
    }

    /// Renewals get no answer at the moment.
    pub(crate) fn unreachable(&self) {
        let life = self.lock();
        if matches!(&*life, Life::Held { .. }) {
            self.0.status.send_if_modified(|status| {
                let changed = *status != Status::Unreachable;
                *status = Status::Unreachable;
                changed
            });
        }
    }

    /// It can't be used any more. Only the first reason counts.
    pub(crate) fn end(&self, lost: Lost) {
        self.end_locked(&mut self.lock(), lost);
    }

    /// Waits until it can't be used any more, and sees to it that this is so at its deadline.
    pub(crate) async fn until_over(&self) {
        while !self.remaining().is_zero() {
            tokio::select! {
                () = self.0.over.cancelled() => return,
                () = tokio::time::sleep(self.remaining().min(TICK)) => {}
            }
        }
    }

    /// Waits until this moment by the clock that counts suspend.
    pub(crate) async fn sleep_until(&self, moment: BootInstant) {
        loop {
            let left = moment.since(self.0.clock.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(TICK)).await;
        }
    }

    fn look(&self) -> Result<(Authority, Duration), Lost> {
        let mut life = self.lock();
        let now = self.end_if_due(&mut life);
        match &*life {
            Life::Held { deadline, authority } => Ok((authority.clone(), deadline.since(now))),
            Life::Over(lost) => Err(lost.clone()),
        }
    }

    fn end_if_due(&self, life: &mut Life) -> BootInstant {
        let now = self.0.clock.now();
        if matches!(life, Life::Held { deadline, .. } if *deadline <= now) {
            self.end_locked(life, Lost::DeadlinePassed);
        }
        now
    }

    fn end_locked(&self, life: &mut Life, lost: Lost) {
        if let Life::Held { .. } = life {
            tracing::info!(lease = %self.0.id, %lost, "a lease can't be used any more");
            *life = Life::Over(lost.clone());
            self.0.status.send_replace(Status::Over(lost));
            self.0.over.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Life> {
        // Every change is one assignment: a panic elsewhere leaves it whole.
        self.0.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn authority(lease: &Lease) -> Option<Authority> {
    let grant = lease.grant.as_deref()?.into();
    Some(Authority { lease: lease.id, fence: lease.fence, grant })
}

const fn expires_in(lease: &Lease) -> Duration {
    Duration::from_millis(lease.expires_in_ms)
}
