//! A disk that forgets what it failed to sync.
//!
//! Linux shows the bytes of a failed write-back to every reader until the page is dropped, but counts them as
//! written: a second fsync succeeds and writes nothing. So a process that starts again after a failed fsync reads
//! records that are not on the disk. The log must write again what it reports, or a node could answer from records
//! that the next power cut takes away.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

use super::*;
use crate::storage::log::segment;

/// The files themselves play the page cache.
#[derive(Default)]
struct ForgetfulDisk {
    state: Mutex<State>,
    fails_once: AtomicBool,
}

#[derive(Default)]
struct State {
    /// By inode: what is on the disk.
    durable: HashMap<u64, Vec<u8>>,
    /// Writes that no sync has seen: inode, offset, bytes.
    dirty: Vec<(u64, usize, Vec<u8>)>,
}

impl ForgetfulDisk {
    /// The folder after a power cut.
    fn after_power_cut(&self, folder: &Path) -> TempDir {
        let image = TempDir::new().unwrap();
        for (path, inode) in files(folder) {
            let bytes = self.state.lock().unwrap().durable.get(&inode).cloned().unwrap_or_default();
            fs::write(image.path().join(path.file_name().unwrap()), bytes).unwrap();
        }
        image
    }
}

fn files(folder: &Path) -> Vec<(std::path::PathBuf, u64)> {
    let paths = fs::read_dir(folder).unwrap().map(|item| item.unwrap().path());
    paths.map(|path| (path.clone(), fs::metadata(path).unwrap().ino())).collect()
}

impl Disk for ForgetfulDisk {
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let place = (file.metadata()?.ino(), usize::try_from(offset).unwrap(), bytes.to_vec());
        self.state.lock().unwrap().dirty.push(place);
        file.write_all_at(bytes, offset)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        let synced = file.metadata()?.ino();
        let mut state = self.state.lock().unwrap();
        let State { durable, dirty } = &mut *state;
        let fails = self.fails_once.swap(false, Ordering::SeqCst);
        dirty.retain(|(inode, offset, bytes)| {
            if *inode == synced && !fails {
                let contents = durable.entry(synced).or_default();
                contents.resize(contents.len().max(offset + bytes.len()), 0);
                contents[*offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            *inode != synced
        });
        if fails { Err(io::Error::other("planted: the write-back failed")) } else { Ok(()) }
    }
}

#[test]
fn what_a_failed_fsync_left_in_memory_is_on_the_disk_before_it_is_reported() {
    let folder = TempDir::new().unwrap();
    let disk = Arc::new(ForgetfulDisk::default());
    let wal = create(disk.clone(), folder.path());
    submit_and_wait(&wal, vec![entry(1)]).unwrap();
    while !segment::path(folder.path(), 2).exists() {
        std::thread::yield_now();
    }
    disk.fails_once.store(true, Ordering::SeqCst);
    submit_and_wait(&wal, vec![entry(2)]).unwrap_err();
    drop(wal);
    assert_eq!(indexes(&reopen(disk.after_power_cut(folder.path()).path())), [1]);
    let (wal, reported) = Wal::open_on(disk.clone(), folder.path(), options()).unwrap();
    assert_eq!(indexes(&reported), [1, 2]);
    assert_eq!(reopen(disk.after_power_cut(folder.path()).path()), reported);
    drop(wal);
}

#[test]
fn a_torn_tail_is_gone_from_the_disk_before_the_log_is_used() {
    let folder = TempDir::new().unwrap();
    let disk = Arc::new(ForgetfulDisk::default());
    let wal = create(disk.clone(), folder.path());
    submit_and_wait(&wal, vec![entry(1)]).unwrap();
    drop(wal);
    let path = segment::path(folder.path(), 1);
    let clean = fs::read(&path).unwrap();
    let mut torn = clean.clone();
    torn[3000..3100].fill(0x11);
    fs::write(&path, &torn).unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    disk.state.lock().unwrap().durable.insert(inode, torn);
    let (wal, recovered) = Wal::open_on(disk.clone(), folder.path(), options()).unwrap();
    assert_eq!(indexes(&recovered), [1]);
    assert!(disk.state.lock().unwrap().durable[&inode] == clean);
    drop(wal);
}
