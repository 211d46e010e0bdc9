//! The background task of one held lease: it acquires, renews and gives back.
//!
//! It owns every request for its lease, from before the first one is sent: whatever becomes of the caller, somebody
//! knows whether there is a lease to be given back. One task has one lease; nothing that happens to another touches
//! it. It must not decide how long a lease is good: that is [`LeaseView`]'s.
use super::{
    Hold, Timing,
    deadline::Sending,
    held::Ending,
    view::{LeaseView, Lost},
};
use crate::{
    answer::{Reply, decode},
    attempts::{Attempts, Step},
    backoff::jittered,
    call::Call,
    client::Client,
    clock::BootInstant,
    error::Error,
};
use ringfence_protocol::{
    ErrorCode, LeaseId, Problem,
    body::{Lease, RenewLease},
    problem::{Category, EndReason},
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

/// The pause after a renewal that got an answer which settles nothing, such as `429`.
const PAUSE: Duration = Duration::from_millis(500);
/// The least such pause, for a lease that is nearly over.
const LEAST_PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Keeper {
    client: Client,
    timing: Timing,
    /// How long the acquire may take.
    within: Duration,
    acquire: Attempts,
    /// Cancelled when nobody owns the lease any more.
    owner: CancellationToken,
}

impl Keeper {
    pub(super) fn new(client: Client, hold: &Hold, owner: CancellationToken) -> Result<Self, Error> {
        let waiting = Duration::from_millis(hold.lease.wait_ms.unwrap_or(0));
        let acquire = client.attempts(Call::post("/v1/leases", &hold.lease))?;
        Ok(Self {
            within: client.deadline.saturating_add(waiting),
            timing: hold.timing,
            client,
            acquire,
            owner,
        })
    }

    /// Does it all. `None`: there was never a lease to be held.
    pub(super) async fn run(
        mut self,
        granted: oneshot::Sender<Result<LeaseView, Error>>,
    ) -> Option<Result<Ending, Error>> {
        let until = Instant::now() + self.within;
        let acquired = tokio::select! {
            biased;
            () = self.owner.cancelled() => None,
            // Cancel safe: the tries stay in `acquire`.
            outcome = self.acquire.outcome(until) => Some(outcome.and_then(Acquired::read)),
        };
        let Some(acquired) = acquired else {
            self.find_out().await;
            return None;
        };
        let lease = acquired.as_ref().ok().map(|acquired| acquired.lease.id);
        match acquired.and_then(|acquired| self.admit(&acquired)) {
            Ok(view) => {
                // Where nobody listens any more, the owner is gone too, which is seen below.
                drop(granted.send(Ok(view.clone())));
                Some(self.keep(&view).await)
            }
            Err(error) => {
                let in_doubt = error.may_have_happened();
                drop(granted.send(Err(error)));
                match lease {
                    Some(lease) => give_back_quietly(&self.client, lease).await,
                    None if in_doubt => self.find_out().await,
                    None => {}
                }
                None
            }
        }
    }

    /// Makes a granted lease usable, if it can still be used.
    fn admit(&self, acquired: &Acquired) -> Result<LeaseView, Error> {
        let lease = &acquired.lease;
        let clock = self.client.link.clock.clone();
        let view = LeaseView::granted(lease, acquired.sending, self.timing.margin, clock);
        let view = view
            .ok_or_else(|| Error::Unreadable { status: 201, detail: "a lease without a grant".to_owned() })?;
        if view.check().is_ok() { Ok(view) } else { Err(Error::TooLate { lease: lease.id }) }
    }

    /// Nobody waits for the lease any more, but it may have been granted, or may still be: the same request again tells,
    /// at most for as long as such a lease lives. Whatever is found is given back.
    async fn find_out(&mut self) {
        let until = Instant::now() + self.timing.ttl;
        while self.acquire.has_begun() {
            match self.acquire.outcome(until).await.and_then(Acquired::read) {
                Ok(acquired) => return give_back_quietly(&self.client, acquired.lease.id).await,
                // An earlier try may still be granted; what is on its way is listened to.
                Err(Error::Refused { .. }) if self.acquire.is_running() => self.acquire.listen_only(),
                Err(error) => {
                    tracing::debug!(%error, "no lease found that nobody wanted any more");
                    return;
                }
            }
        }
    }

    /// Keeps a lease alive until it is lost or nobody owns it, and waits for the latter.
    async fn keep(self, view: &LeaseView) -> Result<Ending, Error> {
        // An acquire that was answered has tries under way no longer.
        self.acquire.stop().await;
        let _unkept = EndsUnkept(view);
        let mut renewal = None;
        tokio::select! {
            biased;
            () = self.owner.cancelled() => {}
            // Before the renewals: after a suspend the deadline is looked at before anything is sent.
            () = view.until_over() => {}
            () = renew(&self.client, self.timing, view, &mut renewal) => {}
        }
        if let Some(renewal) = renewal {
            Attempts::stop(renewal).await;
        }
        self.owner.cancelled().await;
        match view.lost() {
            Some(Lost::Released) | None => give_back(&self.client, view.id()).await,
            Some(lost) => {
                // It may live on at the cluster for a while; the others need not wait for its end.
                if lost == Lost::DeadlinePassed {
                    give_back_quietly(&self.client, view.id()).await;
                }
                Ok(Ending::WasLost(lost))
            }
        }
    }
}

/// Sees to it that a lease whose task is gone, by a panic or with its runtime, is not taken for held.
struct EndsUnkept<'a>(&'a LeaseView);

impl Drop for EndsUnkept<'_> {
    fn drop(&mut self) {
        self.0.end(Lost::Unkept);
    }
}

async fn give_back(client: &Client, lease: LeaseId) -> Result<Ending, Error> {
    let answer = client.release(lease).await?;
    Ok(Ending::GivenBack(Box::new(answer)))
}

/// For a lease that nobody asks about: it expires by itself if this fails.
async fn give_back_quietly(client: &Client, lease: LeaseId) {
    if let Err(error) = client.release(lease).await {
        tracing::warn!(%lease, %error, "a lease that isn't needed could not be given back; it will expire");
    }
}

/// A granted lease and when it was asked for.
struct Acquired {
    lease: Lease,
    sending: Sending,
}

impl Acquired {
    fn read(reply: Reply) -> Result<Self, Error> {
        let sending = Sending { first: reply.first_sent, answered: reply.sent };
        let lease = decode(reply.answer)?.body;
        Ok(Self { lease, sending })
    }
}

/// Renews until the lease is lost. The tries under way are in `tries`, for the caller to stop.
async fn renew(client: &Client, timing: Timing, view: &LeaseView, tries: &mut Option<Attempts>) {
    let mut due = client.link.clock.now().plus(timing.next_after(view.remaining() + timing.margin));
    loop {
        view.sleep_until(due).await;
        if view.check().is_err() {
            return;
        }
        let call = Call::renewal(format!("/v1/leases/{}/renew", view.id()), &RenewLease::default());
        let renewed = match client.attempts(call) {
            Ok(attempts) => one_renewal(tries.insert(attempts), view).await,
            Err(error) => Err(error),
        };
        match renewed {
            Ok((sent, lease)) => {
                view.renewed(&lease, sent);
                due = sent.plus(timing.next_after(Duration::from_millis(lease.expires_in_ms)));
            }
            Err(error) => {
                if let Some(lost) = lost_by(&error) {
                    return view.end(lost);
                }
                tracing::warn!(lease = %view.id(), %error, "a renewal failed; trying again until the deadline");
                view.unreachable();
                client.link.ring.avoid(client.link.ring.preferred());
                sleep(jittered(PAUSE.min(view.remaining() / 4).max(LEAST_PAUSE))).await;
            }
        }
    }
}

/// One renewal: as many tries as its deadline allows. No try gets all the time there is.
async fn one_renewal(attempts: &mut Attempts, view: &LeaseView) -> Result<(BootInstant, Lease), Error> {
    let until = Instant::now() + view.remaining();
    let reply = loop {
        match attempts.step(until).await {
            Step::Trouble => view.unreachable(),
            Step::Done(result) => break result?,
        }
    };
    let sent = reply.sent;
    let lease: Lease = decode(reply.answer)?.body;
    if lease.id != view.id() || lease.fence != view.fence() {
        let detail = format!("{} was renewed, but the answer is about {}", view.id(), lease.id);
        return Err(Error::Unreadable { status: 200, detail });
    }
    Ok((sent, lease))
}

/// Whether an error says that the lease is over. An outage doesn't, nor does an answer that settles nothing.
fn lost_by(error: &Error) -> Option<Lost> {
    let problem: &Problem = error.problem()?;
    if problem.error == ErrorCode::LeaseEnded {
        Some(Lost::Ended(problem.reason))
    } else if problem.error == ErrorCode::RunEnded {
        Some(Lost::Ended(Some(EndReason::RunEnded)))
    } else if problem.error == ErrorCode::NotFound {
        Some(Lost::NotFound)
    } else if matches!(problem.category, Category::Unauthorized | Category::Forbidden) {
        Some(Lost::Denied(Arc::new(problem.clone())))
    } else {
        None
    }
}
