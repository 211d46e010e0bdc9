//! File operations that hold after a power cut.
//!
//! A new name, a rename and a removal are durable only once the *folder* was synced; contents only once the file
//! was. Everything here returns after both.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// How a file is named until it is complete. Files with this suffix are leftovers after a crash.
pub(crate) const UNFINISHED_SUFFIX: &str = ".tmp";

/// Makes names created, renamed or removed in `folder` durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Creates `folder` and its missing parents, durably.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let parent = parent_of(folder);
    create_folder(parent)?;
    match fs::create_dir(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    sync_folder(parent)
}

/// Replaces `folder/name` by a file with `contents`: a reader sees the old or the new contents, whole.
pub(crate) fn replace_file(folder: &Path, name: &str, contents: &[u8]) -> io::Result<()> {
    let unfinished = folder.join(format!("{name}{UNFINISHED_SUFFIX}"));
    let mut file = File::create(&unfinished)?;
    file.write_all(contents)?;
    file.sync_all()?;
    fs::rename(&unfinished, folder.join(name))?;
    sync_folder(folder)
}

/// Removes what a crash left unfinished in `folder`. Returns how many files that were.
pub(crate) fn remove_unfinished(folder: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for name in file_names(folder)? {
        if name.ends_with(UNFINISHED_SUFFIX) {
            fs::remove_file(folder.join(name))?;
            removed += 1;
        }
    }
    if removed > 0 {
        sync_folder(folder)?;
    }
    Ok(removed)
}

/// The names in `folder`, sorted. A name that is not UTF-8 is shown with replacement characters: none of ours is.
pub(crate) fn file_names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for item in fs::read_dir(folder)? {
        names.push(item?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

/// Whether the disk, or this user's share of it, is full.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn parent_of(folder: &Path) -> &Path {
    match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
