//! The log on disks that fail, stall, and lose their power. What needs no such disk is tested from outside, in
//! `tests/storage`.

mod failing;
mod forgetful;
mod power;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use super::disk::Disk;
use super::{Durability, Record, Recovered, Wal, WalError, WalOptions};

const LOG_ID: u64 = 0x5EED;
const SEGMENT_BYTES: usize = 4096;

fn options() -> WalOptions {
    WalOptions { segment_bytes: SEGMENT_BYTES, ..WalOptions::new(LOG_ID) }
}

fn create(disk: Arc<dyn Disk>, folder: &Path) -> Wal {
    Wal::create_on(disk, folder, options()).unwrap()
}

fn reopen(folder: &Path) -> Recovered {
    let (wal, recovered) = Wal::open(folder, options()).unwrap();
    wal.close().unwrap();
    recovered
}

fn entry(index: u64) -> Record {
    Record::Entry { index, bytes: format!("entry {index}").into_bytes() }
}

/// Submits and returns where the outcome will come.
fn submit(wal: &Wal, records: Vec<Record>, durability: Durability) -> mpsc::Receiver<Result<(), WalError>> {
    let (sender, outcome) = mpsc::channel();
    wal.submit(records, durability, Box::new(move |result| sender.send(result).unwrap()));
    outcome
}

fn submit_and_wait(wal: &Wal, records: Vec<Record>) -> Result<(), WalError> {
    submit(wal, records, Durability::Sync).recv().unwrap()
}

fn indexes(recovered: &Recovered) -> Vec<u64> {
    recovered.entries.iter().map(|(index, _)| *index).collect()
}
