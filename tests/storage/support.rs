//! Opening, filling and copying logs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use ringfence::storage::log::{Durability, Record, Recovered, Wal, WalError, WalOptions};
use tempfile::TempDir;

pub(crate) const LOG_ID: u64 = 0x1EA5_E000_0001;
pub(crate) const SEGMENT_BYTES: usize = 4096;

/// Small segments, so that a short log has several.
pub(crate) fn options() -> WalOptions {
    WalOptions { segment_bytes: SEGMENT_BYTES, ..WalOptions::new(LOG_ID) }
}

pub(crate) fn entry(index: u64, length: usize) -> Record {
    // Contents that differ from entry to entry and have runs of zeros in them.
    let bytes =
        (0..length).map(|place| if place % 7 < 3 { (place as u64 * index) as u8 } else { 0 }).collect();
    Record::Entry { index, bytes }
}

pub(crate) fn submit_and_wait(wal: &Wal, records: Vec<Record>) -> Result<(), WalError> {
    let (sender, outcome) = mpsc::channel();
    wal.submit(records, Durability::Sync, Box::new(move |result| sender.send(result).unwrap()));
    outcome.recv().unwrap()
}

/// Opens the log, closes it again, and returns what it held.
pub(crate) fn recover(folder: &Path) -> Result<Recovered, WalError> {
    let (wal, recovered) = Wal::open(folder, options())?;
    wal.close().unwrap();
    Ok(recovered)
}

pub(crate) fn indexes(recovered: &Recovered) -> Vec<u64> {
    recovered.entries.iter().map(|(index, _)| *index).collect()
}

pub(crate) fn segment(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:016}.wal"))
}

/// A folder's files with their contents.
#[derive(Clone)]
pub(crate) struct Image(pub(crate) Vec<(String, Vec<u8>)>);

impl Image {
    pub(crate) fn of(folder: &Path) -> Self {
        let mut files: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|item| {
                let path = item.unwrap().path();
                (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap())
            })
            .collect();
        files.sort_unstable();
        Self(files)
    }

    /// The segments' names and contents, ascending.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &(String, Vec<u8>)> {
        self.0.iter().filter(|(name, _)| name.ends_with(".wal"))
    }

    pub(crate) fn restore(&self) -> TempDir {
        let folder = TempDir::new().unwrap();
        self.restore_to(folder.path());
        folder
    }

    /// Makes `folder` hold exactly this image.
    pub(crate) fn restore_to(&self, folder: &Path) {
        for item in fs::read_dir(folder).unwrap() {
            fs::remove_file(item.unwrap().path()).unwrap();
        }
        for (name, bytes) in &self.0 {
            fs::write(folder.join(name), bytes).unwrap();
        }
    }
}

/// Refused as damage, with the file and the way out in its text.
pub(crate) fn assert_names_the_way_out(error: &WalError) {
    let text = error.to_string();
    assert!(matches!(error, WalError::Damaged { .. }), "{text}");
    assert!(text.contains(".wal"), "{text}");
    assert!(
        text.contains("wipe this node's data folder and rejoin the cluster under a new node id"),
        "{text}"
    );
}
