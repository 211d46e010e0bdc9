//! The file in which the command finds the newest grant.
use crate::{cli::local::write_private, ids};
use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// A file for its owner's eyes only, in a folder of its own. Both are removed when dropped.
pub(super) struct GrantFile {
    folder: PathBuf,
    file: PathBuf,
}

impl GrantFile {
    /// Makes folder and file.
    ///
    /// # Errors
    /// Where the folder for temporary files can't be written.
    pub(super) fn create(grant: &str) -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("ringfence-{:032x}", ids::ulid_bits()));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let made = Self { file: folder.join("grant"), folder };
        made.write(grant)?;
        Ok(made)
    }

    pub(super) fn path(&self) -> &Path {
        &self.file
    }

    /// Replaces the grant: a reader sees the old one or the new one, whole.
    ///
    /// # Errors
    /// Where the file can't be written.
    pub(super) fn write(&self, grant: &str) -> io::Result<()> {
        write_private(&self.file, grant.as_bytes())
    }
}

impl Drop for GrantFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "a temporary folder can't be removed");
        }
    }
}
