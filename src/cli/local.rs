//! `cluster.json`: what is known of a local cluster, for whoever wants to talk to it.
use super::failure::Failure;
use ringfence_protocol::{Role, id::ClusterId};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// The name of the file in the folder of a local cluster.
pub(crate) const CLUSTER_FILE: &str = "cluster.json";

/// One node of a local cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LocalNode {
    pub(crate) id: u64,
    pub(crate) api: String,
    pub(crate) peer: String,
    pub(crate) pid: u32,
    pub(crate) data_dir: PathBuf,
    pub(crate) config: PathBuf,
}

/// A local cluster: its nodes and a token for each role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClusterFile {
    pub(crate) cluster: ClusterId,
    pub(crate) nodes: Vec<LocalNode>,
    pub(crate) tokens: BTreeMap<Role, String>,
}

impl ClusterFile {
    /// Reads the file of a folder.
    ///
    /// # Errors
    /// [`Failure::Local`], saying how to get one.
    pub(crate) fn read(dir: &Path) -> Result<Self, Failure> {
        let file = dir.join(CLUSTER_FILE);
        let hint = format!("{} can't be read; is it the folder of a `ringfence up`?", file.display());
        let text = fs::read(&file).map_err(|error| Failure::local(&hint, error))?;
        serde_json::from_slice(&text).map_err(|error| Failure::local(&hint, error))
    }

    /// Writes the file, for its owner's eyes only, all of it or nothing.
    ///
    /// # Errors
    /// Where the folder can't be written.
    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        write_private(&dir.join(CLUSTER_FILE), &text)
    }

    /// The nodes' API addresses.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.api.clone()).collect()
    }

    /// The token of a role.
    pub(crate) fn token(&self, role: Role) -> Option<String> {
        self.tokens.get(&role).cloned()
    }
}

/// Replaces a file that only its owner may read.
///
/// # Errors
/// Where the folder can't be written.
pub(crate) fn write_private(file: &Path, content: &[u8]) -> io::Result<()> {
    let unfinished = file.with_extension("tmp");
    // One that was left behind may have other permissions.
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut new: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    new.write_all(content)?;
    new.sync_all()?;
    fs::rename(&unfinished, file)
}
