//! The state machine from outside: rules by name, and random histories against a model that was written apart.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod audit;
mod histories;
mod model;
mod rules;
mod world;
