//! The API through the real HTTP stack: every test talks over TCP to nodes that run in its own process.
//!
//! Each answer is held against the OpenAPI document that the node serves: a refusal that the document doesn't name for
//! its route fails the test that met it.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]
#[path = "../support/http.rs"]
mod http;

mod assembled;
mod bodies;
mod contract;
mod identity;
mod keys;
mod leases;
mod lists;
mod node;
mod open_routes;
mod quorum;
mod rights;
mod runs;
mod tenants;
mod tokens;
mod verify;
mod world;
