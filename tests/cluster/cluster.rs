//! A cluster of real processes on this machine, each of which can be killed, stopped and started again.
use rand::RngExt;
use ringfence_client::{Client, Error};
use ringfence_protocol::{
    ErrorCode,
    body::{AcquireLease, CreateRun, CreateToken, Lease, Run},
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How long a state is waited for before the test fails. Long: these machines are busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

struct Node {
    api: String,
    config: PathBuf,
    log: PathBuf,
    child: Option<Child>,
}

/// Nodes 1 to n, and the tokens to talk to them.
pub(crate) struct Cluster {
    folder: TempDir,
    nodes: Vec<Node>,
    pub(crate) orchestrator: String,
    pub(crate) operator: String,
}

/// A port that is free now, and below those that the system hands out by itself: a node that is down must find its
/// own again.
fn free_port() -> u16 {
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(|| rand::rng().random_range(10_240..32_000)).find(free).unwrap()
}

impl Cluster {
    /// The same with a log that is cut every 200 entries.
    pub(crate) async fn start_with_short_logs() -> Self {
        let cluster = Self::prepare(3, "raft.snapshot_every = 200\n");
        cluster.begin().await
    }

    /// Starts three nodes and waits for a leader and an orchestrator's token.
    pub(crate) async fn start() -> Self {
        Self::prepare(3, "").begin().await
    }

    async fn begin(mut self) -> Self {
        for id in 1..=3 {
            self.spawn(id, id == 1);
        }
        let admin = self.token(&self.operator, "admin").await;
        self.orchestrator = self.token(&admin, "orchestrator").await;
        self
    }

    fn prepare(count: u64, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let key = root.join("signing.pem");
        let made = Command::new(env!("CARGO_BIN_EXE_ringfence"))
            .args(["cluster", "keygen"])
            .arg(&key)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let operator = "operator-token-of-a-test".to_owned();
        fs::write(root.join("operator.token"), &operator).unwrap();
        let ports: Vec<_> = (0..count).map(|_| (free_port(), free_port())).collect();
        let initial: Vec<_> =
            ports.iter().zip(1..).map(|((_, peer), id)| format!("\"{id}=127.0.0.1:{peer}\"")).collect();
        let initial = initial.join(", ");
        let node = |((api, peer), id): (&(u16, u16), u64)| {
            let config = root.join(format!("node-{id}.toml"));
            let text = format!(
                "node = {{ id = {id}, data_dir = \"node-{id}\" }}\n\
                 api.listen = \"127.0.0.1:{api}\"\n\
                 peer.listen = \"127.0.0.1:{peer}\"\n\
                 cluster.initial = [{initial}]\n\
                 auth.operator_token_file = \"operator.token\"\n\
                 signing.key_files = [\"signing.pem\"]\n{more}"
            );
            fs::write(&config, text).unwrap();
            Node {
                api: format!("http://127.0.0.1:{api}"),
                config,
                log: root.join(format!("node-{id}.log")),
                child: None,
            }
        };
        let nodes = ports.iter().zip(1..).map(node).collect();
        Self { folder, nodes, orchestrator: String::new(), operator }
    }

    fn node(&mut self, id: u64) -> &mut Node {
        &mut self.nodes[usize::try_from(id).unwrap() - 1]
    }

    /// Starts a node that isn't running.
    pub(crate) fn spawn(&mut self, id: u64, bootstrap: bool) {
        let node = self.node(id);
        assert!(node.child.is_none(), "node {id} is running");
        let log = fs::File::options().create(true).append(true).open(&node.log).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfence"));
        command.arg("serve").arg("--config").arg(&node.config).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        if bootstrap {
            command.arg("--bootstrap");
        }
        node.child = Some(command.spawn().unwrap());
    }

    /// SIGKILL, and waits until the process is gone.
    pub(crate) fn kill(&mut self, id: u64) {
        if let Some(mut child) = self.node(id).child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) fn is_running(&mut self, id: u64) -> bool {
        self.node(id).child.is_some()
    }

    /// Sends a signal to a running node.
    pub(crate) fn signal(&mut self, id: u64, signal: Signal) {
        let child = self.node(id).child.as_ref().unwrap();
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// Asks a node to stop, and waits until it has.
    pub(crate) fn terminate(&mut self, id: u64) {
        self.signal(id, Signal::TERM);
        let status = self.node(id).child.take().unwrap().wait().unwrap();
        assert!(status.success(), "node {id} ended with {status}: {}", self.log(id));
    }

    /// What a node has written.
    pub(crate) fn log(&mut self, id: u64) -> String {
        fs::read_to_string(&self.node(id).log).unwrap_or_default()
    }

    pub(crate) fn data_dir(&self, id: u64) -> PathBuf {
        self.folder.path().join(format!("node-{id}"))
    }

    /// A client of all nodes.
    pub(crate) fn client(&self, token: &str) -> Client {
        Client::new(self.nodes.iter().map(|node| node.api.clone()), token).unwrap()
    }

    /// A client of one node.
    pub(crate) fn client_of(&self, id: u64, token: &str) -> Client {
        Client::new([self.nodes[usize::try_from(id).unwrap() - 1].api.clone()], token).unwrap()
    }

    async fn token(&self, by: &str, role: &str) -> String {
        let body: CreateToken =
            serde_json::from_value(serde_json::json!({"name": "test", "role": role, "tenant": "default"}))
                .unwrap();
        let client = self.client(by);
        let made = until(async || client.create_token(&body, None).await.ok()).await;
        made.body.secret.unwrap()
    }

    /// Waits until the running nodes agree on a leader that is one of them.
    pub(crate) async fn leader(&mut self) -> u64 {
        let running: Vec<_> = (1..=3).filter(|id| self.is_running(*id)).collect();
        let clients: Vec<_> = running.iter().map(|id| self.client_of(*id, &self.orchestrator)).collect();
        until(async || {
            let mut leaders = Vec::new();
            for client in &clients {
                leaders.push(client.cluster().await.ok()?.body.leader?);
            }
            leaders.dedup();
            (leaders.len() == 1 && running.contains(&leaders[0])).then(|| leaders[0])
        })
        .await
    }

    /// A new run, and a client with its credential.
    pub(crate) async fn run(&self) -> (Run, Client) {
        let body: CreateRun = serde_json::from_value(serde_json::json!({"name": "test"})).unwrap();
        let orchestrator = self.client(&self.orchestrator);
        let run = until(async || orchestrator.create_run(&body, None).await.ok()).await.body;
        let client = self.client(run.token.as_deref().unwrap());
        (run, client)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for id in 1..=self.nodes.len() as u64 {
            self.kill(id);
            if std::thread::panicking() {
                println!("--- node {id}\n{}", self.log(id));
            }
        }
    }
}

/// Asks again and again until there is an answer.
pub(crate) async fn until<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "what was waited for did not come");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The body of an acquire of one exclusive scope.
pub(crate) fn exclusive(scope: &str, ttl_ms: u64) -> AcquireLease {
    let body = serde_json::json!({"write_set": [{"scope": scope, "mode": "exclusive"}], "ttl_ms": ttl_ms});
    serde_json::from_value(body).unwrap()
}

/// Acquires, again and again while others hold it or the cluster has no leader.
pub(crate) async fn acquire(client: &Client, scope: &str, ttl_ms: u64) -> Lease {
    until(async || client.acquire(&exclusive(scope, ttl_ms), None).await.ok()).await.body
}

/// The code of a refusal.
pub(crate) fn code<T>(answer: Result<T, Error>) -> Option<ErrorCode> {
    answer.err().and_then(|error| error.code())
}
