//! Where the marks live: in the same store, and the same transaction, as what they protect.
mod memory;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use memory::MemoryStore;

use crate::{decide::Permit, error::GuardError, marks::Marks, refusal::Refusal};

/// What a guard judged: a write that may be made, or a refusal.
pub type Judgement = Result<Permit, Refusal>;

/// A store of marks beside the resources that they protect.
///
/// Called by [`Guard`](crate::Guard) alone. An implementation must run each call as one transaction, isolated
/// from all others of the store: from the first mark that is read to the commit nobody else's may come between.
pub trait Store {
    /// What the store itself can fail with.
    type Error;

    /// What a write is made through, within the transaction.
    type Handle<'t>;

    /// Raises marks and commits.
    ///
    /// # Errors
    /// [`GuardError::Busy`] or [`GuardError::Store`]; the marks may not have been raised then.
    fn observe<O>(&mut self, observe: O) -> Result<(), GuardError<Self::Error>>
    where
        O: FnOnce(&mut dyn Marks<Error = Self::Error>) -> Result<(), Self::Error>;

    /// Judges; where it is permitted, writes; commits.
    ///
    /// Marks that `judge` raised are kept where it refuses and where `write` returns an error; what `write` did
    /// before its error is not.
    ///
    /// # Errors
    /// The refusal, the error of `write`, or [`GuardError::Busy`] or [`GuardError::Store`] where the store
    /// failed: then neither marks nor write may have been kept.
    fn transact<T, J, W>(&mut self, judge: J, write: W) -> Result<T, GuardError<Self::Error>>
    where
        J: FnOnce(&mut dyn Marks<Error = Self::Error>) -> Result<Judgement, Self::Error>,
        W: for<'t> FnOnce(Self::Handle<'t>, &Permit) -> Result<T, GuardError<Self::Error>>;
}
