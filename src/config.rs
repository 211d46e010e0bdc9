//! The configuration of one node: a TOML file, every key also as an environment variable (`RINGFENCE_NODE_ID` is
//! `node.id`), the variable winning.
//!
//! Unknown keys are refused, and so are values that contradict each other; the message names both.
use figment::{
    Figment,
    providers::{Env, Format, Toml},
};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// The configuration of one node.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `[node]`
    pub node: NodeConfig,
    /// `[api]`
    pub api: ApiConfig,
    /// `[peer]`
    pub peer: PeerConfig,
    /// `[cluster]`
    pub cluster: ClusterConfig,
    /// `[auth]`
    pub auth: AuthConfig,
    /// `[signing]`
    pub signing: SigningConfig,
    /// `[raft]`
    #[serde(default)]
    pub raft: RaftConfig,
    /// `[metrics]`
    #[serde(default)]
    pub metrics: MetricsConfig,
}

/// `[node]`: who this node is.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Its number, 1 or more; never used again once its folder was wiped.
    pub id: u64,
    /// Where it keeps what it must not forget.
    pub data_dir: PathBuf,
}

/// `[api]`: the listener for clients.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiConfig {
    /// Where it listens: on loopback, as there is no TLS.
    pub listen: SocketAddr,
}

/// `[peer]`: the listener for the other nodes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerConfig {
    /// Where it listens: on loopback, as there is no TLS.
    pub listen: SocketAddr,
    /// Where the others find it, `host:port`; absent: `peer.listen`.
    #[serde(default)]
    pub advertise: Option<String>,
}

/// `[cluster]`: what it belongs to.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterConfig {
    /// A name that keeps this cluster's nodes apart from others' before it has an id.
    #[serde(default = "default_name")]
    pub name: String,
    /// The first members, each `id=host:port` of its peer listener.
    pub initial: Vec<String>,
}

/// `[auth]`: who may do everything.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthConfig {
    /// A file with the operator's token, the same on all nodes.
    pub operator_token_file: PathBuf,
}

/// `[signing]`: the keys of run credentials and grants.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SigningConfig {
    /// Ed25519 keys as PKCS#8 PEM, the same on all nodes: the first signs, all verify.
    pub key_files: Vec<PathBuf>,
}

/// `[raft]`: how quickly a dead leader is noticed.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RaftConfig {
    /// The time between two heartbeats, in milliseconds.
    pub heartbeat_ms: u64,
    /// The shortest time without a heartbeat after which a node tries to lead; the longest is 1.4 times that.
    pub election_ms: u64,
    /// After how many entries the state is written out and the log is cut; fewer need less disk and start quicker.
    pub snapshot_every: u64,
}

impl Default for RaftConfig {
    fn default() -> Self {
        Self { heartbeat_ms: 75, election_ms: 250, snapshot_every: 200_000 }
    }
}

/// `[metrics]`
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// Whether `/metrics` wants the operator's token.
    pub require_token: bool,
}

fn default_name() -> String {
    "ringfence".to_owned()
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It can't be read, or has a key that nobody knows.
    #[error("the configuration can't be read: {0}")]
    Unreadable(Box<figment::Error>),
    /// A value, or two together, make no sense.
    #[error("the configuration contradicts itself: {0}")]
    Invalid(String),
    /// A file that it names can't be used.
    #[error("{key} names {}, which can't be used: {reason}", file.display())]
    File {
        /// The key.
        key: &'static str,
        /// The file.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
}

const SECTIONS: [&str; 8] = ["node", "api", "peer", "cluster", "auth", "signing", "raft", "metrics"];

impl Config {
    /// Reads the file, then the environment, and checks both together. Relative paths are relative to the file.
    ///
    /// # Errors
    /// [`ConfigError`], naming what to correct.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let environment = Env::prefixed("RINGFENCE_")
            .filter(|key| key.as_str().split('_').next().is_some_and(is_section))
            .map(|key| key.as_str().replacen('_', ".", 1).into())
            .lowercase(true);
        let figment = Figment::new().merge(Toml::file_exact(file)).merge(environment);
        let mut config: Self = figment.extract().map_err(|error| ConfigError::Unreadable(Box::new(error)))?;
        if let Some(folder) = file.parent() {
            config.resolve_paths(folder);
        }
        config.validate()?;
        Ok(config)
    }

    fn resolve_paths(&mut self, folder: &Path) {
        let paths = [&mut self.node.data_dir, &mut self.auth.operator_token_file];
        for path in paths.into_iter().chain(&mut self.signing.key_files) {
            *path = folder.join(&*path);
        }
    }

    /// Checks relations between values.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`], naming the keys and the values.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let invalid = |text: String| Err(ConfigError::Invalid(text));
        if self.node.id == 0 {
            return invalid("node.id is 0: nodes are numbered from 1".into());
        }
        for (key, address) in [("api.listen", self.api.listen), ("peer.listen", self.peer.listen)] {
            if !address.ip().is_loopback() {
                return invalid(format!(
                    "{key} is {address}, which others can reach, but there is no TLS: listen on 127.0.0.1 or [::1]"
                ));
            }
        }
        if self.api.listen == self.peer.listen && self.api.listen.port() != 0 {
            return invalid(format!("api.listen and peer.listen are both {}", self.api.listen));
        }
        let RaftConfig { heartbeat_ms, election_ms, snapshot_every } = self.raft;
        if heartbeat_ms < 10 || election_ms < 2 * heartbeat_ms {
            return invalid(format!(
                "raft.heartbeat_ms is {heartbeat_ms} and raft.election_ms is {election_ms}: the first is at least 10, \
                 the second at least twice the first, or a late heartbeat deposes a healthy leader"
            ));
        }
        if snapshot_every < MIN_SNAPSHOT_EVERY {
            return invalid(format!(
                "raft.snapshot_every is {snapshot_every}: at least {MIN_SNAPSHOT_EVERY}"
            ));
        }
        if election_ms > MAX_ELECTION_MS {
            return invalid(format!("raft.election_ms is {election_ms}: at most {MAX_ELECTION_MS}"));
        }
        if self.signing.key_files.is_empty() {
            return invalid("signing.key_files is empty: without a key no grant can be signed".into());
        }
        let initial = self.initial_members()?;
        let listed = initial.get(&self.node.id);
        if listed.is_some_and(|address| *address != self.advertised_peer()) {
            return invalid(format!(
                "cluster.initial says that node {} is at {}, but it is at {} (peer.advertise or peer.listen)",
                self.node.id,
                listed.map_or("", String::as_str),
                self.advertised_peer()
            ));
        }
        Ok(())
    }

    /// The first members: node id and peer address.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] for what is not `id=host:port`, or an id or address that occurs twice.
    pub fn initial_members(&self) -> Result<BTreeMap<u64, String>, ConfigError> {
        let mut members = BTreeMap::new();
        for text in &self.cluster.initial {
            let parsed =
                text.split_once('=').and_then(|(id, address)| Some((id.parse::<u64>().ok()?, address)));
            let Some((id, address)) = parsed.filter(|(id, address)| *id > 0 && address.contains(':')) else {
                return Err(ConfigError::Invalid(format!(
                    "cluster.initial has `{text}`, which is not `id=host:port`"
                )));
            };
            if members.values().any(|other| other == address)
                || members.insert(id, address.to_owned()).is_some()
            {
                return Err(ConfigError::Invalid(format!(
                    "cluster.initial has the id or address of `{text}` twice"
                )));
            }
        }
        Ok(members)
    }

    /// Where the others find this node.
    #[must_use]
    pub fn advertised_peer(&self) -> String {
        self.peer.advertise.clone().unwrap_or_else(|| self.peer.listen.to_string())
    }
}

const MAX_ELECTION_MS: u64 = 10_000;
const MIN_SNAPSHOT_EVERY: u64 = 100;

fn is_section(text: &str) -> bool {
    SECTIONS.iter().any(|section| section.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("node.toml");
        std::fs::write(&file, text).unwrap();
        Config::load(&file)
    }

    const GOOD: &str = r#"
        [node]
        id = 1
        data_dir = "n1"
        [api]
        listen = "127.0.0.1:7101"
        [peer]
        listen = "127.0.0.1:7201"
        [cluster]
        initial = ["1=127.0.0.1:7201", "2=127.0.0.1:7202"]
        [auth]
        operator_token_file = "operator.token"
        [signing]
        key_files = ["signing.pem"]
    "#;

    #[test]
    fn a_good_configuration_is_taken_and_its_paths_lie_beside_it() {
        let config = parse(GOOD).unwrap();
        assert!(config.node.data_dir.is_absolute());
        assert_eq!(config.initial_members().unwrap()[&2], "127.0.0.1:7202");
        assert_eq!(config.raft.heartbeat_ms, 75);
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_named() {
        for (from, to, named) in [
            ("id = 1", "id = 0", "node.id"),
            ("id = 1", "id = 1\nidd = 2", "idd"),
            ("127.0.0.1:7101", "0.0.0.0:7101", "api.listen"),
            ("listen = \"127.0.0.1:7201\"", "listen = \"192.168.0.1:7201\"", "peer.listen"),
            ("127.0.0.1:7101", "127.0.0.1:7201", "api.listen and peer.listen"),
            ("\"2=127.0.0.1:7202\"", "\"2\"", "cluster.initial"),
            ("\"2=127.0.0.1:7202\"", "\"1=127.0.0.1:7202\"", "twice"),
            ("\"2=127.0.0.1:7202\"", "\"2=127.0.0.1:7201\"", "twice"),
            ("1=127.0.0.1:7201", "1=127.0.0.1:7301", "node 1 is at"),
            ("[\"signing.pem\"]", "[]", "signing.key_files"),
            ("[node]", "[raft]\nheartbeat_ms = 300\nelection_ms = 250\n[node]", "raft.election_ms is 250"),
            ("[node]", "[raft]\nheartbeat_ms = 0\n[node]", "raft.heartbeat_ms is 0"),
            ("[node]", "[raft]\nsnapshot_every = 9\n[node]", "raft.snapshot_every is 9"),
        ] {
            let text = GOOD.replacen(from, to, 1);
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains(named), "{named}: {error}");
        }
    }
}
