//! The tables of the marks, by numbered steps.
use rusqlite::Connection;
use std::{path::Path, time::Duration};

/// The steps: number n takes a database from n − 1 to n. A step that was released is never changed.
const STEPS: [&str; KNOWN as usize] = [include_str!("0001_marks.sql")];
/// The version that the last step leads to.
const KNOWN: u32 = 1;

/// How long a connection of [`open`] waits for others' locks.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a database could not be made ready.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// It was made ready by a later version of this crate.
    #[error("the tables of the marks are of version {found}, this crate knows {known} at most")]
    TooNew {
        /// The version of the tables.
        found: u32,
        /// The last version that this crate knows.
        known: u32,
    },
    /// The database failed.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// Opens the file with a write-ahead log, each commit synced, and makes it ready.
///
/// # Errors
/// [`MigrateError`].
pub fn open(path: impl AsRef<Path>) -> Result<Connection, MigrateError> {
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    migrate(&mut connection)?;
    Ok(connection)
}

/// Brings the tables of the marks (all named `ringfence_…`) to the present version; leaves all others alone.
/// May be called by many processes at once, and again at any time: it waits for writers only where there is
/// something to do.
///
/// # Errors
/// [`MigrateError`]; the database is as it was.
pub fn migrate(connection: &mut Connection) -> Result<(), MigrateError> {
    if version(connection)? == KNOWN {
        return Ok(());
    }
    let transaction = super::begin(connection)?;
    // Read again: another process may have come first.
    let found = version(&transaction)?;
    if found > KNOWN {
        return Err(MigrateError::TooNew { found, known: KNOWN });
    }
    for (number, step) in (1..).zip(STEPS) {
        if number > found {
            transaction.execute_batch(step)?;
        }
    }
    transaction.execute("UPDATE ringfence_schema SET version = ?1", [KNOWN])?;
    transaction.commit()?;
    Ok(())
}

/// 0 where there are no tables yet.
fn version(connection: &Connection) -> rusqlite::Result<u32> {
    if connection.table_exists(None, "ringfence_schema")? {
        connection.query_row("SELECT version FROM ringfence_schema", [], |row| row.get(0))
    } else {
        Ok(0)
    }
}
