//! The node processes of a local cluster.
use super::layout::log_file;
use crate::cli::{failure::Failure, local::LocalNode, output};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    ffi::OsStr,
    fs::{self, File},
    net::{SocketAddr, TcpStream},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

/// How long a node may take to stop before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(10);
const CONNECT_LIMIT: Duration = Duration::from_millis(200);
/// How much of a log is shown where a node did not start.
const TAIL_LINES: usize = 5;

/// The processes, in the order of their nodes. Killed when dropped, where they have not been stopped before.
pub(super) struct Nodes {
    running: Vec<(LocalNode, Child)>,
}

impl Nodes {
    /// Starts one process a node; node 1 begins the cluster where `bootstrap`.
    ///
    /// # Errors
    /// Where something listens on a node's port already, or a process can't be started.
    pub(super) fn start(nodes: Vec<LocalNode>, bootstrap: bool) -> Result<Self, Failure> {
        nodes.iter().try_for_each(refuse_taken_ports)?;
        let mut running = Vec::new();
        for mut node in nodes {
            let child = spawn(&node, bootstrap && node.id == 1)
                .map_err(|error| Failure::local(&format!("node {} can't be started", node.id), error))?;
            node.pid = child.id().unwrap_or(0);
            running.push((node, child));
        }
        Ok(Self { running })
    }

    pub(super) fn list(&self) -> Vec<LocalNode> {
        self.running.iter().map(|(node, _)| node.clone()).collect()
    }

    /// Fails where a node has ended, with the end of what it wrote.
    ///
    /// # Errors
    /// [`Failure::Local`]
    pub(super) fn all_running(&mut self) -> Result<(), Failure> {
        for (node, child) in &mut self.running {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(Failure::Local(format!(
                    "node {} did not start ({status}):\n{}",
                    node.id,
                    tail(node)
                )));
            }
        }
        Ok(())
    }

    /// Waits until a node ends by itself, says so, and goes on with the others. Never returns.
    pub(super) async fn watch(&mut self) {
        loop {
            let (at, status) = self.next_end().await;
            let (node, _) = self.running.remove(at);
            output::note(&format!(
                "node {} (pid {}) has ended: {status}. Its log is {}. Start it again with:\n  ringfence serve --config {}",
                node.id,
                node.pid,
                log_file(&node).display(),
                node.config.display()
            ));
        }
    }

    async fn next_end(&mut self) -> (usize, String) {
        if self.running.is_empty() {
            return std::future::pending().await;
        }
        let ends = self.running.iter_mut().map(|(_, child)| Box::pin(child.wait()));
        let (status, at, _) = futures_util::future::select_all(ends).await;
        (at, status.map_or_else(|error| error.to_string(), |status: ExitStatus| status.to_string()))
    }

    /// Asks all nodes to stop, and kills those that don't in time.
    pub(super) async fn stop(&mut self) {
        for (node, _) in &self.running {
            signal(node, Signal::TERM);
        }
        for (node, child) in &mut self.running {
            if timeout(STOP_LIMIT, child.wait()).await.is_err() {
                output::note(&format!("node {} does not stop: killing it", node.id));
                child.kill().await.ok();
            }
        }
        self.running.clear();
    }
}

fn signal(node: &LocalNode, signal: Signal) {
    if let Some(pid) = i32::try_from(node.pid).ok().and_then(Pid::from_raw) {
        // One that has just ended needs no signal.
        kill_process(pid, signal).ok();
    }
}

fn spawn(node: &LocalNode, bootstrap: bool) -> std::io::Result<Child> {
    let log = File::options().create(true).append(true).open(log_file(node))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("serve").arg("--config").arg(&node.config);
    if bootstrap {
        command.arg("--bootstrap");
    }
    // A variable is meant for one node; here it would win over the configuration of each.
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_setting(name)) {
        command.env_remove(name);
    }
    // A group of its own: Ctrl-C in the terminal reaches `up`, which stops the nodes in order.
    command.process_group(0).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn()
}

fn is_setting(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("RINGFENCE_") && name != "RINGFENCE_LOG"
}

fn refuse_taken_ports(node: &LocalNode) -> Result<(), Failure> {
    for address in [node.api.trim_start_matches("http://"), &node.peer] {
        let taken = address
            .parse::<SocketAddr>()
            .is_ok_and(|address| TcpStream::connect_timeout(&address, CONNECT_LIMIT).is_ok());
        if taken {
            return Err(Failure::Local(format!(
                "something listens on {address} already, which node {} needs. If nodes of an earlier `up` are still \
                 running (cluster.json has their pids), stop them; else choose another --port, or --port 0, with \
                 another --dir",
                node.id
            )));
        }
    }
    Ok(())
}

fn tail(node: &LocalNode) -> String {
    let text = fs::read_to_string(log_file(node)).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
