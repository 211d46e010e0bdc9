//! Opening a node's data folder, in the order that `storage` asks for.
use super::{
    config::ConsensusConfig,
    log_store::LogStore,
    peer::hello::{Life, Local},
    replica::StateMachine,
};
use crate::{
    ids,
    storage::{
        identity::{Identity, IdentityError},
        lock::{FolderLock, LockError},
        log::{Recovered, Wal, WalError, WalOptions, WalStats},
        snapshot::{SnapshotError, SnapshotStore},
    },
};
use std::{io, path::PathBuf, sync::Arc};

/// Why a node's consensus can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder is in use.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Who this node is can't be read.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The folder is another node's.
    #[error(
        "the data folder {} belongs to node {found}, the configuration says node {configured}: correct one of them",
        folder.display()
    )]
    OtherNode {
        /// The folder.
        folder: PathBuf,
        /// Whose it is.
        found: u64,
        /// Who the configuration says this is.
        configured: u64,
    },
    /// The log can't be opened.
    #[error(transparent)]
    Log(#[from] WalError),
    /// The snapshots can't be opened.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The log was cut up to an entry that no snapshot has.
    #[error(
        "the log in {} begins behind entry {purged}, but the newest snapshot ends at {snapshot}: a snapshot is missing; \
         wipe this node's data folder and rejoin the cluster under a new node id",
        folder.display()
    )]
    SnapshotMissing {
        /// The folder.
        folder: PathBuf,
        /// Where the log begins.
        purged: u64,
        /// Where the snapshot ends.
        snapshot: u64,
    },
    /// What is stored can't be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Contradicting settings.
    #[error("`raft.heartbeat_ms` and `raft.election_ms` don't go together: {0}")]
    Config(String),
    /// Raft did not start.
    #[error("raft did not start: {0}")]
    Raft(String),
}

/// What is opened from the data folder, in the order that `storage` asks for.
pub(super) struct Opened {
    pub(super) lock: FolderLock,
    pub(super) local: Local,
    pub(super) log: LogStore,
    pub(super) machine: StateMachine,
    pub(super) disk: Arc<WalStats>,
}

impl Opened {
    pub(super) fn open(config: &ConsensusConfig) -> Result<Self, StartError> {
        let folder = &config.data_dir;
        std::fs::create_dir_all(folder)?;
        let lock = FolderLock::acquire(folder)?;
        let mut identity = match Identity::load(folder)? {
            Some(identity) => identity,
            None => new_identity(config),
        };
        if identity.node_id != config.node {
            let (folder, found) = (folder.clone(), identity.node_id);
            return Err(StartError::OtherNode { folder, found, configured: config.node });
        }
        let options = WalOptions {
            on_sync: Some(Box::new(|duration, records| {
                metrics::histogram!("ringfence_log_fsync_seconds").record(duration.as_secs_f64());
                metrics::counter!("ringfence_log_records_total").increment(records as u64);
            })),
            ..WalOptions::new(identity.log_id())
        };
        let log_folder = folder.join("log");
        let (wal, recovered) = if identity.log_started {
            Wal::open(&log_folder, options)?
        } else {
            identity.save(folder)?;
            let wal = Wal::create(&log_folder, options)?;
            identity.log_started = true;
            identity.save(folder)?;
            (wal, Recovered::default())
        };
        let snapshots = Arc::new(SnapshotStore::open(&folder.join("snapshots"))?);
        let machine = StateMachine::open(snapshots)?;
        let snapshot = machine.replica().read(|_, index| index);
        if let Some((purged, _)) = recovered.purged
            && purged > snapshot
        {
            return Err(StartError::SnapshotMissing { folder: folder.clone(), purged, snapshot });
        }
        let disk = wal.stats();
        let log = LogStore::new(wal, &recovered)?;
        let local = local(config, &identity)?;
        Ok(Self { lock, local, log, machine, disk })
    }
}

fn new_identity(config: &ConsensusConfig) -> Identity {
    let storage_id =
        ringfence_protocol::LeaseId::from_bits(ids::ulid_bits()).to_string().replace("lse_", "sto_");
    Identity { cluster_id: None, incarnation: None, node_id: config.node, storage_id, log_started: false }
}

fn local(config: &ConsensusConfig, identity: &Identity) -> Result<Local, StartError> {
    let unreadable = |error: ringfence_protocol::id::IdError| {
        StartError::Io(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the identity's ids can't be read: {error}"),
        ))
    };
    let life = match (&identity.cluster_id, &identity.incarnation) {
        (Some(cluster), Some(incarnation)) => Some(Life {
            cluster: cluster.parse().map_err(unreadable)?,
            incarnation: incarnation.parse().map_err(unreadable)?,
        }),
        (Some(_) | None, Some(_) | None) => None,
    };
    Ok(Local {
        name: config.name.clone(),
        node: config.node,
        storage: identity.storage_id.clone(),
        api: config.api.clone(),
        life,
    })
}
