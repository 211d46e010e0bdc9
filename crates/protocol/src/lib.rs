//! What every part of ringfence shares: ids, fences, scopes, the bodies on the wire and the problem codes.
//!
//! This crate owns the *shape* of things and checks it in one constructor a type; it decides nothing about
//! leases. It has no clock, no IO and no randomness: ids come in from outside.
//!
//! In reading order: [`id`], [`fence`], [`scope`], [`mode`], [`name`], [`time`], the bodies in [`body`], the
//! signed claims in [`claims`], and the errors in [`problem`].
//!
//! Features: `json` (strict reading of bodies), `jws` (signing and verifying), `headers`
//! (`Idempotency-Key`), `openapi` (schemas). Without any the crate needs serde, chrono and ulid only.
// utoipa's derives expect the prelude of std; everything else here does with alloc.
#![cfg_attr(not(feature = "openapi"), no_std)]
extern crate alloc;

pub mod body;
pub mod claims;
pub mod fence;
pub mod id;
#[cfg(feature = "headers")]
pub mod idempotency;
#[cfg(feature = "json")]
pub mod json;
#[cfg(feature = "jws")]
pub mod jws;
pub mod mode;
pub mod name;
pub mod problem;
pub mod scope;
mod text;
pub mod time;

pub use fence::Fence;
pub use id::{LeaseId, RunId, TokenId};
pub use mode::Mode;
pub use name::{Action, Name, Principal, Reason, Role, Tenant};
pub use problem::{ErrorCode, Problem};
pub use scope::{ResourceId, Scope};
pub use time::Timestamp;

/// The header that carries a signed grant from an agent run to a target.
pub const GRANT_HEADER: &str = "ringfence-grant";
/// The header with the revision of the state that an answer was given from.
pub const REVISION_HEADER: &str = "ringfence-revision";
/// The header that says `true` where an answer repeats an earlier outcome.
pub const REPLAYED_HEADER: &str = "idempotency-replayed";
