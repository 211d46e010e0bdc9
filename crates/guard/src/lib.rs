//! The guard: what a service embeds so that it refuses, itself, what is stale.
//!
//! Agent runs hold leases in a ringfence cluster; each comes with a **fence**, a number that only grows, and a
//! signed grant that travels with every request in `Ringfence-Grant`. A lease alone stops nobody: its holder may
//! be paused, and wake when another one has long been at work. So the *receiver* decides. For each write, in one
//! transaction of the service's own store, the guard
//!
//! 1. checks the grant's signature, cluster and tenant, offline;
//! 2. raises the **marks**: the greatest fence seen a scope and mode;
//! 3. refuses what the grant does not cover, what a newer incompatible grant has overtaken, and what has run out;
//! 4. runs the write, whose own predicate holds the version that the caller read (`If-Match`);
//! 5. commits, or takes the write back and keeps the marks.
//!
//! ```
//! use ringfence_guard::{Guard, Keys, MemoryStore, Preconditions, Request, Verifier, Version};
//! use std::sync::Arc;
//! # use ringfence_guard::protocol::{body::*, claims::*, id::*, jws::*, *};
//! # let signer = Signer25519::from_seed(&[7; 32]);
//! # let jwks = Jwks { keys: vec![signer.verifier()], cluster: None };
//! # let cluster_id = ClusterId::from_bits(1);
//! # let claims = GrantClaims {
//! #     iss: cluster_id, inc: Incarnation::from_bits(1), tenant: "default".parse()?, sub: RunId::from_bits(1),
//! #     principal: "orchestrator:planner".parse()?, lease: LeaseId::from_bits(1), fence: Fence::new(7).unwrap(),
//! #     scopes: vec![GrantScope { s: "config/eu/**".parse()?, m: Mode::Exclusive, a: Actions::ANY, apr: vec![] }],
//! #     authority: Authority::Write, iat: 0, exp: u64::MAX, jti: "1".into(),
//! # };
//! # let (header, if_match) = (signer.sign(GRANT_TYPE, &claims)?, b"\"1\"".as_slice());
//! // Once: the cluster that is trusted, its keys, the tenant, and the store of marks and data.
//! let keys = Arc::new(Keys::pinned(cluster_id, &jwks)?);
//! let guard = Guard::new(Verifier::new(keys, "default".parse()?));
//! let mut store = MemoryStore::new((Version::FIRST, "blue"));
//!
//! // For each request: who asks, and what was read.
//! let grant = guard.authenticate_cached(&header)?;
//! let expected = Preconditions::parse(Some(if_match), None)?.for_write()?;
//! let request = Request::parse("config/eu/colour", "update")?;
//! let outcome = guard.write(&mut store, &grant, &request, |(version, colour), _permit| {
//!     if !expected.admits(Some(*version)) {
//!         return Err(expected.stale(Some(*version)).into());
//!     }
//!     (*version, *colour) = (Version::new(version.get() + 1).expect("few changes"), "green");
//!     Ok(())
//! });
//! assert!(outcome.is_ok());
//! assert_eq!(store.data().1, "green");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With a database the version belongs into the statement itself: see [`sqlite`](crate::store). In a tower stack
//! the layer and extractors of `http` (feature `axum`) read the headers and answer the problems.
//!
//! # What holds
//!
//! A store never accepts a write under an older grant once it has seen a newer incompatible one, whatever clocks,
//! networks and pauses do. A holder whose lease is live is never refused by the marks. With
//! [`Expiry::OrderOnly`] no clock is asked for anything; else a grant that ran out is refused as well.
//!
//! # What does not
//!
//! - **Marks are per store.** Two databases know nothing of each other: a grant that one has seen refuses
//!   nothing in the other. What has to be protected together belongs into one store.
//! - **A store that was put back from a backup has forgotten the marks since.** Until it has seen the grants that
//!   are in force it accepts what it had refused before. Keep it from taking writes until every grant that was
//!   signed before the restore has run out, and until each present holder was seen
//!   ([`Guard::observe`]); with [`Expiry::OrderOnly`] nothing runs out, and it must see every holder first.
//! - A grant is seen when it reaches the store: with a write, or with a read that the service passes to
//!   [`Guard::observe`]. Until the newer holder has come by once, the older one still writes.
//! - A grant that was revoked is refused when it has run out or was overtaken, not before.
//! - Only writes that go through [`Guard::write`] are guarded: who writes to the tables directly is not.
//! - Effects outside of the transaction (a mail, a call) are not taken back with it.
//! - A write that is repeated because its answer was lost is refused by its version, not recognised as the same.
//!
//! # Features
//!
//! None by default: the decision, offline verification, and a store in memory for tests. `sqlite`: marks in the
//! service's SQLite database. `axum`: a tower layer, extractors and answers. Neither brings a server or a client.
pub mod clock;
mod decide;
mod error;
mod guard;
#[cfg(feature = "axum")]
pub mod http;
pub mod keys;
mod marks;
mod precondition;
mod refusal;
pub mod store;
mod tag;
mod verifier;

pub use decide::{Expiry, Permit, Request, decide};
pub use error::GuardError;
pub use guard::Guard;
pub use keys::Keys;
pub use marks::{Life, Marks, ModeMarks, Realm, Seen, SeenEntry};
pub use precondition::{Expected, Freshness, Preconditions, VersionLack, Versions};
pub use refusal::{Lack, Newer, Reason, Refusal, Unauthenticated};
pub use ringfence_protocol as protocol;
#[cfg(feature = "sqlite")]
pub use store::sqlite;
pub use store::{Judgement, MemoryStore, Store};
pub use tag::Version;
pub use verifier::{VerifiedGrant, Verifier};

/// The README's example compiles.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
