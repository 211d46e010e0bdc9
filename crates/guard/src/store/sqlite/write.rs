//! The write itself: statements whose own predicate holds the version.
use crate::{error::GuardError, precondition::Expected, tag::Version};
use ringfence_protocol::{ErrorCode, Problem};
use rusqlite::{
    Connection, Params, Row, ToSql,
    types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef},
};
use std::ops::Deref;

/// The transaction of a guarded write, as the service writes through it. Dereferences to the connection.
///
/// It must not be ended from within (`COMMIT`, `ROLLBACK`), and the tables named `ringfence_…` are not the
/// service's.
#[derive(Debug)]
pub struct Write<'t> {
    connection: &'t Connection,
}

impl Deref for Write<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl<'t> Write<'t> {
    pub(super) const fn new(connection: &'t Connection) -> Self {
        Self { connection }
    }

    /// Changes one row by a statement that holds the version in its predicate and says `RETURNING`.
    ///
    /// [`Expected`] is a parameter of it: `… WHERE id = ?1 AND version IN (SELECT value FROM json_each(?2))`. A
    /// creation lets `ON CONFLICT DO NOTHING` find what is there. `read` takes the row that came back; `current`
    /// is asked for the version that is there only where no row was changed.
    ///
    /// # Errors
    /// [`Reason::StaleVersion`](crate::Reason::StaleVersion) where no row was changed since another version is
    /// there; `not_found` where nothing was expected and nothing is there; [`GuardError::Store`] with
    /// [`rusqlite::Error::StatementChangedRows`] where the predicate took in more than one row.
    pub fn fenced_update<T>(
        &self,
        expected: &Expected,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
        current: impl FnOnce(&Connection) -> rusqlite::Result<Option<Version>>,
    ) -> Result<T, GuardError<rusqlite::Error>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut changed = statement.query_map(params, read)?.collect::<rusqlite::Result<Vec<_>>>()?;
        match (changed.pop(), changed.len()) {
            (Some(row), 0) => Ok(row),
            (Some(_), more) => Err(rusqlite::Error::StatementChangedRows(more + 1).into()),
            (None, _) => Err(unchanged(expected, current(self.connection)?)),
        }
    }
}

fn unchanged(expected: &Expected, current: Option<Version>) -> GuardError<rusqlite::Error> {
    match (expected, current) {
        // The precondition holds; what there was to change is not there.
        (Expected::Absent, None) => {
            Problem::new(ErrorCode::NotFound, "there is nothing to change here").into()
        }
        (Expected::Absent | Expected::OneOf(_), _) => expected.stale(current).into(),
    }
}

/// The versions that may be replaced, as a JSON array for `json_each`.
impl ToSql for Expected {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let numbers: Vec<_> = self.versions().iter().map(|version| version.get().to_string()).collect();
        Ok(format!("[{}]", numbers.join(",")).into())
    }
}

impl ToSql for Version {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.get().cast_signed().into())
    }
}

impl FromSql for Version {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let number = value.as_i64()?;
        let version = u64::try_from(number).ok().and_then(Self::new);
        version.ok_or(FromSqlError::OutOfRange(number))
    }
}
