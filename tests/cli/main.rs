//! The command line as its users have it: real processes, exit codes, files, signals.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]
mod codes;
mod demo;
mod exec;
mod local;
mod up;
