//! How nodes talk: length-prefixed frames over TCP, each connection opened by a handshake that says who is who.
//!
//! In reading order: [`frame`], [`hello`] (the handshake), [`message`] (what is said), [`connection`] (one that asks
//! and waits), [`forward`] (one that many askers share), [`server`].
//!
//! Replication, heartbeats and snapshots each have a connection of their own, so that a large one doesn't hold up a
//! small one; what followers forward to the leader shares one, answers in any order.
pub(super) mod connection;
pub(super) mod forward;
pub(super) mod frame;
pub(crate) mod hello;
pub(super) mod message;
pub(super) mod server;
