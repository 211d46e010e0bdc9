//! The rows of the marks.
use crate::marks::{Life, Marks, ModeMarks, Realm};
use ringfence_protocol::{
    Fence, Mode, Scope,
    id::{ClusterId, Incarnation},
};
use rusqlite::{Connection, OptionalExtension, Row, types::Type};

/// The marks within a transaction that has begun as a writer.
pub(super) struct SqliteMarks<'t>(pub(super) &'t Connection);

/// Nothing is written where nothing rises: a holder that writes often leaves the row alone.
const RAISE: &str = "
    INSERT INTO ringfence_marks (cluster, tenant, scope, exclusive, shared, optimistic)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (cluster, tenant, scope) DO UPDATE SET
        exclusive = max(exclusive, excluded.exclusive),
        shared = max(shared, excluded.shared),
        optimistic = max(optimistic, excluded.optimistic)
    WHERE excluded.exclusive > exclusive OR excluded.shared > shared OR excluded.optimistic > optimistic";

const AT: &str = "
    SELECT exclusive, shared, optimistic FROM ringfence_marks
    WHERE cluster = ?1 AND tenant = ?2 AND scope = ?3";

const UNDER: &str = "
    SELECT coalesce(max(exclusive), 0), coalesce(max(shared), 0), coalesce(max(optimistic), 0)
    FROM ringfence_marks
    WHERE cluster = ?1 AND tenant = ?2 AND scope >= ?3 AND scope < ?4";

const LIFE: &str = "SELECT incarnation, witness FROM ringfence_lives WHERE cluster = ?1";

const SET_LIFE: &str = "
    INSERT INTO ringfence_lives (cluster, incarnation, witness) VALUES (?1, ?2, ?3)
    ON CONFLICT (cluster) DO UPDATE SET incarnation = excluded.incarnation, witness = excluded.witness";

impl Marks for SqliteMarks<'_> {
    type Error = rusqlite::Error;

    fn raise(&mut self, realm: &Realm, scope: &Scope, marks: &ModeMarks) -> rusqlite::Result<()> {
        let [exclusive, shared, optimistic] = Mode::ALL.map(|mode| marks.get(mode).map_or(0, number));
        self.0.prepare_cached(RAISE)?.execute((
            realm.cluster.to_string(),
            realm.tenant.as_str(),
            scope.as_str(),
            exclusive,
            shared,
            optimistic,
        ))?;
        Ok(())
    }

    fn at(&mut self, realm: &Realm, scope: &str) -> rusqlite::Result<ModeMarks> {
        let key = (realm.cluster.to_string(), realm.tenant.as_str(), scope);
        let found = self.0.prepare_cached(AT)?.query_row(key, read_marks).optional()?;
        Ok(found.unwrap_or_default())
    }

    fn under(&mut self, realm: &Realm, prefix: &str) -> rusqlite::Result<ModeMarks> {
        let Some(end) = end_of_prefix(prefix) else {
            return Ok(ModeMarks::default());
        };
        let range = (realm.cluster.to_string(), realm.tenant.as_str(), prefix, end);
        self.0.prepare_cached(UNDER)?.query_row(range, read_marks)
    }

    fn life(&mut self, cluster: ClusterId) -> rusqlite::Result<Option<Life>> {
        let mut statement = self.0.prepare_cached(LIFE)?;
        statement.query_row([cluster.to_string()], read_life).optional()
    }

    fn set_life(&mut self, cluster: ClusterId, life: &Life) -> rusqlite::Result<()> {
        let row = (cluster.to_string(), life.incarnation.to_string(), number(life.witness));
        self.0.prepare_cached(SET_LIFE)?.execute(row)?;
        Ok(())
    }
}

/// The least text that comes after all that begin with the prefix, in the byte order of SQLite's `BINARY`.
/// Prefixes here end in `/`; `None` is for texts without end, which have no rows.
fn end_of_prefix(prefix: &str) -> Option<String> {
    let head = prefix.strip_suffix('/')?;
    Some(format!("{head}0"))
}

/// A fence is below 2^53: it fits.
const fn number(fence: Fence) -> i64 {
    fence.get().cast_signed()
}

fn read_marks(row: &Row<'_>) -> rusqlite::Result<ModeMarks> {
    Ok(ModeMarks {
        exclusive: read_mark(row, 0)?,
        shared: read_mark(row, 1)?,
        optimistic: read_mark(row, 2)?,
    })
}

/// 0 is "never seen"; what else is no fence is damage, and must not pass for "never seen".
fn read_mark(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Fence>> {
    match row.get(column)? {
        0 => Ok(None),
        number => fence(number, column).map(Some),
    }
}

fn fence(number: i64, column: usize) -> rusqlite::Result<Fence> {
    let fence = u64::try_from(number).ok().and_then(Fence::new);
    fence.ok_or(rusqlite::Error::IntegralValueOutOfRange(column, number))
}

fn read_life(row: &Row<'_>) -> rusqlite::Result<Life> {
    let incarnation: Incarnation = row
        .get::<_, String>(0)?
        .parse()
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))?;
    Ok(Life { incarnation, witness: fence(row.get(1)?, 1)? })
}
