//! The guard as a target service sees it: both stores, one SQLite file under many writers, and real HTTP.
#![expect(clippy::unwrap_used, reason = "what a test builds on ends it where it fails")]
mod cluster;
mod conformance;
mod histories;
mod http;
mod keys;
mod sqlite;
