//! What a node keeps on its disk.
//!
//! In reading order:
//!
//! - [`lock`]: one process per folder.
//! - [`identity`]: who this node is, and whether it ever started a log.
//! - [`log`]: the write-ahead log with vote, entries, committed position and purge point.
//! - [`snapshot`]: whole states as plain files.
//! - `durable` and `fields`: the few file operations that survive a power cut, and numbers in stored bytes; shared by
//!   the others.
//!
//! **Owns** every byte below the data folder that it was given, and the threads that write them.
//!
//! **Guarantees.** What was acknowledged is on the disk. Every stored format carries a number; an unknown one is
//! refused. Damage is found by checksum and refused with an error that names the file and the way out; it is never
//! taken for an empty folder and never causes a panic.
//!
//! **Must not** know Raft, HTTP or the lease state: payloads are opaque bytes. No async types, no clock but
//! durations, no randomness.
//!
//! # The order in which a node opens its folder
//!
//! 1. [`lock::FolderLock::acquire`] on the data folder.
//! 2. [`identity::Identity::load`]. `None`: a new node; save an identity, [`log::Wal::create`] the log, then save the
//!    identity again with `log_started` set.
//! 3. [`log::Wal::open`] when `log_started` is set, so that a log that has vanished is an error; otherwise
//!    [`log::Wal::create`], which may be repeated until the first record was written.
//! 4. [`snapshot::SnapshotStore::open`].

mod durable;
mod fields;
pub mod identity;
pub mod lock;
pub mod log;
pub mod snapshot;
