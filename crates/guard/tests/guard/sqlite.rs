//! One SQLite file under many writers, and what its tables do.
use crate::cluster::{Cluster, NOW_S};
use ringfence_guard::{
    Expected, Guard, GuardError, Preconditions, Request, VerifiedGrant, Version,
    clock::Clock,
    protocol::{ErrorCode, Fence, Mode, Scope},
    sqlite::{self, MigrateError, Write},
};
use rusqlite::{Connection, OptionalExtension};
use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

type Failure = GuardError<rusqlite::Error>;

const DOCS: &str = "
    CREATE TABLE docs (id TEXT PRIMARY KEY, version INTEGER NOT NULL, value INTEGER NOT NULL);
    CREATE TABLE history (at INTEGER PRIMARY KEY, scope TEXT NOT NULL, fence INTEGER NOT NULL);";

fn prepared(path: &Path) -> Connection {
    let connection = sqlite::open(path).unwrap();
    connection.execute_batch(DOCS).unwrap();
    connection
}

fn version(number: u64) -> Version {
    Version::new(number).unwrap()
}

fn at(number: u64) -> Expected {
    let tag = version(number).etag();
    Preconditions::parse(Some(tag.as_bytes()), None).unwrap().for_write().unwrap()
}

fn current(db: &Connection, id: &str) -> rusqlite::Result<Option<Version>> {
    db.query_row("SELECT version FROM docs WHERE id = ?1", [id], |row| row.get(0)).optional()
}

const UPDATE: &str = "UPDATE docs SET version = version + 1, value = ?2
    WHERE id = ?1 AND version IN (SELECT value FROM json_each(?3)) RETURNING version";

fn update(tx: &Write<'_>, id: &str, value: i64, expected: &Expected) -> Result<Version, Failure> {
    tx.fenced_update(expected, UPDATE, (id, value, expected), |row| row.get(0), |db| current(db, id))
}

fn write(
    guard: &Guard,
    db: &mut Connection,
    grant: &VerifiedGrant,
    (id, value): (&str, i64),
    expected: &Expected,
) -> Result<Version, Failure> {
    let request = Request::parse(id, "update").unwrap();
    guard.write(db, grant, &request, |tx, permit| {
        let row = (permit.scope().as_str(), permit.fence().get().cast_signed());
        let changed = update(&tx, id, value, expected)?;
        tx.execute("INSERT INTO history (scope, fence) VALUES (?1, ?2)", row)?;
        Ok(changed)
    })
}

/// Writers that each take a newer grant of a random scope, subtrees among them, and add one to a document by
/// reading and writing: whoever was overtaken in between has to be refused by the fence or by the version.
#[test]
fn sixteen_writers_on_one_file_lose_no_update_and_do_not_lock_each_other_out() {
    const WRITERS: u64 = 16;
    const ROUNDS: u64 = 25;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.sqlite");
    let db = prepared(&path);
    for id in ["docs/a", "docs/a/b", "docs/c"] {
        db.execute("INSERT INTO docs VALUES (?1, 1, 0)", [id]).unwrap();
    }
    let fences = Arc::new(AtomicU64::new(0));
    let (done, all_done) = mpsc::channel();
    for writer in 0..WRITERS {
        let (fences, path, done) = (fences.clone(), path.clone(), done.clone());
        thread::spawn(move || done.send(writes(writer, ROUNDS, &fences, &path)));
    }
    drop(done);
    let mut written = 0;
    for _ in 0..WRITERS {
        let deadline = Duration::from_secs(120);
        written += all_done.recv_timeout(deadline).expect("a writer hangs or died");
    }
    let sum: u64 =
        db.query_row("SELECT sum(value) FROM docs", [], |row| row.get::<_, i64>(0)).unwrap().cast_unsigned();
    assert_eq!(sum, written, "each write that was acknowledged added one");
    assert!(written > WRITERS, "only {written} writes passed");
    no_older_fence_follows_a_newer_one(&db);
}

fn writes(writer: u64, rounds: u64, fences: &AtomicU64, path: &Path) -> u64 {
    let cluster = Cluster::new();
    let (guard, _clock) = cluster.guard();
    let mut db = sqlite::open(path).unwrap();
    let choices =
        [("docs/**", "docs/a/b"), ("docs/a/**", "docs/a"), ("docs/a/b", "docs/a/b"), ("docs/c", "docs/c")];
    let mut written = 0;
    for round in 0..rounds {
        let (scope, id) = choices[usize::try_from(writer * 7 + round * 3).unwrap() % choices.len()];
        let fence = fences.fetch_add(1, Ordering::SeqCst) + 1;
        let grant = cluster.verified(fence, &[(scope, Mode::Exclusive)]);
        loop {
            let (version, value) = read(&db, id);
            match write(&guard, &mut db, &grant, (id, value + 1), &at(version)) {
                Ok(_) => written += 1,
                Err(error) => {
                    let code = error.into_problem().error;
                    if matches!(code, ErrorCode::StaleVersion | ErrorCode::Busy) {
                        continue;
                    }
                    assert_eq!(code, ErrorCode::StaleFence);
                }
            }
            break;
        }
    }
    written
}

fn read(db: &Connection, id: &str) -> (u64, i64) {
    let row = db.query_row("SELECT version, value FROM docs WHERE id = ?1", [id], |row| {
        Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?))
    });
    row.unwrap()
}

fn no_older_fence_follows_a_newer_one(db: &Connection) {
    let mut statement = db.prepare("SELECT scope, fence FROM history ORDER BY at").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)));
    let history: Vec<(Scope, i64)> =
        rows.unwrap().map(|row| row.map(|(scope, fence)| (scope.parse().unwrap(), fence)).unwrap()).collect();
    for (later, (scope, fence)) in history.iter().enumerate() {
        for (other, earlier) in &history[..later] {
            assert!(!scope.overlaps(other) || earlier <= fence, "{other} {earlier} before {scope} {fence}");
        }
    }
}

#[test]
fn of_many_writers_at_one_version_exactly_one_wins_each_round() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.sqlite");
    prepared(&path).execute("INSERT INTO docs VALUES ('docs/a', 1, 0)", []).unwrap();
    let cluster = Cluster::new();
    for round in 1..=20 {
        let wins = Mutex::new(0);
        thread::scope(|scope| {
            for writer in 0..8_u64 {
                let (cluster, path, wins) = (&cluster, &path, &wins);
                scope.spawn(move || {
                    let (guard, _clock) = cluster.guard();
                    let grant = cluster.verified(round * 8 + writer, &[("docs/a", Mode::Optimistic)]);
                    let mut db = sqlite::open(path).unwrap();
                    match write(&guard, &mut db, &grant, ("docs/a", 0), &at(round)) {
                        Ok(made) => {
                            assert_eq!(made, version(round + 1));
                            *wins.lock().unwrap() += 1;
                        }
                        Err(error) => assert_eq!(error.into_problem().error, ErrorCode::StaleVersion),
                    }
                });
            }
        });
        assert_eq!(*wins.lock().unwrap(), 1, "round {round}");
    }
}

#[test]
fn a_database_that_stays_busy_is_given_up_and_nothing_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.sqlite");
    let blocker = prepared(&path);
    blocker.execute("INSERT INTO docs VALUES ('docs/a', 1, 0)", []).unwrap();
    let cluster = Cluster::new();
    let (guard, _clock) = cluster.guard();
    let grant = cluster.verified(5, &[("docs/a", Mode::Exclusive)]);
    let mut db = sqlite::open(&path).unwrap();
    // Without a wait of the connection's own, what is waited is the guard's.
    db.busy_timeout(Duration::ZERO).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let start = Instant::now();
    let problem = write(&guard, &mut db, &grant, ("docs/a", 1), &at(1)).unwrap_err().into_problem();
    assert_eq!((problem.status, problem.error, problem.retryable), (503, ErrorCode::Busy, true));
    let waited = start.elapsed();
    assert!(waited >= sqlite::BUSY_PATIENCE && waited < sqlite::BUSY_PATIENCE * 4, "{waited:?}");
    blocker.execute_batch("ROLLBACK").unwrap();
    assert_eq!(read(&db, "docs/a"), (1, 0));
    assert!(write(&guard, &mut db, &grant, ("docs/a", 1), &at(1)).is_ok());
}

#[test]
fn a_predicate_that_takes_in_more_than_one_row_changes_none() {
    let mut db = Connection::open_in_memory().unwrap();
    sqlite::migrate(&mut db).unwrap();
    db.execute_batch(DOCS).unwrap();
    db.execute_batch("INSERT INTO docs VALUES ('docs/a', 1, 0), ('docs/b', 1, 0)").unwrap();
    let cluster = Cluster::new();
    let (guard, _clock) = cluster.guard();
    let grant = cluster.verified(5, &[("docs/a", Mode::Exclusive)]);
    let request = Request::parse("docs/a", "update").unwrap();
    let sql = "UPDATE docs SET version = version + 1 WHERE version = 1 RETURNING version";
    let outcome = guard.write(&mut db, &grant, &request, |tx, _| {
        tx.fenced_update(&at(1), sql, [], |row| row.get::<_, Version>(0), |_| Ok(None))
    });
    assert!(matches!(outcome, Err(GuardError::Store(rusqlite::Error::StatementChangedRows(2)))));
    assert_eq!((read(&db, "docs/a"), read(&db, "docs/b")), ((1, 0), (1, 0)));
}

#[test]
fn marks_survive_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.sqlite");
    let cluster = Cluster::new();
    let (guard, _clock) = cluster.guard();
    let newer = cluster.verified(6, &[("docs/**", Mode::Exclusive)]);
    let db = prepared(&path);
    db.execute("INSERT INTO docs VALUES ('docs/a', 1, 0)", []).unwrap();
    drop(db);
    guard.observe(&mut sqlite::open(&path).unwrap(), &newer).unwrap();
    let older = cluster.verified(5, &[("docs/a", Mode::Exclusive)]);
    let mut db = sqlite::open(&path).unwrap();
    let late = write(&guard, &mut db, &older, ("docs/a", 1), &at(1));
    let problem = late.unwrap_err().into_problem();
    assert_eq!(problem.error, ErrorCode::StaleFence);
    assert_eq!((problem.fence, problem.current_fence), (Fence::new(5), Fence::new(6)));
}

#[test]
fn a_damaged_mark_stops_the_write_and_is_not_taken_for_none() {
    let cluster = Cluster::new();
    let (guard, _clock) = cluster.guard();
    let grant = cluster.verified(5, &[("docs/a", Mode::Exclusive)]);
    let mut db = Connection::open_in_memory().unwrap();
    sqlite::migrate(&mut db).unwrap();
    guard.observe(&mut db, &grant).unwrap();
    for damage in [-1_i64, i64::MAX] {
        let sql = "UPDATE ringfence_marks SET shared = ?1";
        assert!(db.execute(sql, [damage]).is_err(), "the table takes {damage}");
    }
    db.execute_batch("PRAGMA ignore_check_constraints = ON; UPDATE ringfence_marks SET shared = 1 << 60")
        .unwrap();
    let request = Request::parse("docs/a", "update").unwrap();
    let outcome = guard.write(&mut db, &grant, &request, |_, _| Ok(()));
    assert!(matches!(outcome, Err(GuardError::Store(_))));
}

#[test]
fn a_database_that_was_not_made_ready_refuses_every_write() {
    let cluster = Cluster::new();
    let (guard, _clock) = cluster.guard();
    let grant = cluster.verified(5, &[("docs/a", Mode::Exclusive)]);
    let mut db = Connection::open_in_memory().unwrap();
    let request = Request::parse("docs/a", "update").unwrap();
    let outcome = guard.write(&mut db, &grant, &request, |_, _| Ok(()));
    assert!(matches!(outcome, Err(GuardError::Store(_))));
}

#[test]
fn a_migration_may_be_repeated_and_does_not_touch_a_later_one() {
    let mut db = Connection::open_in_memory().unwrap();
    for _ in 0..2 {
        sqlite::migrate(&mut db).unwrap();
    }
    db.execute("UPDATE ringfence_schema SET version = version + 1", []).unwrap();
    let found = sqlite::migrate(&mut db).unwrap_err();
    assert!(matches!(found, MigrateError::TooNew { .. }), "{found}");
}

#[test]
fn marks_are_looked_up_by_index() {
    let mut db = Connection::open_in_memory().unwrap();
    sqlite::migrate(&mut db).unwrap();
    let plan = |condition: &str| -> String {
        let sql = format!("EXPLAIN QUERY PLAN SELECT max(shared) FROM ringfence_marks WHERE {condition}");
        db.query_row(&sql, [], |row| row.get(3)).unwrap()
    };
    let exact = plan("cluster = 'c' AND tenant = 't' AND scope = 'a/b'");
    let below = plan("cluster = 'c' AND tenant = 't' AND scope >= 'a/b/' AND scope < 'a/b0'");
    assert!(exact.contains("PRIMARY KEY (cluster=? AND tenant=? AND scope=?)"), "{exact}");
    assert!(below.contains("PRIMARY KEY (cluster=? AND tenant=? AND scope>? AND scope<?)"), "{below}");
}

/// A clock that notes, when it is read, whether somebody holds the database.
#[derive(Debug)]
struct Witness {
    other: Mutex<Connection>,
    was_locked: AtomicBool,
}

impl Clock for Witness {
    fn unix_ms(&self) -> u64 {
        let begun = self.other.lock().unwrap().execute_batch("BEGIN IMMEDIATE; ROLLBACK");
        self.was_locked.store(begun.is_err(), Ordering::SeqCst);
        NOW_S * 1000
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

#[test]
fn the_clock_is_read_after_the_wait_for_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.sqlite");
    let mut db = prepared(&path);
    db.execute("INSERT INTO docs VALUES ('docs/a', 1, 0)", []).unwrap();
    let other = Connection::open(&path).unwrap();
    other.busy_timeout(Duration::ZERO).unwrap();
    let clock = Arc::new(Witness { other: Mutex::new(other), was_locked: AtomicBool::new(false) });
    let cluster = Cluster::new();
    let guard = cluster.guard().0.with_clock(clock.clone());
    let grant = cluster.verified(5, &[("docs/a", Mode::Exclusive)]);
    write(&guard, &mut db, &grant, ("docs/a", 1), &at(1)).unwrap();
    assert!(clock.was_locked.load(Ordering::SeqCst));
}
