//! A ringfence node, its command line, and the local cluster.
//!
//! In reading order: [`config`], [`node`] (one node, assembled), [`http`] (the API), [`raft`] (consensus),
//! [`storage`] (what is on the disk), [`cli`]. [`clock`] and [`ids`] are the only readers of time and randomness;
//! [`tasks`] knows every task; `telemetry` counts and logs.
//!
//! *Invariant:* what is decided is decided in `ringfence-core`; everything here only carries.
pub mod cli;
pub mod clock;
pub mod config;
pub mod http;
pub mod ids;
pub mod node;
pub mod raft;
pub mod storage;
pub mod tasks;
mod telemetry;
