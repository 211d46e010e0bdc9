//! One node, assembled: listeners, consensus, API; and the order in which it stops.
//!
//! A stop is: accept nothing new and finish what is under way, hand leadership over, stop Raft, write what was submitted
//! to the log. A node whose consensus has failed stops too, with an error: it is better gone than half there.
use crate::{
    config::{Config, ConfigError},
    http::{self, App, SecretHash, Settings, SettingsError},
    raft::{BootstrapError, Consensus, ConsensusConfig, StartError},
    tasks::Tasks,
};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use ringfence_protocol::jws::Signer25519;
use std::{
    fs, io,
    net::SocketAddr,
    path::Path,
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

/// The most that one change of leader adds to a lease, in milliseconds: more than the longest election takes, so
/// that whoever could not renew during it can do so after it.
pub const GRACE_MS: u64 = 1000;
/// The shortest operator's token that is taken, in bytes.
const MIN_TOKEN_BYTES: usize = 16;

/// Why a node can't run, or has stopped.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The configuration, or a file that it names.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An address can't be listened on.
    #[error(
        "can't listen on {address} ({key}): {source}. Is another node, or another program, running there?"
    )]
    Listen {
        /// The configuration's key.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The data folder, or Raft.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The cluster can't begin.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// The API can't be served.
    #[error(transparent)]
    Api(#[from] SettingsError),
    /// The metrics can't be collected.
    #[error("metrics can't be collected: {0}")]
    Metrics(#[from] BuildError),
    /// The consensus has stopped by itself.
    #[error(
        "the node's consensus has stopped: see the log above; a disk that fails an fsync is never trusted again"
    )]
    Stopped,
    /// The runtime or a signal handler can't be had.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Where a node listens.
#[derive(Debug)]
pub struct Listeners {
    /// For clients.
    pub api: TcpListener,
    /// For the other nodes.
    pub peers: TcpListener,
}

impl Listeners {
    /// Binds both addresses of a configuration.
    ///
    /// # Errors
    /// [`NodeError::Listen`], naming the address.
    pub async fn bind(config: &Config) -> Result<Self, NodeError> {
        Ok(Self {
            api: bind("api.listen", config.api.listen).await?,
            peers: bind("peer.listen", config.peer.listen).await?,
        })
    }
}

async fn bind(key: &'static str, address: SocketAddr) -> Result<TcpListener, NodeError> {
    TcpListener::bind(address).await.map_err(|source| NodeError::Listen { key, address, source })
}

/// Runs one node as this process: until SIGTERM or SIGINT, or until it can't go on.
///
/// Raft, peers and the API share one thread; the log has its own, and snapshots are written on another.
///
/// # Errors
/// [`NodeError`], in words for whoever started it.
pub fn serve(config: Config, bootstrap: bool) -> Result<(), NodeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let stop = CancellationToken::new();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let listeners = Listeners::bind(&config).await?;
        let asked = async {
            tokio::select! {
                // Both are cancel safe.
                _ = terminate.recv() => (),
                _ = interrupt.recv() => (),
            }
            tracing::info!("asked to stop");
            stop.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            // Never ends by itself; it only passes the signal on.
            () = asked => Ok(()),
            result = run(config, bootstrap, listeners, stop.clone()) => result,
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    result
}

/// Runs one node until `stop` is cancelled, or until it can't go on.
///
/// With `bootstrap` it begins a cluster with `cluster.initial`, unless it is part of one already.
///
/// # Errors
/// [`NodeError`]
pub async fn run(
    config: Config,
    bootstrap: bool,
    listeners: Listeners,
    stop: CancellationToken,
) -> Result<(), NodeError> {
    config.validate()?;
    let settings = settings(&config)?;
    let metrics = recorder()?;
    let api = listeners.api.local_addr()?;
    let consensus_config = consensus_config(&config, api);
    let tasks = Tasks::new(CancellationToken::new());
    let consensus = Consensus::start(consensus_config, listeners.peers, &tasks).await?;
    let draining = CancellationToken::new();
    let app = App::new(consensus.clone(), metrics, draining.clone(), settings)?;
    let served = CancellationToken::new();
    tasks.spawn_draining({
        let (tasks, served) = (tasks.clone(), served.clone().drop_guard());
        async move {
            http::serve(listeners.api, app, &tasks).await;
            drop(served);
        }
    });
    tracing::info!(node = config.node.id, %api, peer = config.advertised_peer(), "the node is up");
    let result = until_stopped(&config, bootstrap, &consensus, &stop, &tasks).await;
    tasks.expect_ends();
    draining.cancel();
    served.cancelled().await;
    consensus.stop().await;
    tasks.stop().cancel();
    tasks.join().await;
    tracing::info!(node = config.node.id, "the node has stopped");
    result
}

async fn until_stopped(
    config: &Config,
    bootstrap: bool,
    consensus: &Consensus,
    stop: &CancellationToken,
    tasks: &Tasks,
) -> Result<(), NodeError> {
    let begin = async {
        if bootstrap {
            consensus.bootstrap(&config.initial_members()?).await?;
        }
        // Begun, or waiting to be taken in: nothing more to do here.
        std::future::pending::<Result<(), NodeError>>().await
    };
    tokio::select! {
        // A bootstrap that is interrupted can be repeated.
        () = stop.cancelled() => Ok(()),
        () = tasks.stop().cancelled() => Err(NodeError::Stopped),
        result = begin => result,
    }
}

fn consensus_config(config: &Config, api: SocketAddr) -> ConsensusConfig {
    ConsensusConfig {
        node: config.node.id,
        data_dir: config.node.data_dir.clone(),
        name: config.cluster.name.clone(),
        api: format!("http://{api}"),
        heartbeat_ms: config.raft.heartbeat_ms,
        election_ms: config.raft.election_ms,
        snapshot_every: config.raft.snapshot_every,
        grace_ms: GRACE_MS,
    }
}

fn settings(config: &Config) -> Result<Settings, NodeError> {
    let signers = config.signing.key_files.iter().map(|file| read_key(file)).collect::<Result<_, _>>()?;
    Ok(Settings {
        signers,
        operator_token: read_token(&config.auth.operator_token_file)?,
        metrics_need_token: config.metrics.require_token,
        unreachable_after: Duration::from_millis(config.raft.election_ms * 2),
        limits: http::Limits::default(),
    })
}

fn unusable(key: &'static str, file: &Path, reason: &impl ToString) -> ConfigError {
    ConfigError::File { key, file: file.to_owned(), reason: reason.to_string() }
}

fn read_key(file: &Path) -> Result<Signer25519, ConfigError> {
    let key = "signing.key_files";
    let pem = fs::read_to_string(file).map_err(|error| unusable(key, file, &error))?;
    let hint = "it is no Ed25519 key as PKCS#8 PEM; make one with `ringfence cluster keygen FILE`";
    Signer25519::from_pem(&pem).map_err(|_| unusable(key, file, &hint))
}

fn read_token(file: &Path) -> Result<SecretHash, ConfigError> {
    let key = "auth.operator_token_file";
    let text = fs::read_to_string(file).map_err(|error| unusable(key, file, &error))?;
    let token = text.trim();
    if token.len() < MIN_TOKEN_BYTES || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let rule =
            format!("a token has at least {MIN_TOKEN_BYTES} visible ASCII characters and nothing else");
        return Err(unusable(key, file, &rule));
    }
    Ok(SecretHash::of(token))
}

/// Seconds; from what a quiet disk or a local request takes to what a broken one does.
const BUCKETS: [f64; 14] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// The process has one recorder, however many nodes run in it.
fn recorder() -> Result<PrometheusHandle, BuildError> {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = HANDLE.get() {
        return Ok(handle.clone());
    }
    let builder =
        PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS)?;
    let handle = builder.install_recorder()?;
    http::describe_metrics();
    Ok(HANDLE.get_or_init(|| handle).clone())
}
