//! The replicated state machine: `apply(state, command) -> outcome`, and nothing else.
//!
//! It never reads a clock, draws a random number, logs or waits: ids, log time and wall time come in with the
//! [`Command`]. The same commands in the same order give the same bytes on every node.
//!
//! In reading order: [`command`] (what can change the state), [`outcome`] (what that gives), `state` (apply), `time`
//! (what is due ends), `ask` (who asks, and whether it was asked before), [`permission`], `check`, `runs`, `leases`,
//! `tokens`, `index` and `holders` (who holds what), `records`, [`read`], [`limits`], `invariants`, `codec`, `refusal`.
//!
//! A fence orders two holders, an id can't: one is not taken for the other.
//! ```compile_fail,E0308
//! use ringfence_protocol::{Fence, LeaseId};
//! fn is_newer(seen: Fence, sent: Fence) -> bool {
//!     sent > seen
//! }
//! is_newer(Fence::new(1).unwrap(), LeaseId::from_bits(2));
//! ```
#![no_std]
extern crate alloc;

mod ask;
mod check;
mod codec;
pub mod command;
mod holders;
mod index;
mod invariants;
mod leases;
pub mod limits;
pub mod outcome;
pub mod permission;
pub mod read;
mod records;
mod refusal;
mod runs;
mod state;
mod time;
mod tokens;

pub use ask::Subject;
pub use codec::DecodeError;
pub use command::{Actor, ClientRequest, Command, Genesis, Operation, Request, RequestKey};
pub use outcome::{Done, Event, Granted, Outcome, Refusal, Reply};
pub use permission::{Caller, Right};
pub use read::{GrantQuestion, LeaseFilter, Now};
pub use state::{State, Stats};
