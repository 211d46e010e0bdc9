//! The storage layer from outside: what a node that opens its folder can rely on.

#![expect(clippy::unwrap_used, reason = "a test's helper may fail the test")]

mod damage;
mod folder;
mod kill;
mod model;
mod snapshots;
mod support;
mod torn;
