//! The owner of a held lease.
use super::{
    Hold,
    keeper::Keeper,
    view::{LeaseView, Lost},
};
use crate::{answer::Answer, client::Client, error::Error};
use ringfence_protocol::body::Lease;
use std::ops::Deref;
use tokio::{sync::oneshot, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// How a held lease came to its end.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Ending {
    /// It was given back; the answer says how the cluster saw it end.
    GivenBack(Box<Answer<Lease>>),
    /// It had been lost before.
    WasLost(Lost),
}

/// A lease that is held and kept alive in the background.
///
/// Dropping it stops the keep-alive and gives the lease back as well as it can; [`release`](Self::release) tells
/// what came of that. It [derefs](Deref) to a [`LeaseView`].
#[derive(Debug)]
pub struct HeldLease {
    view: LeaseView,
    owner: CancellationToken,
    keeper: Option<JoinHandle<Option<Result<Ending, Error>>>>,
}

impl Deref for HeldLease {
    type Target = LeaseView;

    fn deref(&self) -> &LeaseView {
        &self.view
    }
}

impl HeldLease {
    /// A look at the lease, for the work under it.
    #[must_use]
    pub fn view(&self) -> LeaseView {
        self.view.clone()
    }

    /// Gives the lease back. From now on [`check`](LeaseView::check) fails everywhere; the keep-alive is stopped and
    /// joined before the release is sent, so no renewal can come after it. Stop the work first.
    ///
    /// Giving this call up does not give the release up: it goes on in the background.
    ///
    /// # Errors
    /// As of [`Client::release`]. The lease can't be used either way.
    pub async fn release(mut self) -> Result<Ending, Error> {
        let keeper = self.keeper.take();
        drop(self);
        let ended = match keeper {
            Some(keeper) => keeper.await.ok().flatten(),
            None => None,
        };
        ended.unwrap_or_else(|| Err(keeper_is_gone()))
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        self.view.end(Lost::Released);
        self.owner.cancel();
    }
}

fn keeper_is_gone() -> Error {
    Error::Unknown { key: None, tries: 0, last: "the background task of the lease was stopped".to_owned() }
}

impl Client {
    /// Acquires a lease and keeps it alive until its owner is dropped or it is lost.
    ///
    /// Giving this call up (dropping its future) is safe at any moment: a lease that may have been granted is looked for
    /// in the background, with the same key, at most for its ttl, and given back.
    ///
    /// # Errors
    /// As of [`acquire`](Self::acquire); [`Error::TooLate`] where the answer took longer than the lease lives.
    pub async fn hold(&self, hold: Hold) -> Result<HeldLease, Error> {
        let owner = CancellationToken::new();
        // From here on the task has an owner, or is told that it has none any more: before anything is sent.
        let guard = owner.clone().drop_guard();
        let (granted, answer) = oneshot::channel();
        let keeper = Keeper::new(self.clone(), &hold, owner.clone())?;
        let keeper = self.tasks.spawn(keeper.run(granted));
        let view = answer.await.map_err(|_| keeper_is_gone())??;
        drop(guard.disarm());
        Ok(HeldLease { view, owner, keeper: Some(keeper) })
    }
}
