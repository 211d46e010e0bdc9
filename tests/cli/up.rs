//! `ringfence up`
use crate::local::{Local, lives, ringfence, stderr, until};
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
};

fn members(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

fn mode(local: &Local, name: &str) -> u32 {
    fs::metadata(local.dir().join(name)).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_local_cluster_says_when_it_is_ready_and_leaves_what_its_owner_needs() {
    let local = Local::start();
    let file = local.cluster_json();
    assert_eq!(members(&file), ["cluster", "nodes", "tokens"]);
    assert_eq!(
        members(&file["tokens"]),
        ["admin", "approver", "auditor", "operator", "orchestrator", "target"]
    );
    let nodes = file["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 3);
    for node in nodes {
        assert_eq!(members(node), ["api", "config", "data_dir", "id", "peer", "pid"]);
    }
    let urls: Vec<&str> = nodes.iter().map(|node| node["api"].as_str().unwrap()).collect();
    assert_eq!(local.ready, urls.join(","));
    for name in ["cluster.json", "signing.pem", "operator.token"] {
        assert_eq!(mode(&local, name), 0o600, "{name}");
    }
    let status = local.json(&["cluster", "status"]);
    assert_eq!(status["cluster"], file["cluster"]);
    assert!(status["leader"].is_u64(), "{status}");
}

#[test]
fn each_role_has_a_token_that_serves_it() {
    let local = Local::start();
    for role in ["operator", "admin", "orchestrator", "target", "approver", "auditor"] {
        local.json(&["cluster", "status", "--role", role]);
    }
    local.json(&["run", "create", "a run"]);
    let made = local.json(&["token", "create", "other", "--as", "target"]);
    assert_eq!(made["principal"], "target:other");
    let token = made["id"].as_str().unwrap();
    assert!(local.command(&["token", "delete", token]).status().unwrap().success());
    let left = local.json(&["token", "list"]);
    assert!(left["items"].as_array().unwrap().iter().all(|token| token["id"] != made["id"]), "{left}");
}

#[test]
fn the_same_folder_is_the_same_cluster_after_everything_was_killed() {
    let mut local = Local::start();
    let run = local.json(&["run", "create", "long"]);
    let run = run["id"].as_str().unwrap();
    let lease =
        local.json(&["lease", "acquire", "--run", run, "--scope", "release/prod-eu", "--ttl-ms", "600000"]);
    let before = local.cluster_json();
    local.kill_all();
    local.start_again();
    let after = local.cluster_json();
    assert_eq!((&before["cluster"], &before["tokens"]), (&after["cluster"], &after["tokens"]));
    for (old, new) in before["nodes"].as_array().unwrap().iter().zip(after["nodes"].as_array().unwrap()) {
        assert_eq!((&old["id"], &old["api"], &old["peer"]), (&new["id"], &new["api"], &new["peer"]));
        assert_ne!(old["pid"], new["pid"]);
    }
    let shown = local.json(&["lease", "show", lease["id"].as_str().unwrap()]);
    assert_eq!((&shown["state"], &shown["fence"]), (&Value::from("held"), &lease["fence"]));
}

#[test]
fn a_second_up_in_a_folder_is_refused_and_the_first_goes_on() {
    let local = Local::start();
    let second = ringfence().args(["up", "--dir"]).arg(local.dir()).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(stderr(&second).contains("another `ringfence up` runs in"), "{}", stderr(&second));
    local.json(&["cluster", "status"]);
}

#[test]
fn what_was_chosen_for_a_folder_is_not_changed_silently() {
    let mut local = Local::start();
    local.stop();
    for (option, value, named) in [("--nodes", "5", "3 nodes"), ("--port", "7101", "port")] {
        let done = ringfence().args(["up", option, value, "--dir"]).arg(local.dir()).output().unwrap();
        assert_eq!(done.status.code(), Some(2), "{}", stderr(&done));
        assert!(stderr(&done).contains(named), "{}", stderr(&done));
    }
}

#[test]
fn a_port_in_use_is_named_with_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut up = ringfence();
    up.args(["up", "--port", &address.port().to_string(), "--dir"]).arg(folder.path());
    let refused = up.output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let said = stderr(&refused);
    assert!(said.contains(&address.to_string()) && said.contains("--port 0"), "{said}");
}

#[test]
fn a_node_that_dies_is_reported_and_the_command_that_is_named_starts_it_again() {
    let local = Local::start();
    let file = local.cluster_json();
    let node = &file["nodes"][1];
    kill_process(local.node_pids()[1], Signal::KILL).unwrap();
    let command = format!("ringfence serve --config {}", node["config"].as_str().unwrap());
    until("the death is reported", || local.log().contains(&command));
    let api = node["api"].as_str().unwrap().trim_start_matches("http://").to_owned();
    assert!(TcpStream::connect(&api).is_err(), "it was started again");
    local.json(&["run", "create", "the others go on"]);
    let mut serve =
        ringfence().args(["serve", "--config", node["config"].as_str().unwrap()]).spawn().unwrap();
    until("the node is back", || TcpStream::connect(&api).is_ok());
    kill_process(rustix::process::Pid::from_child(&serve), Signal::TERM).unwrap();
    assert!(serve.wait().unwrap().success());
}

#[test]
fn a_stop_stops_the_nodes_and_whoever_kills_up_alone_is_told_what_still_runs() {
    let mut local = Local::start();
    let nodes = local.node_pids();
    assert_eq!(local.stop(), Some(0));
    assert!(!nodes.into_iter().any(lives));

    local.start_again();
    local.kill_up();
    local.json(&["cluster", "status"]);
    let again = ringfence().args(["up", "--dir"]).arg(local.dir()).output().unwrap();
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("cluster.json has their pids"), "{}", stderr(&again));
    local.kill_nodes();
}

#[test]
fn an_option_of_serve_wins_over_the_file() {
    let local = Local::start();
    let config = local.dir().join("node-1.toml");
    let mut serve = ringfence();
    let done = serve.args(["serve", "--node-id", "0", "--config"]).arg(config).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(stderr(&done).contains("node.id"), "{}", stderr(&done));
}
