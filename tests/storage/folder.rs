//! Opening and creating: what else may be in the folder, who else may use it, what the log refuses to take.

use std::fs;

use ringfence::storage::lock::LockError;
use ringfence::storage::log::{MAX_META_BYTES, Record, Recovered, Wal, WalError};
use tempfile::TempDir;

use crate::support::{Image, SEGMENT_BYTES, entry, indexes, options, recover, segment, submit_and_wait};

fn created() -> (TempDir, Wal) {
    let folder = TempDir::new().unwrap();
    let wal = Wal::create(folder.path(), options()).unwrap();
    (folder, wal)
}

#[test]
fn a_log_that_has_vanished_is_missing_not_empty() {
    let folder = TempDir::new().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("absent")] {
        let error = Wal::open(&path, options()).unwrap_err();
        assert!(matches!(error, WalError::Missing { .. }));
        assert!(error.to_string().contains("rejoin the cluster under a new node id"));
        assert!(!path.join("absent").exists());
    }
}

#[test]
fn a_log_is_created_once_but_an_unfinished_creation_can_be_repeated() {
    let (folder, wal) = created();
    drop(wal);
    let wal = Wal::create(folder.path(), options()).unwrap();
    submit_and_wait(&wal, vec![entry(1, 10)]).unwrap();
    drop(wal);
    let error = Wal::create(folder.path(), options()).unwrap_err();
    assert!(matches!(error, WalError::AlreadyStarted { .. }));
    assert_eq!(indexes(&recover(folder.path()).unwrap()), [1]);
}

#[test]
fn a_log_without_records_opens_empty() {
    let (folder, wal) = created();
    drop(wal);
    assert_eq!(recover(folder.path()).unwrap(), Recovered::default());
}

#[test]
fn a_second_opener_is_told_that_the_folder_is_in_use() {
    let (folder, wal) = created();
    for second in
        [Wal::open(folder.path(), options()).map(|_| ()), Wal::create(folder.path(), options()).map(drop)]
    {
        assert!(matches!(second, Err(WalError::Lock(LockError::InUse { .. }))), "{second:?}");
    }
    wal.close().unwrap();
    recover(folder.path()).unwrap();
}

#[test]
fn leftovers_are_removed_and_foreign_files_left_alone() {
    let (folder, wal) = created();
    submit_and_wait(&wal, vec![entry(1, 10)]).unwrap();
    wal.close().unwrap();
    let leftover = folder.path().join("0000000000000002.tmp");
    let foreign = folder.path().join("notes.txt");
    fs::write(&leftover, "half a segment").unwrap();
    fs::write(&foreign, "not ours").unwrap();
    assert_eq!(indexes(&recover(folder.path()).unwrap()), [1]);
    assert!(!leftover.exists());
    assert!(foreign.exists());
}

#[test]
fn an_unknown_format_is_refused_and_named() {
    let (folder, wal) = created();
    wal.close().unwrap();
    let path = segment(folder.path(), 1);
    let mut bytes = fs::read(&path).unwrap();
    bytes[8..12].copy_from_slice(&2_u32.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..508]);
    bytes[508..512].copy_from_slice(&crc.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let error = recover(folder.path()).unwrap_err();
    assert!(matches!(error, WalError::UnknownFormat { found: 2, known: 1, .. }));
    assert!(error.to_string().contains("start the version that wrote it"));
}

#[test]
fn purged_segments_are_removed_and_the_rest_stays_readable() {
    let (folder, wal) = created();
    submit_and_wait(&wal, vec![Record::Vote(b"vote".to_vec())]).unwrap();
    for index in 1..=100 {
        submit_and_wait(&wal, vec![entry(index, 300)]).unwrap();
    }
    assert!(Image::of(folder.path()).segments().count() > 8);
    submit_and_wait(&wal, vec![Record::Purge { upto_index: 95, bytes: b"95".to_vec() }]).unwrap();
    wal.close().unwrap();
    assert!(Image::of(folder.path()).segments().count() <= 3);
    let recovered = recover(folder.path()).unwrap();
    assert_eq!(indexes(&recovered), [96, 97, 98, 99, 100]);
    assert_eq!((recovered.vote, recovered.purged), (Some(b"vote".to_vec()), Some((95, b"95".to_vec()))));
}

#[test]
fn a_submission_larger_than_a_segment_gets_its_own() {
    let (folder, wal) = created();
    submit_and_wait(&wal, vec![entry(1, 10 * SEGMENT_BYTES), entry(2, SEGMENT_BYTES)]).unwrap();
    submit_and_wait(&wal, vec![entry(3, 10)]).unwrap();
    submit_and_wait(&wal, vec![entry(4, 3 * SEGMENT_BYTES)]).unwrap();
    wal.close().unwrap();
    let recovered = recover(folder.path()).unwrap();
    assert_eq!(indexes(&recovered), [1, 2, 3, 4]);
    assert_eq!(recovered.entries[0].1.len(), 10 * SEGMENT_BYTES);
}

#[test]
fn what_does_not_fit_the_log_is_refused_whole_and_leaves_it_usable() {
    let (folder, wal) = created();
    submit_and_wait(&wal, vec![entry(1, 10)]).unwrap();
    let gap = submit_and_wait(&wal, vec![Record::Vote(b"no".to_vec()), entry(2, 10), entry(4, 10)]);
    assert!(matches!(gap, Err(WalError::OutOfOrder { expected: Some(3), found: 4 })), "{gap:?}");
    let large = submit_and_wait(&wal, vec![Record::Vote(vec![0; MAX_META_BYTES + 1])]);
    assert!(matches!(large, Err(WalError::TooLarge { .. })), "{large:?}");
    submit_and_wait(&wal, vec![entry(2, 10)]).unwrap();
    wal.close().unwrap();
    let recovered = recover(folder.path()).unwrap();
    assert_eq!((indexes(&recovered), recovered.vote), (vec![1, 2], None));
}
