//! Snapshots: whole and verified, or refused.

use std::fs;
use std::io::{Read, Write};

use ringfence::storage::snapshot::{BLOCK_BYTES, SnapshotDamage, SnapshotError, SnapshotFile, SnapshotStore};
use tempfile::TempDir;

fn store() -> (TempDir, SnapshotStore) {
    let folder = TempDir::new().unwrap();
    let store = SnapshotStore::open(folder.path()).unwrap();
    (folder, store)
}

fn data(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place % 251) as u8).collect()
}

fn names(folder: &TempDir) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|item| item.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

fn assert_damaged(file: &SnapshotFile, what: &str) {
    let error = file.verify().expect_err(what);
    let text = error.to_string();
    assert!(matches!(error, SnapshotError::Damaged { .. }), "{what}: {text}");
    assert!(text.contains(file.path.to_str().unwrap()), "{text}");
    assert!(
        text.contains("wipe this node's data folder and rejoin the cluster under a new node id"),
        "{text}"
    );
}

#[test]
fn a_snapshot_round_trips_at_every_size_around_a_block() {
    let (_folder, store) = store();
    for (index, length) in
        (1..).zip([0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 2 * BLOCK_BYTES, 300_001])
    {
        let file = store.write(index, "T1-N2", b"meta", &data(length)).unwrap();
        let latest = store.latest().unwrap().unwrap();
        assert_eq!((&latest.file, latest.file.index), (&file, index));
        assert_eq!((latest.meta.as_slice(), latest.data_len), (b"meta".as_slice(), length as u64));
        assert_eq!(file.read().unwrap(), data(length));
        let mut streamed = Vec::new();
        file.open().unwrap().read_to_end(&mut streamed).unwrap();
        assert_eq!(streamed, data(length));
    }
}

#[test]
fn a_streamed_snapshot_exists_only_when_finished() {
    let (folder, store) = store();
    let mut writer = store.writer(7, "from-peer", b"meta").unwrap();
    for chunk in data(200_000).chunks(777) {
        writer.write_all(chunk).unwrap();
    }
    assert_eq!(store.latest().unwrap(), None);
    let file = writer.finish().unwrap();
    assert_eq!(file.read().unwrap(), data(200_000));
    let mut abandoned = store.writer(8, "from-peer", b"meta").unwrap();
    abandoned.write_all(&data(200_000)).unwrap();
    drop(abandoned);
    assert_eq!(store.latest().unwrap().unwrap().file, file);
    assert_eq!(names(&folder).len(), 1);
}

#[test]
fn an_unfinished_snapshot_is_ignored_and_removed() {
    let (folder, store) = store();
    let file = store.write(7, "a", b"", &data(10)).unwrap();
    let mut unfinished = store.writer(8, "b", b"").unwrap();
    unfinished.write_all(&data(BLOCK_BYTES + 1)).unwrap();
    // As after a kill: the writer never runs to its end.
    std::mem::forget(unfinished);
    assert_eq!(names(&folder).len(), 2);
    let store = SnapshotStore::open(folder.path()).unwrap();
    assert_eq!(names(&folder).len(), 1);
    assert_eq!(store.latest().unwrap().unwrap().file, file);
}

#[test]
fn the_two_newest_are_kept() {
    let (_folder, store) = store();
    for index in [5, 100, 20, 1000] {
        store.write(index, "x", b"", &data(10)).unwrap();
    }
    let kept: Vec<_> = store.list().unwrap().into_iter().map(|file| file.index).collect();
    assert_eq!(kept, [1000, 100]);
}

#[test]
fn any_changed_byte_is_refused() {
    let (_folder, store) = store();
    // Small blocks are not to be had: the places where the kinds of bytes meet, and a sample of the rest.
    let file = store.write(7, "x", b"some meta", &data(2 * BLOCK_BYTES + 100)).unwrap();
    let good = fs::read(&file.path).unwrap();
    let edges = [0, 32, 41, 49, 41 + BLOCK_BYTES, 57 + BLOCK_BYTES, good.len() - 28, good.len()];
    let near_edges = edges.into_iter().flat_map(|edge| edge.saturating_sub(50)..(edge + 50).min(good.len()));
    for position in near_edges.chain((0..good.len()).step_by(1009)) {
        for pattern in [0x01, 0xFF] {
            let mut bad = good.clone();
            bad[position] ^= pattern;
            fs::write(&file.path, bad).unwrap();
            assert_damaged(&file, &format!("byte {position}"));
            assert!(store.latest().is_err());
        }
    }
}

#[test]
fn a_shortened_or_lengthened_snapshot_is_refused() {
    let (_folder, store) = store();
    let file = store.write(7, "x", b"meta", &data(BLOCK_BYTES + 100)).unwrap();
    let good = fs::read(&file.path).unwrap();
    for length in (0..good.len()).step_by(97).chain(good.len() - 30..good.len()) {
        fs::write(&file.path, &good[..length]).unwrap();
        assert_damaged(&file, &format!("{length} bytes"));
    }
    fs::write(&file.path, [good.as_slice(), b"x"].concat()).unwrap();
    let error = file.read().unwrap_err();
    assert!(matches!(error, SnapshotError::Damaged { reason: SnapshotDamage::Trailing, .. }));
}

#[test]
fn blocks_in_another_order_are_refused() {
    let (_folder, store) = store();
    let file = store.write(7, "x", b"", &data(2 * BLOCK_BYTES)).unwrap();
    let good = fs::read(&file.path).unwrap();
    let (first, second) = (32, 32 + 8 + BLOCK_BYTES);
    let end = second + 8 + BLOCK_BYTES;
    let swapped = [&good[..first], &good[second..end], &good[first..second], &good[end..]].concat();
    fs::write(&file.path, swapped).unwrap();
    assert_damaged(&file, "swapped");
}

#[test]
fn a_damaged_newest_snapshot_is_not_passed_over_for_an_older_one() {
    let (_folder, store) = store();
    store.write(7, "x", b"", &data(10)).unwrap();
    let newest = store.write(8, "x", b"", &data(10)).unwrap();
    fs::write(&newest.path, b"").unwrap();
    assert!(matches!(store.latest(), Err(SnapshotError::Damaged { .. })));
}

#[test]
fn a_renamed_snapshot_and_an_unknown_format_are_refused() {
    let (folder, store) = store();
    let file = store.write(7, "x", b"", &data(10)).unwrap();
    let renamed = folder.path().join(file.path.file_name().unwrap().to_str().unwrap().replace("07-", "08-"));
    fs::copy(&file.path, renamed).unwrap();
    let error = store.latest().unwrap_err();
    assert!(matches!(error, SnapshotError::Damaged { reason: SnapshotDamage::Name { found: 7 }, .. }));
    let mut bytes = fs::read(&file.path).unwrap();
    bytes[8..12].copy_from_slice(&2_u32.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..28]);
    bytes[28..32].copy_from_slice(&crc.to_le_bytes());
    fs::write(&file.path, bytes).unwrap();
    let error = file.verify().unwrap_err();
    assert!(matches!(error, SnapshotError::UnknownFormat { found: 2, known: 1, .. }));
}
