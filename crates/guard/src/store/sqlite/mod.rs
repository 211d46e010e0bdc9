//! Marks in the service's own SQLite database.
//!
//! The store is the service's `rusqlite::Connection`: marks and resources are in one file, and mark and write
//! in one transaction that begins with `BEGIN IMMEDIATE`, so that no two writers of the file are ever between
//! comparison and commit at once. Call [`migrate`] (or [`open`]) once before the first guarded call.
//!
//! ```
//! # use ringfence_guard::{Expected, Guard, GuardError, Request, VerifiedGrant, Version, sqlite};
//! # use rusqlite::{Connection, OptionalExtension};
//! fn rename(
//!     db: &mut Connection,
//!     guard: &Guard,
//!     grant: &VerifiedGrant,
//!     expected: &Expected,
//!     (id, name): (&str, &str),
//! ) -> Result<Version, GuardError<rusqlite::Error>> {
//!     let request = Request::parse(&format!("thing/{id}"), "update")?;
//!     guard.write(db, grant, &request, |tx, _permit| {
//!         tx.fenced_update(
//!             expected,
//!             "UPDATE things SET version = version + 1, name = ?2
//!              WHERE id = ?1 AND version IN (SELECT value FROM json_each(?3)) RETURNING version",
//!             (id, name, expected),
//!             |row| row.get(0),
//!             |db| db.query_row("SELECT version FROM things WHERE id = ?1", [id], |row| row.get(0)).optional(),
//!         )
//!     })
//! }
//! ```
//!
//! **A copy of the file from a backup has forgotten the marks since**: see the crate's documentation before one
//! is put back into service.
mod marks;
mod migrate;
mod write;

pub use migrate::{MigrateError, migrate, open};
pub use write::Write;

use super::{Judgement, Store};
use crate::{decide::Permit, error::GuardError, marks::Marks};
use marks::SqliteMarks;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};
use std::{
    thread,
    time::{Duration, Instant},
};

/// How long a transaction tries to begin while others write, beside the one wait of the connection's own
/// `busy_timeout` that may be under way then.
pub const BUSY_PATIENCE: Duration = Duration::from_secs(3);
/// Between two tries of a connection whose `busy_timeout` is short.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

impl From<rusqlite::Error> for GuardError<rusqlite::Error> {
    fn from(error: rusqlite::Error) -> Self {
        if is_busy(&error) { Self::Busy } else { Self::Store(error) }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

impl Store for Connection {
    type Error = rusqlite::Error;
    type Handle<'t> = Write<'t>;

    fn observe<O>(&mut self, observe: O) -> Result<(), GuardError<rusqlite::Error>>
    where
        O: FnOnce(&mut dyn Marks<Error = rusqlite::Error>) -> Result<(), rusqlite::Error>,
    {
        let transaction = begin(self)?;
        observe(&mut SqliteMarks(&transaction))?;
        Ok(transaction.commit()?)
    }

    fn transact<T, J, W>(&mut self, judge: J, write: W) -> Result<T, GuardError<rusqlite::Error>>
    where
        J: FnOnce(&mut dyn Marks<Error = rusqlite::Error>) -> Result<Judgement, rusqlite::Error>,
        W: for<'t> FnOnce(Write<'t>, &Permit) -> Result<T, GuardError<rusqlite::Error>>,
    {
        let mut transaction = begin(self)?;
        let outcome = match judge(&mut SqliteMarks(&transaction))? {
            Ok(permit) => write_or_undo(&mut transaction, write, &permit),
            Err(refusal) => Err(refusal.into()),
        };
        // Committed either way: what was refused leaves its marks behind. An error here undoes both.
        transaction.commit()?;
        outcome
    }
}

/// Runs the write so that an error takes back what it did, and nothing before it.
fn write_or_undo<T, W>(
    transaction: &mut Transaction<'_>,
    write: W,
    permit: &Permit,
) -> Result<T, GuardError<rusqlite::Error>>
where
    W: for<'t> FnOnce(Write<'t>, &Permit) -> Result<T, GuardError<rusqlite::Error>>,
{
    let mut savepoint = transaction.savepoint()?;
    let outcome = write(Write::new(&savepoint), permit);
    if outcome.is_err() {
        savepoint.rollback()?;
    }
    savepoint.commit()?;
    outcome
}

/// Begins as a writer, so that the lock is there before the first mark is read.
fn begin(connection: &Connection) -> Result<Transaction<'_>, rusqlite::Error> {
    let start = Instant::now();
    loop {
        match Transaction::new_unchecked(connection, TransactionBehavior::Immediate) {
            Err(error) if is_busy(&error) && start.elapsed() < BUSY_PATIENCE => thread::sleep(BUSY_PAUSE),
            outcome => return outcome,
        }
    }
}
