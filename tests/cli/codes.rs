//! What commands answer, and their exit codes.
use crate::local::{Local, ringfence, stderr, stdout};

/// A port that no test ever listens on.
const NOBODY: &str = "http://127.0.0.1:1";

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    for arguments in [
        &["lease", "acquire"][..],
        &["lease", "acquire", "--scope", "a//b"],
        &["run", "show", "lse_01JD5ZJ5H6S9W3V4R0K2M8N7QX"],
        &["nonsense"],
        &["run", "list"],
        &["run", "list", "--url", "ftp://a:1", "--token", "t"],
    ] {
        let done = ringfence().args(arguments).output().unwrap();
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {}", stderr(&done));
        assert!(done.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_conflict_is_3_and_says_who_holds_what() {
    let local = Local::start();
    let run = local.json(&["run", "create", "holder"]);
    let other = local.json(&["run", "create", "other"]);
    let acquire = |run: &serde_json::Value, purpose: &str| {
        let run = run["id"].as_str().unwrap();
        let arguments =
            ["lease", "acquire", "--run", run, "--scope", "release/prod-eu", "--purpose", purpose];
        local.command(&arguments).args(["--output", "json"]).output().unwrap()
    };
    let held = acquire(&run, "roll out a1b2c3");
    let held: serde_json::Value = serde_json::from_slice(&held.stdout).unwrap();
    let refused = acquire(&other, "me too");
    assert_eq!(refused.status.code(), Some(3));
    let said = stderr(&refused);
    for part in [
        "write_set_conflict",
        "release/prod-eu:exclusive",
        run["id"].as_str().unwrap(),
        held["id"].as_str().unwrap(),
        "roll out a1b2c3",
        "next:",
        "request",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let lease = held["id"].as_str().unwrap();
    local.json(&["lease", "renew", lease]);
    local.json(&["lease", "release", lease]);
    let over = local.command(&["lease", "renew", lease]).output().unwrap();
    assert_eq!(over.status.code(), Some(3), "410: {}", stderr(&over));
    let unknown = local.command(&["lease", "show", "lse_01JD5ZJ5H6S9W3V4R0K2M8N7QX"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(1), "404: {}", stderr(&unknown));
}

#[test]
fn what_is_not_allowed_is_4() {
    let local = Local::start();
    let forbidden = local.command(&["run", "create", "x", "--role", "auditor"]).output().unwrap();
    assert_eq!(forbidden.status.code(), Some(4), "{}", stderr(&forbidden));
    let unknown = local.command(&["run", "list", "--token", "nobody"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(4), "{}", stderr(&unknown));
    assert!(!stderr(&unknown).contains("nobody"), "{}", stderr(&unknown));
}

#[test]
fn nobody_there_is_5() {
    let done = ringfence().args(["run", "list", "--url", NOBODY, "--token", "t"]).output().unwrap();
    assert_eq!(done.status.code(), Some(5), "{}", stderr(&done));
    assert!(stderr(&done).contains("next:"), "{}", stderr(&done));
}

#[test]
fn json_is_the_body_of_the_api_and_a_key_gives_the_first_outcome() {
    let local = Local::start();
    let create = ["run", "create", "once", "--allow", "config/eu/**", "--idempotency-key", "k-1"];
    let (first, again) = (local.json(&create), local.json(&create));
    assert_eq!(first["id"], again["id"]);
    assert_eq!(first["allow"], serde_json::json!(["config/eu/**"]));
    let listed = local.json(&["run", "list", "--state", "active"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert!(listed["next_cursor"].is_null());
    let other = local.command(&["run", "create", "twice", "--idempotency-key", "k-1"]).output().unwrap();
    assert_eq!(other.status.code(), Some(3), "{}", stderr(&other));
}

#[test]
fn a_table_has_a_header_and_a_line_for_each() {
    let local = Local::start();
    let run = local.json(&["run", "create", "seen"]);
    let shown = stdout(&local.command(&["run", "list"]).output().unwrap());
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 2, "{shown}");
    assert!(lines[0].starts_with("RUN"), "{shown}");
    assert_eq!(lines[1].split_whitespace().next(), run["id"].as_str());
    let ended = local.json(&["run", "end", run["id"].as_str().unwrap()]);
    assert_eq!(ended["state"], "ended");
}

#[test]
fn url_and_token_win_over_the_folder() {
    let local = Local::start();
    let file = local.cluster_json();
    let (url, token) =
        (file["nodes"][2]["api"].as_str().unwrap(), file["tokens"]["auditor"].as_str().unwrap());
    let mut command = local.command(&["run", "create", "x"]);
    let refused = command.env("RINGFENCE_URL", url).env("RINGFENCE_TOKEN", token).output().unwrap();
    assert_eq!(refused.status.code(), Some(4), "{}", stderr(&refused));
    let mut command = local.command(&["cluster", "status"]);
    let nobody = command.env("RINGFENCE_URL", NOBODY).output().unwrap();
    assert_eq!(nobody.status.code(), Some(5), "{}", stderr(&nobody));
}
