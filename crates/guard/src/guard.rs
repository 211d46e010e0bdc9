//! The guard: who asks, what the store has seen, the decision and the write, as one call.
use crate::{
    clock::{Clock, SystemClock},
    decide::{Expiry, Permit, Request, decide},
    error::GuardError,
    marks::see,
    refusal::Refusal,
    store::Store,
    verifier::{VerifiedGrant, Verifier},
};
use std::sync::Arc;

/// Guards the resources of one service, for one cluster and tenant. Cheap to clone; holds no marks itself:
/// these are in the store that each call names.
#[derive(Debug, Clone)]
pub struct Guard {
    verifier: Arc<Verifier>,
    clock: Arc<dyn Clock>,
    expiry: Expiry,
}

impl Guard {
    /// A guard with the system's clock, which refuses grants 5 s after they ran out.
    #[must_use]
    pub fn new(verifier: Verifier) -> Self {
        Self {
            verifier: Arc::new(verifier),
            clock: Arc::new(SystemClock::default()),
            expiry: Expiry::default(),
        }
    }

    /// Gives the wall clock another say.
    #[must_use]
    pub fn with_expiry(mut self, expiry: Expiry) -> Self {
        self.expiry = expiry;
        self
    }

    /// Reads the time from this clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Checks a grant's signature, cluster and tenant; fetches keys where it is signed with an unknown one.
    ///
    /// # Errors
    /// [`Reason::Unauthenticated`](crate::Reason::Unauthenticated).
    pub async fn authenticate(&self, token: &str) -> Result<VerifiedGrant, Refusal> {
        self.verifier.verify(token).await
    }

    /// The same with the keys at hand, for code that can't wait.
    ///
    /// # Errors
    /// [`Reason::Unauthenticated`](crate::Reason::Unauthenticated).
    pub fn authenticate_cached(&self, token: &str) -> Result<VerifiedGrant, Refusal> {
        self.verifier.verify_cached(token)
    }

    /// Raises the marks of a grant that came with a read: from then on the store refuses what it makes stale.
    ///
    /// # Errors
    /// [`GuardError`] of the store; the marks may not have been raised then.
    pub fn observe<S: Store>(
        &self,
        store: &mut S,
        grant: &VerifiedGrant,
    ) -> Result<(), GuardError<S::Error>> {
        self.verifier.check_realm(grant.claims())?;
        store.observe(|marks| see(marks, grant.claims()).map(|_| ()))
    }

    /// Makes one write, or refuses it, in one transaction of the store.
    ///
    /// The transaction raises the marks of all scopes of the grant, judges it, runs `write` and commits. Where
    /// the grant is refused, or `write` returns an error, the write has not happened and the marks stay raised.
    /// Where `write` panics nothing is kept.
    ///
    /// `write` must check the version in the predicate of its own statement, and return every error of the
    /// database: one that it swallows may have ended the transaction.
    ///
    /// # Errors
    /// [`GuardError::Refused`] by the guard, in the order of [`decide`]; whatever `write` returned;
    /// [`GuardError::Busy`] and [`GuardError::Store`] where the store failed: then nothing has happened.
    pub fn write<S, T, W>(
        &self,
        store: &mut S,
        grant: &VerifiedGrant,
        request: &Request,
        write: W,
    ) -> Result<T, GuardError<S::Error>>
    where
        S: Store,
        W: for<'t> FnOnce(S::Handle<'t>, &Permit) -> Result<T, GuardError<S::Error>>,
    {
        let claims = grant.claims();
        self.verifier.check_realm(claims).map_err(|refusal| refusal.about(&request.resource))?;
        let outcome = store.transact(
            |marks| {
                let seen = see(marks, claims)?;
                // Read now, with the store's lock in hand: what waited for it did not thereby stay valid.
                let now_unix_ms = self.clock.unix_ms();
                Ok(decide(claims, &seen, request, self.expiry, now_unix_ms))
            },
            write,
        );
        outcome.map_err(|error| error.about(&request.resource))
    }
}
