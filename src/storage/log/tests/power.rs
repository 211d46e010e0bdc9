//! A disk that loses its power.
//!
//! What was written since the last sync of a file reaches the disk in any order: at the cut, each 512-byte sector
//! holds either its old or its new contents. Whatever the mixture, opening must give the state after *some* number
//! of submissions, none torn, and all acknowledged ones among them. That is what a node's vote stands on: one that
//! was answered and then lost lets it vote twice in a term.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use tempfile::TempDir;

use super::*;

const SECTOR: usize = 512;

/// The folder as the disk has it after a power cut, and how many submissions were acknowledged by then.
struct Cut {
    files: Vec<(String, Vec<u8>)>,
    acknowledged: usize,
}

/// Writes through, remembers what is durable, and records a possible cut at each sync.
struct PowerCutDisk {
    folder: std::path::PathBuf,
    /// By inode: the contents at the last sync.
    durable: Mutex<HashMap<u64, Vec<u8>>>,
    acknowledged: AtomicUsize,
    cuts: Mutex<(StdRng, Vec<Cut>)>,
}

impl PowerCutDisk {
    fn new(folder: &Path, seed: u64) -> Arc<Self> {
        let mut durable = HashMap::new();
        for item in fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            durable.insert(fs::metadata(&path).unwrap().ino(), fs::read(&path).unwrap());
        }
        Arc::new(Self {
            folder: folder.to_owned(),
            durable: Mutex::new(durable),
            acknowledged: AtomicUsize::new(0),
            cuts: Mutex::new((StdRng::seed_from_u64(seed), Vec::new())),
        })
    }

    fn cut(&self, durable: &HashMap<u64, Vec<u8>>) {
        let (random, cuts) = &mut *self.cuts.lock().unwrap();
        let acknowledged = self.acknowledged.load(Ordering::SeqCst);
        let mut files = Vec::new();
        for item in fs::read_dir(&self.folder).unwrap() {
            let path = item.unwrap().path();
            // A file may be renamed meanwhile by the thread that makes segments: then this cut is not taken.
            let (Ok(meta), Ok(bytes)) = (fs::metadata(&path), fs::read(&path)) else {
                return;
            };
            let old = durable.get(&meta.ino()).cloned().unwrap_or_default();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            files.push((name, mixture(random, &old, bytes)));
        }
        cuts.push(Cut { files, acknowledged });
    }
}

/// `new` with a random choice of sectors as they were in `old`.
fn mixture(random: &mut StdRng, old: &[u8], mut new: Vec<u8>) -> Vec<u8> {
    if old.len() != new.len() {
        return new;
    }
    let kept = random.random_range(0.0..=1.0);
    for start in (0..new.len()).step_by(SECTOR) {
        let sector = start..(start + SECTOR).min(new.len());
        if random.random_bool(kept) {
            new[sector.clone()].copy_from_slice(&old[sector]);
        }
    }
    new
}

impl Disk for PowerCutDisk {
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let _one_at_a_time = self.durable.lock().unwrap();
        file.write_all_at(bytes, offset)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        let mut durable = self.durable.lock().unwrap();
        self.cut(&durable);
        let meta = file.metadata()?;
        let mut bytes = vec![0; usize::try_from(meta.len()).unwrap()];
        file.read_exact_at(&mut bytes, 0)?;
        durable.insert(meta.ino(), bytes);
        Ok(())
    }
}

/// What the log must hold after each number of submissions.
fn apply(state: &Recovered, records: &[Record]) -> Recovered {
    let mut state = state.clone();
    for record in records {
        match record.clone() {
            Record::Entry { index, bytes } => state.entries.push((index, bytes)),
            Record::Truncate { from_index } => state.entries.retain(|(index, _)| *index < from_index),
            Record::Vote(bytes) => state.vote = Some(bytes),
            Record::Committed(bytes) => state.committed = Some(bytes),
            Record::Purge { upto_index, bytes } => {
                state.entries.retain(|(index, _)| *index > upto_index);
                state.purged = Some((upto_index, bytes));
            }
        }
    }
    state
}

fn random_bytes(random: &mut StdRng, longest: usize) -> Vec<u8> {
    let mut bytes = vec![0; random.random_range(0..=longest)];
    // Zeros too: they must not be taken for sectors that were not written.
    if random.random_bool(0.5) {
        random.fill_bytes(&mut bytes);
    }
    bytes
}

/// One submission that fits `state`.
fn random_records(random: &mut StdRng, state: &Recovered, next: &mut u64) -> Vec<Record> {
    let first = state.purged.as_ref().map_or(1, |(point, _)| point + 1);
    match random.random_range(0..10) {
        0 => vec![Record::Vote(random_bytes(random, 40))],
        1 => vec![Record::Committed(random_bytes(random, 20))],
        2 if *next > first => {
            *next = random.random_range(first.max(next.saturating_sub(4))..*next);
            vec![Record::Truncate { from_index: *next }]
        }
        3 if *next > first => {
            let upto_index = random.random_range(first..*next);
            vec![Record::Purge { upto_index, bytes: random_bytes(random, 20) }]
        }
        _ => (0..random.random_range(1..5))
            .map(|_| {
                let longest = if random.random_bool(0.02) { 2 * SEGMENT_BYTES } else { 700 };
                *next += 1;
                Record::Entry { index: *next - 1, bytes: random_bytes(random, longest) }
            })
            .collect(),
    }
}

/// Runs a log on `disk` and returns what it must hold after 0, 1, 2, … submissions.
fn run(disk: &Arc<PowerCutDisk>, random: &mut StdRng) -> Vec<Recovered> {
    let wal = create(disk.clone(), &disk.folder);
    let mut states = vec![Recovered::default()];
    let mut next = 1;
    for number in 1..=40 {
        let state = states.last().unwrap();
        let records = random_records(random, state, &mut next);
        states.push(apply(state, &records));
        let lazy = matches!(records[0], Record::Committed(_));
        let durability = if lazy { Durability::Lazy } else { Durability::Sync };
        let disk = disk.clone();
        let done = move |result: Result<(), WalError>| {
            result.unwrap();
            if !lazy {
                disk.acknowledged.store(number, Ordering::SeqCst);
            }
        };
        wal.submit(records, durability, Box::new(done));
        if random.random_bool(0.6) {
            submit_and_wait(&wal, Vec::new()).unwrap();
        }
    }
    wal.close().unwrap();
    states
}

fn restore(cut: &Cut) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, bytes) in &cut.files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

fn check(recovered: Result<(Wal, Recovered), WalError>, cut: &Cut, states: &[Recovered], seed: u64) {
    let (_, recovered) = recovered.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let recovered = Recovered { group: 0, ..recovered };
    let found = states[cut.acknowledged..].contains(&recovered);
    assert!(found, "seed {seed}: {} acknowledged, recovered {recovered:?}", cut.acknowledged);
}

#[test]
fn a_power_cut_loses_nothing_acknowledged() {
    let mut cuts_seen = 0;
    for seed in 0..12 {
        let folder = TempDir::new().unwrap();
        let disk = PowerCutDisk::new(folder.path(), seed);
        let mut random = StdRng::seed_from_u64(seed);
        let states = run(&disk, &mut random);
        let cuts = std::mem::take(&mut disk.cuts.lock().unwrap().1);
        // Before the first segment has its name there is no log yet.
        for cut in cuts.iter().filter(|cut| cut.files.iter().any(|(name, _)| name.ends_with(".wal"))) {
            cuts_seen += 1;
            let image = restore(cut);
            let again = PowerCutDisk::new(image.path(), seed);
            check(Wal::open_on(again.clone(), image.path(), options()), cut, &states, seed);
            // And once more when the power fails while the log is being repaired.
            for second in &again.cuts.lock().unwrap().1 {
                check(Wal::open(restore(second).path(), options()), cut, &states, seed);
            }
        }
    }
    assert!(cuts_seen > 300, "only {cuts_seen} cuts: the disk is not asked to sync any more");
}
