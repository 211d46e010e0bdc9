//! The two operations that decide whether a record is durable, as a seam for the tests.
//!
//! Real disks fail too rarely to be tested with: [`Disk`] has one implementation that works and, in the tests, some
//! that fail, stall or forget.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How bytes get into a segment file.
pub(super) trait Disk: Send + Sync {
    /// Writes all of `bytes` at `offset`. Durable only after [`Disk::sync`].
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Returns when everything written to `file` is on the disk. After an error nothing is known about what is.
    fn sync(&self, file: &File) -> io::Result<()>;
}

/// The system's files.
pub(super) struct SystemDisk;

impl Disk for SystemDisk {
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }
}
