//! A process that is killed has lost nothing that it acknowledged.
//!
//! The child is this test binary again: it goes on from what it finds, keeps many submissions
//! waiting, and prints what was acknowledged. The parent kills it at a random moment and opens the log.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use ringfence::storage::log::{Durability, Record, Recovered, Wal, WalOptions};
use tempfile::TempDir;

use crate::support::{LOG_ID, entry};

const FOLDER_VARIABLE: &str = "RINGFENCE_KILL_FOLDER";
const ROUNDS_VARIABLE: &str = "RINGFENCE_KILL_ROUNDS";
/// Submissions that the child lets wait.
const IN_FLIGHT: u64 = 64;

fn options() -> WalOptions {
    WalOptions { segment_bytes: 64 << 10, ..WalOptions::new(LOG_ID) }
}

fn length_of(index: u64) -> usize {
    usize::try_from(index * 131 % 900).unwrap()
}

/// What entry `index` comes with: a vote now and then, and a purge that keeps the last 500.
fn records(index: u64) -> Vec<Record> {
    let mut records = vec![entry(index, length_of(index))];
    if index.is_multiple_of(10) {
        records.push(Record::Vote(index.to_be_bytes().to_vec()));
    }
    if index.is_multiple_of(100) && index > 500 {
        records.push(Record::Purge { upto_index: index - 500, bytes: Vec::new() });
    }
    records
}

/// Not a test of its own: what the child runs. Without the variable it does nothing.
#[test]
fn child_that_appends_until_killed() {
    let Ok(folder) = env::var(FOLDER_VARIABLE) else {
        return;
    };
    let (wal, recovered) = Wal::open(Path::new(&folder), options()).unwrap();
    let start = next_index(&recovered);
    let acknowledged = Arc::new(AtomicU64::new(start - 1));
    for index in start.. {
        while index > acknowledged.load(Ordering::Acquire) + IN_FLIGHT {
            std::thread::yield_now();
        }
        let acknowledged = Arc::clone(&acknowledged);
        let done = move |result: Result<(), _>| {
            result.unwrap();
            // One write: a kill leaves whole lines, and a last one that the parent ignores.
            std::io::stderr().write_all(format!("acknowledged {index}\n").as_bytes()).unwrap();
            acknowledged.store(index, Ordering::Release);
        };
        wal.submit(records(index), Durability::Sync, Box::new(done));
        wal.submit(vec![Record::Committed(index.to_be_bytes().to_vec())], Durability::Lazy, Box::new(|_| {}));
    }
}

fn next_index(recovered: &Recovered) -> u64 {
    let purged = recovered.purged.as_ref().map_or(0, |(point, _)| *point);
    recovered.entries.last().map_or(purged, |(index, _)| *index) + 1
}

/// Starts the child, with its acknowledgements on a pipe.
fn start(folder: &Path) -> (Child, BufReader<ChildStderr>) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["kill::child_that_appends_until_killed", "--exact", "--nocapture", "--test-threads=1"])
        .env(FOLDER_VARIABLE, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let acknowledgements = BufReader::new(child.stderr.take().unwrap());
    (child, acknowledgements)
}

/// Kills the child after about so many acknowledgements, and returns the last one.
fn kill_after(folder: &Path, count: usize) -> u64 {
    let (mut child, mut lines) = start(folder);
    let mut last = 0;
    let mut line = String::new();
    let mut seen = 0;
    while lines.read_line(&mut line).unwrap() > 0 {
        if let Some(index) = line.strip_prefix("acknowledged ").and_then(|rest| rest.strip_suffix('\n')) {
            last = index.parse().unwrap();
            seen += 1;
        }
        if seen == count {
            // While it goes on: what it acknowledges before the signal arrives is read below.
            child.kill().unwrap();
        }
        line.clear();
    }
    child.wait().unwrap();
    assert!(seen >= count, "the child ended by itself after {seen} acknowledgements");
    last
}

fn check(recovered: &Recovered, acknowledged: u64) {
    let first = recovered.entries.first().map_or(0, |(index, _)| *index);
    let last = recovered.entries.last().map_or(0, |(index, _)| *index);
    assert!(last >= acknowledged, "{acknowledged} was acknowledged, the log ends at {last}");
    for (place, (index, bytes)) in recovered.entries.iter().enumerate() {
        assert_eq!(*index, first + place as u64);
        assert_eq!(Record::Entry { index: *index, bytes: bytes.clone() }, entry(*index, length_of(*index)));
    }
    // A submission is whole: the vote and the purge came with their entries.
    let vote = recovered.vote.as_ref().map_or(0, |bytes| u64::from_be_bytes(bytes[..].try_into().unwrap()));
    assert_eq!(vote, last / 10 * 10);
    let purged = recovered.purged.as_ref().map_or(0, |(point, _)| *point);
    assert_eq!(purged, (last / 100 * 100).saturating_sub(500));
    assert_eq!(first, purged + 1);
}

#[test]
fn every_acknowledged_record_survives_a_kill() {
    let rounds: u64 = env::var(ROUNDS_VARIABLE).map_or(20, |rounds| rounds.parse().unwrap());
    let folder = TempDir::new().unwrap();
    Wal::create(folder.path(), options()).unwrap().close().unwrap();
    let mut random = StdRng::seed_from_u64(rounds);
    let mut end = 0;
    for round in 0..rounds {
        let acknowledged = kill_after(folder.path(), random.random_range(1..400));
        assert!(acknowledged > end, "round {round} has written nothing");
        let (wal, recovered) = Wal::open(folder.path(), options()).unwrap();
        check(&recovered, acknowledged);
        end = recovered.entries.last().map_or(end, |(index, _)| *index);
        wal.close().unwrap();
    }
    let segments = std::fs::read_dir(folder.path()).unwrap().count();
    assert!(segments < 20, "purged segments stay: {segments} files");
}
