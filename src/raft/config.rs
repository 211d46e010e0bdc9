//! What a node's consensus is told, and what Raft is told of it.
use super::open::StartError;
use openraft::SnapshotPolicy;
use std::path::PathBuf;

/// What a node's consensus is told.
#[derive(Debug, Clone)]
pub struct ConsensusConfig {
    /// Its number, 1 or more, never used again once its folder was wiped.
    pub node: u64,
    /// Its data folder.
    pub data_dir: PathBuf,
    /// `cluster.name`.
    pub name: String,
    /// Where its API listens, for `GET /v1/cluster`.
    pub api: String,
    /// The time between two heartbeats of a leader, in milliseconds.
    pub heartbeat_ms: u64,
    /// The shortest time without a heartbeat after which a node tries to lead, in milliseconds; the longest is
    /// [`Self::election_max_ms`].
    pub election_ms: u64,
    /// After how many entries the state is written out and the log is cut; a tenth of that is kept behind, for
    /// followers that are a little late.
    pub snapshot_every: u64,
    /// The most that one change of leader adds to a lease, in milliseconds. Of the cluster, not of the node: the
    /// first leader's goes into the state.
    pub grace_ms: u64,
}

impl ConsensusConfig {
    /// The longest time without a heartbeat after which a node tries to lead, in milliseconds.
    #[must_use]
    pub const fn election_max_ms(&self) -> u64 {
        self.election_ms + self.election_ms * 2 / 5
    }

    pub(super) fn raft(&self) -> Result<openraft::Config, StartError> {
        let config = openraft::Config {
            cluster_name: self.name.clone(),
            heartbeat_interval: self.heartbeat_ms,
            election_timeout_min: self.election_ms,
            election_timeout_max: self.election_max_ms(),
            max_payload_entries: 256,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_every),
            max_in_snapshot_log_to_keep: self.snapshot_every / 10,
            replication_lag_threshold: self.snapshot_every / 10,
            purge_batch_size: 1024,
            install_snapshot_timeout: 120_000,
            enable_pre_vote: Some(true),
            // A restarted leader must be elected anew: it can't know what has been decided without it.
            enable_leader_restore: Some(false),
            ..openraft::Config::default()
        };
        config.validate().map_err(|error| StartError::Config(error.to_string()))
    }
}
