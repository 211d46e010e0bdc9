//! Who this node is: the file `node.json` in its data folder.
//!
//! **Owns** that file alone. **Guarantees** that a reader sees the last saved identity whole, and that a folder from
//! which it has vanished is never taken for a new node's. **Must not** invent ids: the caller draws them.
//!
//! It is JSON so that a person can read it, with a checksum so that a person's edit is noticed: the ids in it are part
//! of the cluster's membership.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::durable::{self, UNFINISHED_SUFFIX};
use super::lock::LOCK_FILE;

/// The name of the identity file.
pub const IDENTITY_FILE: &str = "node.json";

const FORMAT: u32 = 1;
/// What an empty file system may hold by itself.
const MOUNT_POINT_FOLDER: &str = "lost+found";

/// Who a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The cluster that the node belongs to; `None` until it has joined or started one.
    pub cluster_id: Option<String>,
    /// The life of the cluster that it belongs to; a restore from a backup begins another one.
    pub incarnation: Option<String>,
    /// The node's number in the cluster. Never used again once its folder was wiped.
    pub node_id: u64,
    /// A random id of this data folder, part of the membership: peers refuse a node whose folder was replaced.
    pub storage_id: String,
    /// The log was started: from now on its absence is damage.
    pub log_started: bool,
}

/// Why an identity could not be loaded or saved.
#[derive(Debug, Clone, Error)]
pub enum IdentityError {
    /// Other files are there, the identity is not.
    #[error(
        "{} is partly missing: it holds {found:?} but no {IDENTITY_FILE}; restore the folder if it was moved or not \
         mounted, else wipe it and rejoin the cluster under a new node id",
        folder.display()
    )]
    PartlyMissing {
        /// The data folder.
        folder: PathBuf,
        /// One of the files that are there.
        found: String,
    },
    /// The file was changed by something else than this program.
    #[error(
        "{} is damaged: {reason}; wipe this node's data folder and rejoin the cluster under a new node id",
        file.display()
    )]
    Damaged {
        /// The identity file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file was written by another version.
    #[error("{} has format {found}, this version knows {known}: start the version that wrote it", file.display())]
    UnknownFormat {
        /// The identity file.
        file: PathBuf,
        /// Its format number.
        found: u64,
        /// The only number this version reads.
        known: u32,
    },
    /// The system refused a file operation.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
}

/// The file's contents.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: u32,
    cluster_id: Option<String>,
    incarnation: Option<String>,
    node_id: u64,
    storage_id: String,
    log_started: bool,
    /// CRC32C, in hexadecimal, of the same document without white space and with an empty checksum.
    checksum: String,
}

impl Identity {
    /// The identity in `folder`; `None` if the folder is empty or does not exist, so that the node is new.
    pub fn load(folder: &Path) -> Result<Option<Self>, IdentityError> {
        let file = folder.join(IDENTITY_FILE);
        match fs::read(&file) {
            Ok(bytes) => parse(&file, &bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => expect_empty(folder).map(|()| None),
            Err(error) => Err(failed("read", &file, error)),
        }
    }

    /// Replaces the identity in `folder`, which is made if it does not exist. Durable on return.
    pub fn save(&self, folder: &Path) -> Result<(), IdentityError> {
        durable::create_folder(folder).map_err(|error| failed("create", folder, error))?;
        let mut document = self.document();
        document.checksum = checksum(&document);
        let mut bytes = serde_json::to_vec_pretty(&document)
            .expect("strings, numbers and booleans are always valid JSON");
        bytes.push(b'\n');
        durable::replace_file(folder, IDENTITY_FILE, &bytes)
            .map_err(|error| failed("replace", &folder.join(IDENTITY_FILE), error))
    }

    /// A number for the log of this storage (see [`WalOptions::log_id`](super::log::WalOptions::log_id)): a hash
    /// (FNV-1a) of `storage_id`. As long as that is random, two storages don't share it.
    pub fn log_id(&self) -> u64 {
        self.storage_id
            .bytes()
            .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
    }

    fn document(&self) -> Document {
        Document {
            format: FORMAT,
            cluster_id: self.cluster_id.clone(),
            incarnation: self.incarnation.clone(),
            node_id: self.node_id,
            storage_id: self.storage_id.clone(),
            log_started: self.log_started,
            checksum: String::new(),
        }
    }
}

fn checksum(document: &Document) -> String {
    let unsigned = Document {
        checksum: String::new(),
        cluster_id: document.cluster_id.clone(),
        incarnation: document.incarnation.clone(),
        storage_id: document.storage_id.clone(),
        ..*document
    };
    let bytes = serde_json::to_vec(&unsigned).expect("strings, numbers and booleans are always valid JSON");
    format!("{:08x}", crc32c::crc32c(&bytes))
}

fn parse(file: &Path, bytes: &[u8]) -> Result<Identity, IdentityError> {
    let damaged = |reason: String| IdentityError::Damaged { file: file.to_owned(), reason };
    let value: serde_json::Value =
        serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    let found = value.get("format").and_then(serde_json::Value::as_u64);
    let found = found.ok_or_else(|| damaged("it has no format number".into()))?;
    if found != u64::from(FORMAT) {
        return Err(IdentityError::UnknownFormat { file: file.to_owned(), found, known: FORMAT });
    }
    // Once more from the bytes: a value has already lost members that occur twice.
    let document: Document = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    let expected = checksum(&document);
    if document.checksum != expected {
        return Err(damaged(format!("its checksum is {}, should be {expected}", document.checksum)));
    }
    Ok(Identity {
        cluster_id: document.cluster_id,
        incarnation: document.incarnation,
        node_id: document.node_id,
        storage_id: document.storage_id,
        log_started: document.log_started,
    })
}

/// Fails if `folder` holds anything but what is there before a node's first save.
fn expect_empty(folder: &Path) -> Result<(), IdentityError> {
    let names = match durable::file_names(folder) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("list", folder, error)),
    };
    let unfinished = format!("{IDENTITY_FILE}{UNFINISHED_SUFFIX}");
    let harmless = [LOCK_FILE, MOUNT_POINT_FOLDER, unfinished.as_str()];
    match names.into_iter().find(|name| !harmless.contains(&name.as_str())) {
        Some(found) => Err(IdentityError::PartlyMissing { folder: folder.to_owned(), found }),
        None => Ok(()),
    }
}

fn failed(action: &'static str, path: &Path, error: io::Error) -> IdentityError {
    IdentityError::Io { action, path: path.to_owned(), source: Arc::new(error) }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn identity() -> Identity {
        Identity {
            cluster_id: Some("01J-cluster".into()),
            incarnation: None,
            node_id: 3,
            storage_id: "01J-storage".into(),
            log_started: true,
        }
    }

    fn saved() -> (TempDir, PathBuf) {
        let folder = TempDir::new().unwrap();
        identity().save(folder.path()).unwrap();
        let file = folder.path().join(IDENTITY_FILE);
        (folder, file)
    }

    #[test]
    fn an_identity_round_trips_and_is_replaced() {
        let (folder, _) = saved();
        assert_eq!(Identity::load(folder.path()).unwrap(), Some(identity()));
        let changed = Identity { incarnation: Some("2".into()), ..identity() };
        changed.save(folder.path()).unwrap();
        assert_eq!(Identity::load(folder.path()).unwrap(), Some(changed));
        assert_eq!(durable::file_names(folder.path()).unwrap(), [IDENTITY_FILE]);
    }

    #[test]
    fn an_empty_or_absent_folder_is_a_new_node() {
        let folder = TempDir::new().unwrap();
        assert_eq!(Identity::load(&folder.path().join("absent")).unwrap(), None);
        for harmless in [LOCK_FILE, MOUNT_POINT_FOLDER, "node.json.tmp"] {
            fs::write(folder.path().join(harmless), "x").unwrap();
            assert_eq!(Identity::load(folder.path()).unwrap(), None);
        }
    }

    #[test]
    fn a_vanished_identity_beside_other_files_is_damage() {
        let (folder, file) = saved();
        fs::create_dir(folder.path().join("log")).unwrap();
        fs::remove_file(file).unwrap();
        let error = Identity::load(folder.path()).unwrap_err();
        assert!(matches!(&error, IdentityError::PartlyMissing { found, .. } if found == "log"));
        assert!(error.to_string().contains("rejoin the cluster under a new node id"));
    }

    #[test]
    fn any_changed_byte_is_refused_or_changes_nothing() {
        let (folder, file) = saved();
        let good = fs::read(&file).unwrap();
        for position in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[position] ^= 1 << bit;
                fs::write(&file, &bad).unwrap();
                if let Ok(loaded) = Identity::load(folder.path()) {
                    assert_eq!(loaded, Some(identity()), "byte {position} bit {bit}");
                }
            }
        }
    }

    #[test]
    fn a_shortened_file_is_damage() {
        let (folder, file) = saved();
        let good = fs::read(&file).unwrap();
        for length in 0..good.len() - 2 {
            fs::write(&file, &good[..length]).unwrap();
            let error = Identity::load(folder.path()).unwrap_err();
            assert!(matches!(error, IdentityError::Damaged { .. }), "{length}: {error}");
        }
    }

    #[test]
    fn unknown_formats_and_members_are_refused() {
        let (folder, file) = saved();
        let good = fs::read_to_string(&file).unwrap();
        fs::write(&file, good.replace("\"format\": 1", "\"format\": 2, \"more\": true")).unwrap();
        let error = Identity::load(folder.path()).unwrap_err();
        assert!(matches!(error, IdentityError::UnknownFormat { found: 2, known: 1, .. }));
        fs::write(&file, good.replace("\"node_id\"", "\"more\": 1, \"node_id\"")).unwrap();
        assert!(matches!(Identity::load(folder.path()), Err(IdentityError::Damaged { .. })));
    }

    #[test]
    fn two_storages_have_two_log_ids() {
        let other = Identity { storage_id: "01J-storagf".into(), ..identity() };
        assert_ne!(identity().log_id(), other.log_id());
    }
}
