//! A cluster of `ringfence up` in a folder of its own, and the commands that talk to it.
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How long a state is waited for before the test fails. Long: these machines are busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The program, without what the environment of the test may say of clusters.
pub(crate) fn ringfence() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfence"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RINGFENCE_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// A running `ringfence up`.
pub(crate) struct Local {
    folder: TempDir,
    up: Option<Child>,
    pub(crate) ready: String,
}

impl Local {
    pub(crate) fn start() -> Self {
        let mut local = Self { folder: tempfile::tempdir().unwrap(), up: None, ready: String::new() };
        local.start_again();
        local
    }

    /// `up` in the same folder.
    pub(crate) fn start_again(&mut self) {
        let mut up = ringfence();
        up.args(["up", "--port", "0", "--dir"]).arg(self.dir());
        let log = fs::File::create(self.dir().join("up.log")).unwrap();
        let mut child = up.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        self.up = Some(child);
        let line = out.lines().next().and_then(Result::ok).unwrap_or_default();
        self.ready =
            line.strip_prefix("ready ").unwrap_or_else(|| panic!("{line}: {}", self.log())).to_owned();
    }

    pub(crate) fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// What `up` has written to standard error.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir().join("up.log")).unwrap_or_default()
    }

    pub(crate) fn cluster_file(&self) -> PathBuf {
        self.dir().join("cluster.json")
    }

    pub(crate) fn cluster_json(&self) -> Value {
        serde_json::from_slice(&fs::read(self.cluster_file()).unwrap()).unwrap()
    }

    pub(crate) fn node_pids(&self) -> Vec<Pid> {
        let file = self.cluster_json();
        file["nodes"].as_array().unwrap().iter().map(|node| pid(&node["pid"])).collect()
    }

    /// The program, which finds this cluster.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = ringfence();
        command.env("RINGFENCE_DIR", self.dir()).args(arguments);
        command
    }

    /// What a command that succeeds answers.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let done = self.command(arguments).args(["--output", "json"]).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", stderr(&done));
        serde_json::from_slice(&done.stdout).unwrap()
    }

    /// SIGTERM to `up`; gives its exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        let mut up = self.up.take().unwrap();
        kill_process(Pid::from_child(&up), Signal::TERM).unwrap();
        up.wait().unwrap().code()
    }

    /// SIGKILL to `up` alone.
    pub(crate) fn kill_up(&mut self) {
        let mut up = self.up.take().unwrap();
        up.kill().unwrap();
        up.wait().unwrap();
    }

    /// SIGKILL to everything.
    pub(crate) fn kill_all(&mut self) {
        self.kill_up();
        self.kill_nodes();
    }

    pub(crate) fn kill_nodes(&self) {
        for node in self.node_pids() {
            kill_process(node, Signal::KILL).ok();
            until("a killed node is gone", || !lives(node));
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if self.up.is_some() {
            self.stop();
        } else if self.cluster_file().exists() {
            for node in self.node_pids() {
                kill_process(node, Signal::KILL).ok();
            }
        }
    }
}

pub(crate) fn pid(value: &Value) -> Pid {
    Pid::from_raw(value.as_i64().unwrap().try_into().unwrap()).unwrap()
}

/// Whether a process is there and has not ended.
pub(crate) fn lives(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid()));
    stat.is_ok_and(|text| !text.contains(") Z "))
}

/// Waits for a state.
pub(crate) fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let started = Instant::now();
    while !reached() {
        assert!(started.elapsed() < PATIENCE, "not reached: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn stderr(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

pub(crate) fn stdout(done: &Output) -> String {
    String::from_utf8_lossy(&done.stdout).into_owned()
}
