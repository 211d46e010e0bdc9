//! What the demo plays on: a local cluster and the example target, as real processes, and how they are stopped.
use super::{DemoArgs, example, wire::say};
use crate::{
    cli::{failure::Failure, local::ClusterFile},
    ids,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

/// How long the cluster or the target may take to come up.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long `up` may take to stop: longer than it gives its nodes.
const STOP_LIMIT: Duration = Duration::from_secs(15);

/// The processes and the folder of one demo.
pub(super) struct Stage {
    dir: PathBuf,
    temporary: bool,
    up: Option<Child>,
    target: Option<Child>,
    target_url: String,
}

impl Stage {
    /// A stage without anything on it.
    ///
    /// # Errors
    /// Where the folder can't be made.
    pub(super) fn prepare(args: &DemoArgs) -> Result<Self, Failure> {
        let temporary = args.dir.is_none();
        let dir = args.dir.clone();
        let dir = dir.unwrap_or_else(|| {
            std::env::temp_dir().join(format!("ringfence-demo-{:032x}", ids::ulid_bits()))
        });
        let made =
            DirBuilder::new().recursive(true).mode(0o700).create(&dir).and_then(|()| dir.canonicalize());
        let dir = made.map_err(|error| Failure::local(&format!("{} can't be used", dir.display()), error))?;
        Ok(Self { dir, temporary, up: None, target: None, target_url: String::new() })
    }

    /// Starts the cluster and the target; gives what is known of the cluster, and the target's address.
    ///
    /// # Errors
    /// Where one of them does not come up.
    pub(super) async fn start(&mut self, args: &DemoArgs) -> Result<(ClusterFile, String), Failure> {
        let binary = example::target_binary(args.target_bin.as_deref()).await?;
        say(&format!("Starting a cluster of three nodes in {} …", self.dir.display()))?;
        let me = std::env::current_exe().map_err(|error| Failure::local("this program", error))?;
        let mut up = Command::new(me);
        up.args(["up", "--port", "0", "--dir"]).arg(&self.dir);
        let ready = start(&mut self.up, up, &self.dir.join("up.log"), "ready ").await?;
        let file = ClusterFile::read(&self.dir)?;
        say(&format!("Starting the target {} …", binary.display()))?;
        let mut target = Command::new(&binary);
        target
            .args(["--listen", "127.0.0.1:0", "--cluster", &ready, "--db"])
            .arg(self.dir.join("policies.sqlite"));
        self.target_url = start(&mut self.target, target, &self.dir.join("target.log"), "listening ").await?;
        say(&format!("The cluster is {}\nThe target is {}", ready.replace(',', " "), self.target_url))?;
        Ok((file, self.target_url.clone()))
    }

    /// Stops everything; the folder goes too, where it is the demo's own and all went well.
    pub(super) async fn clear(mut self, passed: bool) -> Result<(), Failure> {
        if let Some(target) = &mut self.target {
            stop(target).await;
        }
        if let Some(up) = &mut self.up {
            let graceful = stop(up).await;
            if !graceful {
                self.kill_nodes();
            }
        }
        if !self.temporary {
            return Ok(());
        }
        if passed {
            return fs::remove_dir_all(&self.dir)
                .map_err(|error| Failure::local(&format!("{} can't be removed", self.dir.display()), error));
        }
        say(&format!("What the processes wrote is kept in {}", self.dir.display()))
    }

    /// Where `up` had to be killed, its nodes are still there.
    fn kill_nodes(&self) {
        let nodes = ClusterFile::read(&self.dir).map(|file| file.nodes).unwrap_or_default();
        for pid in nodes.iter().filter_map(|node| Pid::from_raw(i32::try_from(node.pid).ok()?)) {
            kill_process(pid, Signal::KILL).ok();
        }
    }

    /// Leaves everything running, and says how to go on and how to stop it.
    ///
    /// # Errors
    /// Where nobody reads any more.
    pub(super) fn keep(self) -> Result<(), Failure> {
        let id = |child: &Option<Child>| child.as_ref().and_then(Child::id).unwrap_or(0);
        let (up, target) = (id(&self.up), id(&self.target));
        let policy = format!("{}/v1/notification-policies/{}", self.target_url, super::world::POLICY);
        let dir = self.dir.display();
        say(&format!(
            "\nThe cluster and the target go on running. Play with them:\n  \
             export RINGFENCE_DIR={dir}\n  \
             ringfence cluster status\n  \
             curl -i {policy}\n  \
             ringfence lease exec --scope notification-policy/{policy_id} -- sh -c 'curl -i -X PATCH {policy} \\\n    \
             -H \"Ringfence-Grant: $RINGFENCE_GRANT\" -H \"If-Match: $(curl -si {policy} | sed -n \"s/^etag: //Ip\" | tr -d \"\\r\")\" \\\n    \
             -H \"Idempotency-Key: try-1\" -H \"Content-Type: application/json\" -d \"{{\\\"severity\\\":\\\"low\\\"}}\"'\n\
             Start the node that was killed again (its number is in scene 3):\n  \
             ringfence serve --config {dir}/node-N.toml\n\
             Stop everything (and what you have started yourself), and remove it:\n  \
             kill {up} {target}\n  \
             rm -r {dir}",
            policy_id = super::world::POLICY,
        ))
    }
}

/// Starts a process and waits for the line that says that it is ready; gives the rest of that line.
async fn start(
    place: &mut Option<Child>,
    mut command: Command,
    log: &Path,
    ready: &str,
) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::local(&format!("{:?}", command.as_std().get_program()), error);
    let file = File::create(log).map_err(failed)?;
    // A group of its own: Ctrl-C reaches the demo, which stops the others in order.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
    let mut child = command.spawn().map_err(|error| Failure::local("a process can't be started", error))?;
    let out = child.stdout.take();
    *place = Some(child);
    let line = async {
        let mut lines = BufReader::new(out?).lines();
        while let Some(line) = lines.next_line().await.ok()? {
            if let Some(rest) = line.strip_prefix(ready) {
                return Some(rest.to_owned());
            }
        }
        None
    };
    let said = timeout(START_LIMIT, line).await.ok().flatten();
    said.ok_or_else(|| {
        let wrote = fs::read_to_string(log).unwrap_or_default();
        Failure::Local(format!("it did not come up; it wrote:\n{wrote}"))
    })
}

/// Asks a process to stop, and kills it where it doesn't. Whether it stopped by itself.
async fn stop(child: &mut Child) -> bool {
    if let Some(pid) = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
        kill_process(pid, Signal::TERM).ok();
    }
    let stopped = timeout(STOP_LIMIT, child.wait()).await.is_ok();
    if !stopped {
        child.kill().await.ok();
    }
    stopped
}
