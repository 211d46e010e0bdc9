//! The command that runs under a lease, with all its children.
//!
//! **Owns** the command's process group. This process is made the reaper of whatever the command leaves behind, so also
//! a child that has made a session of its own is found and stopped.
use crate::cli::failure::Failure;
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group, set_child_subreaper};
use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs, io,
    process::ExitStatus,
    time::{Duration, Instant},
};
use tokio::process::{Child, Command};

/// How often it is looked at whether all are gone.
const POLL: Duration = Duration::from_millis(5);
/// How long what can't be killed (a process in an uninterruptible wait) is waited for.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// A running command and its children.
pub(super) struct Family {
    child: Child,
    group: Option<Pid>,
}

impl Family {
    /// Starts a command in a process group of its own.
    ///
    /// # Errors
    /// [`Failure::Command`] where it can't be started.
    pub(super) fn start(
        command: &[OsString],
        variables: &[(&'static str, OsString)],
    ) -> Result<Self, Failure> {
        let (program, arguments) = command.split_first().expect("clap asks for at least one word");
        let failed = |source| Failure::Command { command: program.to_string_lossy().into_owned(), source };
        set_child_subreaper(Some(getpid())).map_err(|error| failed(error.into()))?;
        let mut command = Command::new(program);
        command.args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
        let child = command.process_group(0).kill_on_drop(true).spawn().map_err(failed)?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok());
        Ok(Self { child, group: pid.and_then(Pid::from_raw) })
    }

    /// Waits until the command itself has ended. Cancel safe.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Sends a signal to the command's process group.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // A group that has just ended needs no signal.
            kill_process_group(group, signal).ok();
        }
    }

    /// Stops the command and all its children: TERM, and after `grace` KILL. Returns at once where none is left.
    pub(super) async fn stop(&mut self, grace: Duration) {
        if self.is_gone() {
            return;
        }
        self.signal_all(Signal::TERM);
        if self.gone_within(grace).await {
            return;
        }
        let started = Instant::now();
        while !self.is_gone() && started.elapsed() < KILL_LIMIT {
            // Again and again: a child may have been born since the last look.
            self.signal_all(Signal::KILL);
            tokio::time::sleep(POLL).await;
        }
        if !self.is_gone() {
            tracing::error!("a child of the command can't be killed");
        }
    }

    async fn gone_within(&mut self, limit: Duration) -> bool {
        let started = Instant::now();
        while started.elapsed() < limit {
            if self.is_gone() {
                return true;
            }
            tokio::time::sleep(POLL).await;
        }
        false
    }

    fn is_gone(&mut self) -> bool {
        let running = self.child.try_wait().is_ok_and(|status| status.is_none());
        !running && descendants().is_empty()
    }

    fn signal_all(&self, signal: Signal) {
        self.signal(signal);
        for pid in descendants() {
            // It may have ended since it was found; its number isn't used again before it is reaped.
            kill_process(pid, signal).ok();
        }
    }
}

/// All live processes below this one. They are the command's: nothing else is started here.
fn descendants() -> Vec<Pid> {
    let all = parents();
    let mut known = BTreeSet::from([getpid().as_raw_pid()]);
    loop {
        let below = all.iter().filter(|process| known.contains(&process.parent));
        let grown: BTreeSet<i32> = below.map(|process| process.pid).chain(known.iter().copied()).collect();
        if grown.len() == known.len() {
            break;
        }
        known = grown;
    }
    let live = all.iter().filter(|process| process.live && known.contains(&process.pid));
    live.filter(|process| process.pid != getpid().as_raw_pid())
        .filter_map(|process| Pid::from_raw(process.pid))
        .collect()
}

struct Process {
    pid: i32,
    parent: i32,
    live: bool,
}

fn parents() -> Vec<Process> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    let pid = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    folder.filter_map(pid).filter_map(read_process).collect()
}

/// proc_pid_stat(5): `pid (name) state ppid …`; the name may have blanks and parentheses of its own.
fn read_process(pid: i32) -> Option<Process> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let (_, fields) = text.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let live = !matches!(fields.next()?, "Z" | "X");
    Some(Process { pid, parent: fields.next()?.parse().ok()?, live })
}
