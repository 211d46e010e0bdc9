//! `ringfence lease exec`
use crate::local::{Local, lives, stderr, stdout, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const SCOPE: &str = "release/prod-eu";

fn exec(local: &Local, options: &[&str], script: &str) -> Command {
    let mut command = local.command(&["lease", "exec", "--scope", SCOPE]);
    command.args(options).args(["--", "sh", "-c", script]).current_dir(local.dir());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The pids that a script has written to this file, once there are so many.
fn pids(file: &Path, count: usize) -> Vec<Pid> {
    let mut found = Vec::new();
    until("the script has written its pids", || {
        let text = fs::read_to_string(file).unwrap_or_default();
        found = text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect();
        found.len() == count
    });
    found
}

fn leases(local: &Local, state: &str) -> Vec<Value> {
    local.json(&["lease", "list", "--state", state])["items"].as_array().unwrap().clone()
}

fn finish(child: Child) -> (Option<i32>, String) {
    let done = child.wait_with_output().unwrap();
    (done.status.code(), stderr(&done))
}

/// A process that hides: a session of its own, and deaf to SIGTERM.
const HIDDEN_CHILD: &str = r#"setsid sh -c 'trap "" TERM; echo $$ >> pids; for i in $(seq 600); do sleep 0.1; done' >/dev/null 2>&1 & echo $$ >> pids; "#;

#[test]
fn the_command_finds_fence_and_grant_and_its_exit_code_is_passed_on() {
    let local = Local::start();
    let script = r#"
        test "$(cat "$RINGFENCE_GRANT_FILE")" = "$RINGFENCE_GRANT" || exit 90
        test "$(stat -c %a "$RINGFENCE_GRANT_FILE")" = 600 || exit 91
        test "$(stat -c %a "$(dirname "$RINGFENCE_GRANT_FILE")")" = 700 || exit 92
        echo "$RINGFENCE_FENCE $RINGFENCE_LEASE $RINGFENCE_GRANT_FILE"
        exit 7"#;
    let done = exec(&local, &["--purpose", "try"], script).output().unwrap();
    assert_eq!(done.status.code(), Some(7), "{}", stderr(&done));
    let said = stdout(&done);
    let words: Vec<&str> = said.split_whitespace().collect();
    let lease = local.json(&["lease", "show", words[1]]);
    assert_eq!(lease["fence"].to_string(), words[0]);
    assert_eq!((lease["reason"].as_str(), lease["purpose"].as_str()), (Some("released"), Some("try")));
    assert!(!Path::new(words[2]).parent().unwrap().exists());
    let runs = local.json(&["run", "list"]);
    assert_eq!(runs["items"][0]["state"], "ended", "the run was created for the command alone");
    assert_eq!(runs["items"][0]["allow"], serde_json::json!([SCOPE]));
}

#[test]
fn a_run_that_is_named_or_is_the_credential_lives_on() {
    let local = Local::start();
    let run = local.json(&["run", "create", "mine"]);
    let (id, token) = (run["id"].as_str().unwrap(), run["token"].as_str().unwrap());
    assert!(exec(&local, &["--run", id], "true").status().unwrap().success());
    assert!(exec(&local, &["--token", token], "true").status().unwrap().success());
    assert_eq!(local.json(&["run", "show", id])["state"], "active");
    assert!(leases(&local, "held").is_empty());
    assert_eq!(leases(&local, "ended").len(), 2);
}

#[test]
fn the_command_does_not_run_without_the_lease() {
    let local = Local::start();
    let run = local.json(&["run", "create", "holder"]);
    local.json(&["lease", "acquire", "--run", run["id"].as_str().unwrap(), "--scope", SCOPE]);
    let done = exec(&local, &[], "touch ran").output().unwrap();
    assert_eq!(done.status.code(), Some(3), "{}", stderr(&done));
    assert!(!local.dir().join("ran").exists());
    let missing =
        local.command(&["lease", "exec", "--scope", "a/b", "--", "no-such-command"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(127), "{}", stderr(&missing));
    assert_eq!(leases(&local, "held").len(), 1, "only the holder's");
}

#[test]
fn each_renewal_brings_a_new_grant_to_the_file() {
    let local = Local::start();
    let script = r#"while test "$(cat "$RINGFENCE_GRANT_FILE")" = "$RINGFENCE_GRANT"; do sleep 0.05; done"#;
    let started = Instant::now();
    let done = exec(&local, &["--ttl-ms", "1000"], script).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_revoked_run_stops_the_command_and_all_its_children() {
    let local = Local::start();
    let script = format!("{HIDDEN_CHILD} trap '' TERM; while :; do sleep 0.1; done");
    let child = exec(&local, &["--ttl-ms", "2000"], &script).spawn().unwrap();
    let family = pids(&local.dir().join("pids"), 2);
    let held = leases(&local, "held");
    local.json(&["run", "revoke", held[0]["run"].as_str().unwrap(), "--reason", "stop it"]);
    let (code, said) = finish(child);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("lost"), "{said}");
    assert!(!family.into_iter().any(lives), "a child lives on");
}

#[test]
fn a_cluster_that_is_gone_stops_the_command_before_the_lease_could_be_anothers() {
    const TTL: Duration = Duration::from_secs(5);
    let local = Local::start();
    let script = format!("{HIDDEN_CHILD} trap '' TERM; while :; do sleep 0.1; done");
    let child = exec(&local, &["--ttl-ms", "5000"], &script).spawn().unwrap();
    let family = pids(&local.dir().join("pids"), 2);
    for node in local.node_pids() {
        kill_process(node, Signal::STOP).unwrap();
    }
    // No renewal can have been answered after this: the lease ends at the latest a ttl from here.
    let cut_off = Instant::now();
    until("the command is gone", || !family.iter().copied().any(lives));
    let took = cut_off.elapsed();
    for node in local.node_pids() {
        kill_process(node, Signal::CONT).unwrap();
    }
    let (code, said) = finish(child);
    assert_eq!(code, Some(3), "{said}");
    assert!(took < TTL, "gone after {took:?}");
}

#[test]
fn a_signal_is_passed_on_and_the_lease_released() {
    let local = Local::start();
    let script = "trap 'exit 42' TERM; echo $$ > pids; while :; do sleep 0.1; done";
    let child = exec(&local, &[], script).spawn().unwrap();
    pids(&local.dir().join("pids"), 1);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let (code, said) = finish(child);
    assert_eq!(code, Some(42), "{said}");
    assert_eq!(leases(&local, "ended")[0]["reason"], "released");
}

#[test]
fn what_the_command_leaves_running_does_not_outlive_the_lease() {
    let local = Local::start();
    let script = format!("{HIDDEN_CHILD} until test $(wc -l < pids) = 2; do sleep 0.05; done; exit 5");
    let child = exec(&local, &["--ttl-ms", "2000"], &script).spawn().unwrap();
    let family = pids(&local.dir().join("pids"), 2);
    let (code, said) = finish(child);
    assert_eq!(code, Some(5), "{said}");
    assert!(!family.into_iter().any(lives));
}
