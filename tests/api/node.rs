//! Nodes within the test's own process, on ports that the system chose.
use ed25519_dalek::{
    SigningKey,
    pkcs8::{EncodePrivateKey, spki::der::pem::LineEnding},
};
use ringfence::{
    config::Config,
    node::{Listeners, NodeError, run},
};
use std::{fs, net::SocketAddr, path::Path, time::Duration};
use tempfile::TempDir;
use tokio::{net::TcpListener, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

/// How long a state is waited for before the test fails: machines that test are busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at a state that is waited for.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);
/// The operator's token of all nodes here.
pub(crate) const OPERATOR: &str = "operator-token-of-a-test";
/// The seed of the key that all nodes here sign with.
pub(crate) const SIGNING_SEED: [u8; 32] = [7; 32];

/// Waits until a look at something gives a value.
pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// One node.
pub(crate) struct Node {
    pub(crate) api: SocketAddr,
    stop: CancellationToken,
    running: JoinSet<Result<(), NodeError>>,
}

impl Node {
    /// Stops it as a signal would, and waits until it has.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        self.running.join_next().await.unwrap().unwrap().unwrap();
    }
}

/// Nodes 1 to `count` of one cluster in a folder that lives as long as this.
pub(crate) struct Nodes {
    pub(crate) nodes: Vec<Node>,
    _folder: TempDir,
}

impl Nodes {
    /// Starts the nodes; the first begins the cluster, if `begin`.
    pub(crate) async fn start(count: u64, begin: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write_secrets(folder.path());
        let mut listeners = Vec::new();
        for _ in 0..count {
            listeners.push(Listeners { api: bind().await, peers: bind().await });
        }
        let members: Vec<_> =
            (1..).zip(&listeners).map(|(id, node)| format!("{id}={}", peers(node))).collect();
        let mut nodes = Vec::new();
        for (id, listeners) in (1..).zip(listeners) {
            let config = config(folder.path(), id, &listeners, &members);
            let (api, stop) = (listeners.api.local_addr().unwrap(), CancellationToken::new());
            let mut running = JoinSet::new();
            running.spawn(run(config, begin && id == 1, listeners, stop.clone()));
            nodes.push(Node { api, stop, running });
        }
        Self { nodes, _folder: folder }
    }
}

async fn bind() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

fn peers(node: &Listeners) -> SocketAddr {
    node.peers.local_addr().unwrap()
}

fn write_secrets(folder: &Path) {
    let key = SigningKey::from_bytes(&SIGNING_SEED).to_pkcs8_pem(LineEnding::LF).unwrap();
    fs::write(folder.join("signing.pem"), key.as_bytes()).unwrap();
    fs::write(folder.join("operator.token"), OPERATOR).unwrap();
}

fn config(folder: &Path, id: u64, listeners: &Listeners, members: &[String]) -> Config {
    let members: Vec<_> = members.iter().map(|member| format!("{member:?}")).collect();
    let file = folder.join(format!("node-{id}.toml"));
    let text = format!(
        "node = {{ id = {id}, data_dir = \"node-{id}\" }}\n\
         api.listen = \"{}\"\n\
         peer.listen = \"{}\"\n\
         cluster.initial = [{}]\n\
         auth.operator_token_file = \"operator.token\"\n\
         signing.key_files = [\"signing.pem\"]\n",
        listeners.api.local_addr().unwrap(),
        peers(listeners),
        members.join(", ")
    );
    fs::write(&file, text).unwrap();
    Config::load(&file).unwrap()
}
