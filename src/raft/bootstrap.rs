//! How a cluster begins: one node, told to once, asks the others who they are and puts them into the first
//! membership by the random ids of their data folders.
use super::{
    consensus::Consensus,
    peer::{
        connection::{Connection, PeerError},
        hello::{Hello, Life, Local, PEER_VERSION, Purpose, Welcome},
    },
    service::save_identity,
    shared::Shared,
    types::Member,
};
use crate::{clock, ids};
use openraft::errors::{InitializeError, RaftError};
use ringfence_protocol::id::{ClusterId, Incarnation};
use std::{collections::BTreeMap, io, time::Duration};

const PROBE_LIMIT: Duration = Duration::from_secs(1);
const PROBE_PAUSE: Duration = Duration::from_millis(50);
/// How long the first members may take to come up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a cluster can't begin.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// A member of `cluster.initial` does not answer, or isn't who it should be.
    #[error(
        "node {node} of `cluster.initial` can't be made a member: {reason}. Start it, or correct the list"
    )]
    Member {
        /// Its number.
        node: u64,
        /// What is wrong.
        reason: String,
    },
    /// A member has a cluster already.
    #[error(
        "node {node} belongs to a cluster already: a cluster begins with empty nodes only. Start without `--bootstrap` \
         if this node is part of it, or give node {node} an empty data folder"
    )]
    Taken {
        /// Its number.
        node: u64,
    },
    /// This node is not in its own list.
    #[error("node {0} is not in its own `cluster.initial`")]
    NotListed(u64),
    /// The identity could not be written.
    #[error("who this node is can't be written: {0}")]
    Io(#[from] io::Error),
    /// Raft refused.
    #[error("the first membership was refused: {0}")]
    Raft(String),
}

impl Consensus {
    /// Begins a cluster with `initial` (node id and peer address each), or does nothing where this node has one.
    ///
    /// It may be repeated until it succeeds: a crash in between leaves nodes that know the cluster's id and no log.
    ///
    /// # Errors
    /// [`BootstrapError`], with what to correct.
    pub async fn bootstrap(&self, initial: &BTreeMap<u64, String>) -> Result<(), BootstrapError> {
        let shared = self.shared();
        let initialized =
            shared.raft.is_initialized().await.map_err(|error| BootstrapError::Raft(error.to_string()))?;
        if initialized {
            tracing::info!("this node is part of a cluster already: nothing to begin");
            return Ok(());
        }
        let local = shared.myself.get();
        if !initial.contains_key(&local.node) {
            return Err(BootstrapError::NotListed(local.node));
        }
        let life = local.life.unwrap_or_else(new_life);
        let members = probe_all(shared, initial, life).await?;
        if local.life.is_none() {
            let joined = Local { life: Some(life), ..local };
            save_identity(self.data_dir(), &joined).await?;
            shared.myself.set(joined);
        }
        match shared.raft.initialize(members).await {
            // Another start of this node, or a peer that it reached, was quicker.
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
            Err(error) => Err(BootstrapError::Raft(error.to_string())),
        }
    }
}

fn new_life() -> Life {
    Life {
        cluster: ClusterId::from_bits(ids::ulid_bits()),
        incarnation: Incarnation::from_bits(ids::ulid_bits()),
    }
}

async fn probe_all(
    shared: &Shared,
    initial: &BTreeMap<u64, String>,
    life: Life,
) -> Result<BTreeMap<u64, Member>, BootstrapError> {
    let local = shared.myself.get();
    let mut members = BTreeMap::new();
    for (&node, address) in initial {
        let welcome = if node == local.node {
            Welcome { storage: local.storage.clone(), api: local.api.clone(), life: local.life }
        } else {
            probe(&local, node, address).await?
        };
        if welcome.life.is_some_and(|theirs| theirs != life) {
            return Err(BootstrapError::Taken { node });
        }
        members.insert(node, Member { peer: address.clone(), api: welcome.api, storage: welcome.storage });
    }
    Ok(members)
}

/// Asks until the peer is there.
async fn probe(local: &Local, node: u64, address: &str) -> Result<Welcome, BootstrapError> {
    let hello = Hello {
        version: PEER_VERSION,
        name: local.name.clone(),
        life: None,
        from: local.node,
        from_storage: local.storage.clone(),
        to: node,
        to_storage: None,
        purpose: Purpose::Probe,
    };
    let started = clock::monotonic();
    loop {
        match Connection::open(address, &hello, PROBE_LIMIT).await {
            Ok((_, welcome)) => return Ok(welcome),
            Err(PeerError::Unreachable { .. } | PeerError::Broken { .. }) if started.elapsed() < PATIENCE => {
                tokio::time::sleep(PROBE_PAUSE).await;
            }
            Err(error) => {
                return Err(BootstrapError::Member { node, reason: error.to_string() });
            }
        }
    }
}
