//! A write that was cut short leaves the log as it was before that write, and usable.
//!
//! Made from two images of the same log, before and after its last group: each mixture of the two is what a disk may
//! hold when the power fails while that group is written.

use std::collections::BTreeSet;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use ringfence::storage::log::{Record, Recovered, Wal};
use tempfile::TempDir;

use crate::support::{Image, entry, indexes, options, recover, submit_and_wait};

const SECTOR: usize = 512;
const SEEDS: u64 = 300;
/// At most so many bytes at the end of a group carry nothing.
const END_MARK_BYTES: usize = 15;

/// A log before and after its last group.
struct LastGroup {
    before: Image,
    after: Image,
    /// What it held before.
    held: Recovered,
    /// What it holds with the group.
    with_group: Recovered,
    /// Which of the files the group is in.
    file: usize,
    /// Where the images differ.
    start: usize,
    end: usize,
}

/// Some groups, then one of several records that is still in the same segment; `None` if it happens not to be.
fn make(random: &mut StdRng) -> Option<LastGroup> {
    let folder = TempDir::new().unwrap();
    let wal = Wal::create(folder.path(), options()).unwrap();
    let mut index = 1;
    let mut append = |wal: &Wal, random: &mut StdRng, count: u64, longest| {
        let records = (0..count).map(|_| {
            index += 1;
            entry(index - 1, random.random_range(0..longest))
        });
        submit_and_wait(wal, records.collect()).unwrap();
    };
    for _ in 0..random.random_range(0..8) {
        let count = random.random_range(1..4);
        append(&wal, random, count, 400);
    }
    wal.close().unwrap();
    let held = recover(folder.path()).unwrap();
    let before = Image::of(folder.path());
    let (wal, _) = Wal::open(folder.path(), options()).unwrap();
    let count = random.random_range(1..5);
    append(&wal, random, count, 500);
    wal.close().unwrap();
    let after = Image::of(folder.path());
    let with_group = recover(folder.path()).unwrap();
    let changed: Vec<_> = (0..before.0.len()).filter(|file| before.0[*file] != after.0[*file]).collect();
    let [file] = changed[..] else { return None };
    let (old, new) = (&before.0[file].1, &after.0[file].1);
    let start = old.iter().zip(new).position(|(old, new)| old != new)?;
    let end = old.iter().zip(new).rposition(|(old, new)| old != new)? + 1;
    Some(LastGroup { before, after, held, with_group, file, start, end })
}

/// Opens the torn image: it holds what it held before, and goes on from there.
fn check(torn: &Image, group: &LastGroup, what: &str) {
    let folder = torn.restore();
    let (wal, recovered) =
        Wal::open(folder.path(), options()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(
        recovered == group.held,
        "{what}: {:?} instead of {:?}",
        indexes(&recovered),
        indexes(&group.held)
    );
    let next = recovered.entries.last().map_or(1, |(index, _)| index + 1);
    submit_and_wait(&wal, vec![entry(next, 100), Record::Vote(b"new".to_vec())]).unwrap();
    wal.close().unwrap();
    let again = recover(folder.path()).unwrap();
    assert_eq!(again.entries.len(), group.held.entries.len() + 1, "{what}");
    assert_eq!(
        (again.vote.as_deref(), again.group),
        (Some(b"new".as_slice()), group.held.group + 1),
        "{what}"
    );
}

#[test]
fn a_last_group_cut_at_any_byte_is_dropped_whole() {
    let mut rounds = 0;
    for seed in 0..SEEDS {
        let mut random = StdRng::seed_from_u64(seed);
        let Some(group) = make(&mut random) else { continue };
        rounds += 1;
        let cut = random.random_range(group.start..=group.end - END_MARK_BYTES);
        let mut torn = group.after.clone();
        torn.0[group.file].1[cut..group.end].fill(0);
        check(&torn, &group, &format!("seed {seed}, cut at {cut}"));
    }
    assert!(rounds >= 200, "only {rounds} rounds");
}

#[test]
fn a_last_group_without_its_end_mark_is_kept() {
    let group = (0..SEEDS).find_map(|seed| make(&mut StdRng::seed_from_u64(seed))).unwrap();
    for missing in 1..=8 {
        let mut torn = group.after.clone();
        torn.0[group.file].1[group.end - missing..group.end].fill(0);
        let recovered = recover(torn.restore().path()).unwrap();
        assert!(recovered == group.with_group, "without {missing} bytes");
    }
}

#[test]
fn a_last_group_that_lacks_any_sectors_is_dropped_whole() {
    let mut patterns = BTreeSet::new();
    let mut rounds = 0;
    for seed in 0..SEEDS {
        let mut random = StdRng::seed_from_u64(seed);
        let Some(group) = make(&mut random) else { continue };
        rounds += 1;
        let sectors: Vec<_> = (group.start / SECTOR..group.end.div_ceil(SECTOR)).collect();
        let mut lost: Vec<_> = sectors.iter().map(|_| random.random_bool(0.5)).collect();
        let certain = random.random_range(0..lost.len());
        lost[certain] = true;
        let mut torn = group.after.clone();
        for (sector, _) in sectors.iter().zip(&lost).filter(|(_, lost)| **lost) {
            let range = sector * SECTOR..(sector + 1) * SECTOR;
            let old = &group.before.0[group.file].1[range.clone()];
            torn.0[group.file].1[range].copy_from_slice(old);
        }
        check(&torn, &group, &format!("seed {seed}, lost {lost:?}"));
        patterns.insert(lost);
    }
    assert!(rounds >= 200, "only {rounds} rounds");
    assert!(patterns.len() > 20, "too few kinds of torn writes: {patterns:?}");
}
