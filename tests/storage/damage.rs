//! A log with damage in what was acknowledged does not open, and its error says what to do.

use std::fs;
use std::path::Path;

use ringfence::storage::log::{DamageReason, Record, Recovered, Wal, WalError};
use tempfile::TempDir;

use crate::support::{
    Image, SEGMENT_BYTES, assert_names_the_way_out, entry, indexes, options, recover, segment,
    submit_and_wait,
};

const SEGMENT_HEADER: usize = 512;

/// A log of several segments with every kind of record, each submission a group of its own.
fn filled() -> (TempDir, Recovered) {
    let folder = TempDir::new().unwrap();
    let wal = Wal::create(folder.path(), options()).unwrap();
    for index in 1..=24 {
        let mut records = vec![entry(index, 200 + usize::try_from(index).unwrap() * 31)];
        match index {
            3 => records.push(Record::Vote(b"vote".to_vec())),
            5 => records.push(Record::Truncate { from_index: 5 }),
            6 => records[0] = entry(5, 300),
            _ if index > 6 => records[0] = entry(index - 1, 350),
            _ => {}
        }
        if index == 9 {
            records.push(Record::Purge { upto_index: 2, bytes: b"two".to_vec() });
            records.push(Record::Committed(b"eight".to_vec()));
        }
        submit_and_wait(&wal, records).unwrap();
    }
    wal.close().unwrap();
    let recovered = recover(folder.path()).unwrap();
    assert_eq!(indexes(&recovered), (3..=23).collect::<Vec<_>>());
    assert!(Image::of(folder.path()).segments().count() >= 4);
    (folder, recovered)
}

fn end_of_written(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1
}

/// The last segment that holds records.
fn last_used(folder: &Path) -> u64 {
    let image = Image::of(folder);
    let used = image.segments().filter(|(_, bytes)| end_of_written(bytes) > SEGMENT_HEADER);
    used.count() as u64
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// The reason for which the folder is refused; whatever the reason, the text says what to do.
fn reason(folder: &Path) -> DamageReason {
    let error = recover(folder).unwrap_err();
    assert_names_the_way_out(&error);
    let WalError::Damaged { reason, .. } = error else { panic!("{error}") };
    reason
}

#[test]
fn a_flipped_byte_in_the_middle_is_refused_with_the_way_to_rejoin() {
    let (folder, expected) = filled();
    let image = Image::of(folder.path());
    let work = TempDir::new().unwrap();
    image.restore_to(work.path());
    let (mut refused, mut harmless) = (0, 0);
    for (name, good) in image.segments() {
        let path = work.path().join(name);
        let end = end_of_written(good);
        for position in 0..end {
            // Half a dozen ways to be wrong, each byte meets one; zero, the worst, every other one.
            let pattern = [0, 0x01, 0, 0x80, 0, 0xFF][(position + position / 6) % 6];
            let mut bad = good.clone();
            bad[position] = if pattern == 0 { 0 } else { good[position] ^ pattern };
            if bad[position] == good[position] {
                bad[position] ^= 0x10;
            }
            fs::write(&path, &bad).unwrap();
            match recover(work.path()) {
                Ok(recovered) => {
                    assert!(
                        recovered == expected,
                        "{name}, byte {position} of {end}: {:?}",
                        indexes(&recovered)
                    );
                    harmless += 1;
                    image.restore_to(work.path());
                }
                Err(error) => {
                    assert_names_the_way_out(&error);
                    refused += 1;
                }
            }
        }
        fs::write(&path, good).unwrap();
    }
    // Harmless are the end marks alone: 8 to 15 bytes of each record, of at least 250 on average.
    assert!(refused > 8 * harmless, "{refused} refused, {harmless} harmless");
}

#[test]
fn a_flipped_byte_behind_the_last_group_changes_nothing() {
    let (folder, expected) = filled();
    let number = last_used(folder.path());
    let image = Image::of(folder.path());
    let path = segment(folder.path(), number);
    let end = end_of_written(&fs::read(&path).unwrap());
    for position in (end..SEGMENT_BYTES).step_by(61) {
        change(&path, |bytes| bytes[position] = 0xFF);
        match recover(folder.path()) {
            Ok(recovered) => assert!(recovered == expected, "byte {position}"),
            Err(error) => assert_names_the_way_out(&error),
        }
        image.restore_to(folder.path());
    }
}

#[test]
fn a_damaged_length_does_not_hide_what_follows() {
    let (folder, _) = filled();
    // The first record of the first segment; its length is at byte 8 of its header.
    change(&segment(folder.path(), 1), |bytes| {
        bytes[SEGMENT_HEADER + 8..SEGMENT_HEADER + 12].fill(0xFF);
    });
    assert_eq!(reason(folder.path()), DamageReason::BadRecord);
}

#[test]
fn a_damaged_last_group_is_not_taken_for_a_torn_one() {
    let folder = TempDir::new().unwrap();
    let wal = Wal::create(folder.path(), options()).unwrap();
    // Whole sectors of zeros, as an unwritten one would have.
    submit_and_wait(&wal, vec![Record::Entry { index: 1, bytes: vec![0; 3000] }]).unwrap();
    wal.close().unwrap();
    change(&segment(folder.path(), 1), |bytes| {
        let end = end_of_written(bytes);
        bytes[end - 100] ^= 1;
    });
    assert_eq!(reason(folder.path()), DamageReason::BadLastGroup);
}

#[test]
fn a_lost_end_of_a_segment_is_noticed_by_the_next_one() {
    let (folder, _) = filled();
    let last = last_used(folder.path());
    fs::remove_file(segment(folder.path(), last + 1)).unwrap();
    let path = segment(folder.path(), last - 1);
    let length = end_of_written(&fs::read(&path).unwrap());
    for start in [SEGMENT_HEADER, length - 600, length - 48] {
        change(&path, |bytes| bytes[start..].fill(0));
        assert_eq!(reason(folder.path()), DamageReason::BadRecord, "from {start}");
    }
}

#[test]
fn a_group_that_was_taken_out_is_missed() {
    let folder = TempDir::new().unwrap();
    let wal = Wal::create(folder.path(), options()).unwrap();
    let path = segment(folder.path(), 1);
    let mut ends = Vec::new();
    for vote in [b"one", b"two", b"thr"] {
        submit_and_wait(&wal, vec![Record::Vote(vote.to_vec())]).unwrap();
        ends.push(end_of_written(&fs::read(&path).unwrap()));
    }
    wal.close().unwrap();
    change(&path, |bytes| {
        bytes.copy_within(ends[1]..ends[2], ends[0]);
        bytes[ends[1]..].fill(0);
    });
    assert_eq!(reason(folder.path()), DamageReason::GroupGap { expected: 2, found: 3 });
}

#[test]
fn zeroed_sectors_before_the_last_group_are_refused() {
    let (folder, expected) = filled();
    let image = Image::of(folder.path());
    let (mut refused, mut harmless) = (0, 0);
    for number in 1..last_used(folder.path()) {
        let path = segment(folder.path(), number);
        let length = end_of_written(&fs::read(&path).unwrap());
        for start in (0..length).step_by(512) {
            for end in [start + 512, SEGMENT_BYTES] {
                change(&path, |bytes| bytes[start..end].fill(0));
                match recover(folder.path()) {
                    // Nothing but the end mark of the segment's last record was there.
                    Ok(recovered) => {
                        assert!(recovered == expected, "{start} to {end}");
                        harmless += 1;
                    }
                    Err(error) => {
                        assert_names_the_way_out(&error);
                        refused += 1;
                    }
                }
                image.restore_to(folder.path());
            }
        }
    }
    assert!(refused > 20 && harmless <= 2, "{refused} refused, {harmless} harmless");
}

#[test]
fn a_shortened_or_lengthened_segment_is_refused() {
    let (folder, _) = filled();
    let path = segment(folder.path(), last_used(folder.path()));
    let good = fs::read(&path).unwrap();
    for length in (0..good.len()).rev().step_by(127).chain([0]) {
        fs::write(&path, &good[..length]).unwrap();
        let reason = reason(folder.path());
        assert!(
            matches!(reason, DamageReason::SegmentSize { .. } | DamageReason::SegmentHeader),
            "{length}: {reason}"
        );
    }
    fs::write(&path, [good.as_slice(), &[0]].concat()).unwrap();
    let expected = DamageReason::SegmentSize { expected: good.len() as u64, found: good.len() as u64 + 1 };
    assert_eq!(reason(folder.path()), expected);
}

#[test]
fn a_missing_segment_is_noticed_whichever_it_is() {
    let (folder, _) = filled();
    let image = Image::of(folder.path());
    let last = last_used(folder.path());
    for number in 1..=last {
        fs::remove_file(segment(folder.path(), number)).unwrap();
        let reason = reason(folder.path());
        if number == 1 {
            assert_eq!(reason, DamageReason::EntriesMissing { first: 3, last: 7 });
        } else if number < last {
            assert_eq!(reason, DamageReason::SegmentMissing);
        }
        image.restore_to(folder.path());
    }
    // The last two: the one in use, and the one made ahead.
    fs::remove_file(segment(folder.path(), last)).unwrap();
    fs::remove_file(segment(folder.path(), last + 1)).unwrap();
    assert_eq!(reason(folder.path()), DamageReason::SegmentMissing);
}

#[test]
fn a_renamed_or_foreign_segment_is_refused() {
    let (folder, _) = filled();
    let image = Image::of(folder.path());
    fs::copy(segment(folder.path(), 1), segment(folder.path(), 2)).unwrap();
    assert_eq!(reason(folder.path()), DamageReason::SegmentName { found: 1 });
    image.restore_to(folder.path());
    fs::rename(segment(folder.path(), 2), folder.path().join("2.wal")).unwrap();
    assert_eq!(reason(folder.path()), DamageReason::NotASegment);
    image.restore_to(folder.path());
    let mut other = options();
    other.log_id += 1;
    let error = Wal::open(folder.path(), other).unwrap_err();
    assert!(matches!(error, WalError::Damaged { reason: DamageReason::ForeignSegment, .. }), "{error}");
}

#[test]
fn random_bytes_are_refused_without_a_panic() {
    use rand::{Rng, SeedableRng};
    let (folder, expected) = filled();
    let image = Image::of(folder.path());
    let mut random = rand::rngs::StdRng::seed_from_u64(1);
    for round in 0..200_usize {
        let number = 1 + round as u64 % last_used(folder.path());
        change(&segment(folder.path(), number), |bytes| {
            let start = round * 67 % bytes.len();
            let end = (start + 1 + round * 13 % 700).min(bytes.len());
            random.fill_bytes(&mut bytes[start..end]);
        });
        if let Ok(recovered) = recover(folder.path()) {
            assert!(recovered == expected, "round {round}: {:?}", indexes(&recovered));
        }
        image.restore_to(folder.path());
    }
}
