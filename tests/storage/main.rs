//! The storage layer from outside: what a node that opens its folder can rely on.

#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod damage;
mod folder;
mod kill;
mod model;
mod snapshots;
mod support;
mod torn;
