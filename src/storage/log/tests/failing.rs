//! Failed and stalled disks: nothing is acknowledged that the disk has not confirmed, and groups form while it works.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use super::*;
use crate::storage::log::state::LogState;
use crate::storage::log::{DamageReason, record, segment};

/// Which operation fails once the disk is broken.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Write,
    Sync,
}

/// Works until it is broken; then one kind of operation fails once, all others work.
struct FailingDisk {
    fault: Fault,
    kind: io::ErrorKind,
    broken: AtomicBool,
}

impl FailingDisk {
    fn new(fault: Fault, kind: io::ErrorKind) -> Arc<Self> {
        Arc::new(Self { fault, kind, broken: AtomicBool::new(false) })
    }

    fn break_now(&self) {
        self.broken.store(true, Ordering::SeqCst);
    }

    fn check(&self, operation: Fault) -> io::Result<()> {
        if operation == self.fault && self.broken.swap(false, Ordering::SeqCst) {
            return Err(self.kind.into());
        }
        Ok(())
    }
}

impl Disk for FailingDisk {
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check(Fault::Write)?;
        file.write_all_at(bytes, offset)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.check(Fault::Sync).and_then(
            |()| {
                if self.fault == Fault::Sync { Ok(()) } else { file.sync_data() }
            },
        )
    }
}

/// Stops in each sync until it is let go on.
struct StallingDisk {
    stalls: AtomicBool,
    entered: Mutex<Sender<()>>,
    go_on: Mutex<Receiver<()>>,
}

impl Disk for StallingDisk {
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        if self.stalls.load(Ordering::SeqCst) && file.metadata()?.len() == SEGMENT_BYTES as u64 {
            self.entered.lock().unwrap().send(()).unwrap();
            self.go_on.lock().unwrap().recv().unwrap();
        }
        file.sync_data()
    }
}

/// Waits until the next segment is there, so that the thread that makes it does not meet the fault.
fn await_prepared(folder: &Path) {
    while !segment::path(folder, 2).exists() {
        std::thread::yield_now();
    }
}

#[test]
fn a_failed_fsync_or_write_fails_every_submission_for_ever() {
    for fault in [Fault::Sync, Fault::Write] {
        let folder = TempDir::new().unwrap();
        let disk = FailingDisk::new(fault, io::ErrorKind::Other);
        let wal = create(disk.clone(), folder.path());
        submit_and_wait(&wal, vec![entry(1)]).unwrap();
        await_prepared(folder.path());
        disk.break_now();
        let outcomes: Vec<_> =
            (2..6).map(|index| submit(&wal, vec![entry(index)], Durability::Sync)).collect();
        for outcome in outcomes {
            assert!(matches!(outcome.recv().unwrap(), Err(WalError::Io { .. })));
        }
        // The disk works again: the log must not.
        for durability in [Durability::Sync, Durability::Lazy] {
            let later = submit(&wal, vec![Record::Vote(vec![1])], durability).recv().unwrap();
            assert!(matches!(later, Err(WalError::Io { .. })));
        }
        assert_eq!(wal.stats().records(), 1);
        assert!(matches!(wal.close(), Err(WalError::Io { .. })));
        assert_eq!(reopen(folder.path()).vote, None);
    }
}

#[test]
fn a_full_disk_acknowledges_nothing_and_loses_nothing() {
    let folder = TempDir::new().unwrap();
    let disk = FailingDisk::new(Fault::Write, io::ErrorKind::StorageFull);
    let wal = create(disk.clone(), folder.path());
    submit_and_wait(&wal, vec![entry(1)]).unwrap();
    await_prepared(folder.path());
    disk.break_now();
    let refused = submit_and_wait(&wal, vec![entry(2)]);
    assert!(matches!(refused, Err(WalError::DiskFull { .. })), "{refused:?}");
    assert!(matches!(submit_and_wait(&wal, vec![entry(2)]), Err(WalError::DiskFull { .. })));
    drop(wal);
    assert_eq!(indexes(&reopen(folder.path())), [1]);
}

#[test]
fn a_full_disk_while_preparing_is_reported_and_heals() {
    let folder = TempDir::new().unwrap();
    let disk = FailingDisk::new(Fault::Write, io::ErrorKind::StorageFull);
    let wal = create(disk.clone(), folder.path());
    // The second write is the preparation's: armed from the callback, before it is ordered.
    let armed = disk.clone();
    let (sender, done) = channel();
    let arm = move |result: Result<(), WalError>| {
        armed.break_now();
        sender.send(result).unwrap();
    };
    wal.submit(vec![entry(1)], Durability::Sync, Box::new(arm));
    done.recv().unwrap().unwrap();
    while disk.broken.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    let mut index = 2;
    while !wal.stats().low_on_space() {
        submit_and_wait(&wal, vec![Record::Vote(vec![])]).unwrap();
    }
    // The disk has space again: the log goes on over the end of the segment.
    while wal.stats().bytes() < 3 * SEGMENT_BYTES as u64 {
        submit_and_wait(&wal, vec![entry(index)]).unwrap();
        index += 1;
    }
    wal.close().unwrap();
    assert_eq!(indexes(&reopen(folder.path())), (1..index).collect::<Vec<_>>());
}

#[test]
fn what_waits_while_an_fsync_runs_shares_the_next_one() {
    let folder = TempDir::new().unwrap();
    let (entered_in, entered) = channel();
    let (go_on, go_on_out) = channel();
    let disk = Arc::new(StallingDisk {
        stalls: AtomicBool::new(false),
        entered: Mutex::new(entered_in),
        go_on: Mutex::new(go_on_out),
    });
    let wal = create(disk.clone(), folder.path());
    disk.stalls.store(true, Ordering::SeqCst);
    let first = submit(&wal, vec![entry(1)], Durability::Sync);
    entered.recv().unwrap();
    let order = Arc::new(AtomicUsize::new(0));
    let (sender, outcomes) = channel();
    for index in 2..12 {
        let (order, sender) = (order.clone(), sender.clone());
        let done = move |result: Result<(), WalError>| {
            result.unwrap();
            sender.send((order.fetch_add(1, Ordering::SeqCst) as u64, index)).unwrap();
        };
        wal.submit(vec![entry(index)], Durability::Sync, Box::new(done));
    }
    assert!(first.try_recv().is_err(), "acknowledged before the fsync has returned");
    disk.stalls.store(false, Ordering::SeqCst);
    go_on.send(()).unwrap();
    for place in 0..10 {
        assert_eq!(outcomes.recv().unwrap(), (place, place + 2), "callbacks come in the order of submission");
    }
    let stats = wal.stats();
    assert_eq!((stats.groups(), stats.records(), stats.syncs()), (2, 11, 2));
}

#[test]
fn a_lazy_record_costs_no_fsync_and_keeps_its_place() {
    let folder = TempDir::new().unwrap();
    let syncs = Arc::new(AtomicUsize::new(0));
    let counter = syncs.clone();
    let on_sync: super::super::SyncObserver = Box::new(move |_took, records| {
        counter.fetch_add(records, Ordering::SeqCst);
    });
    let wal = Wal::create(folder.path(), WalOptions { on_sync: Some(on_sync), ..options() }).unwrap();
    submit(&wal, vec![Record::Committed(b"1".to_vec())], Durability::Lazy).recv().unwrap().unwrap();
    submit(&wal, vec![Record::Committed(b"2".to_vec())], Durability::Lazy).recv().unwrap().unwrap();
    assert_eq!(wal.stats().syncs(), 0);
    submit_and_wait(&wal, vec![entry(1)]).unwrap();
    assert_eq!((wal.stats().syncs(), syncs.load(Ordering::SeqCst)), (1, 3));
    submit(&wal, vec![Record::Committed(b"3".to_vec())], Durability::Lazy).recv().unwrap().unwrap();
    wal.close().unwrap();
    let recovered = reopen(folder.path());
    assert_eq!((recovered.committed, recovered.group), (Some(b"3".to_vec()), 2));
}

#[test]
fn a_vote_is_durable_before_the_entry_submitted_after_it() {
    let folder = TempDir::new().unwrap();
    let wal = create(Arc::new(super::super::SystemDisk), folder.path());
    let vote = submit(&wal, vec![Record::Vote(b"vote".to_vec())], Durability::Sync);
    let append = submit(&wal, vec![entry(1)], Durability::Sync);
    append.recv().unwrap().unwrap();
    assert!(matches!(vote.try_recv(), Ok(Ok(()))), "the vote is answered first");
    drop(wal);
    // In whichever group they were written: without the vote's bytes, the entry does not count.
    let path = segment::path(folder.path(), 1);
    let mut bytes = std::fs::read(&path).unwrap();
    let checkpoint = record::encoded_len(LogState::default().encode().len());
    bytes[segment::SEGMENT_HEADER + checkpoint + record::RECORD_HEADER] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let error = Wal::open(folder.path(), options()).unwrap_err();
    assert!(
        matches!(&error, WalError::Damaged { reason, .. }
            if matches!(reason, DamageReason::BadRecord | DamageReason::BadLastGroup)),
        "{error}"
    );
}

#[test]
fn a_log_whose_thread_has_died_still_answers() {
    let folder = TempDir::new().unwrap();
    let wal = create(Arc::new(super::super::SystemDisk), folder.path());
    wal.submit(vec![entry(1)], Durability::Sync, Box::new(|_| panic!("planted: a callback that panics")));
    let outcome = submit_and_wait(&wal, vec![entry(2)]);
    assert!(matches!(outcome, Err(WalError::Closed)));
    assert!(matches!(wal.close(), Err(WalError::Closed)));
    assert_eq!(indexes(&reopen(folder.path())).first(), Some(&1));
}

#[test]
fn a_log_owned_by_its_own_callback_can_be_dropped_there() {
    let folder = TempDir::new().unwrap();
    let wal = Arc::new(create(Arc::new(super::super::SystemDisk), folder.path()));
    let (sender, done) = channel();
    let owned = wal.clone();
    let keep = move |result: Result<(), WalError>| {
        while Arc::strong_count(&owned) > 1 {
            std::thread::yield_now();
        }
        drop(owned);
        sender.send(result).unwrap();
    };
    wal.submit(vec![entry(1)], Durability::Sync, Box::new(keep));
    drop(wal);
    done.recv().unwrap().unwrap();
}
