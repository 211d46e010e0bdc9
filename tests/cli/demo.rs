//! `ringfence demo`
use crate::local::{lives, pid, ringfence, stderr, stdout};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

fn demo(temporary: &Path) -> Command {
    let target =
        Path::new(env!("CARGO_BIN_EXE_ringfence")).with_file_name("examples").join("notification-policy");
    assert!(target.exists(), "{} is missing: run `cargo build --examples` first", target.display());
    let mut demo = ringfence();
    demo.arg("demo").env("TMPDIR", temporary);
    demo
}

#[test]
fn all_scenes_are_played_and_nothing_is_left() {
    let temporary = tempfile::tempdir().unwrap();
    let done = demo(temporary.path()).output().unwrap();
    let said = stdout(&done);
    assert!(done.status.success(), "{said}\n{}", stderr(&done));
    let judged: Vec<&str> = said.lines().filter(|line| line.starts_with("PASS  ")).collect();
    assert_eq!(judged.len(), 4, "{said}");
    for (line, seen) in judged.iter().zip([
        "412 stale_version",
        "409 stale_fence",
        "the lease, read at another node: 200",
        "Idempotency-Replayed: true",
    ]) {
        assert!(line.contains(seen), "{line}");
    }
    assert!(!said.contains("FAIL"), "{said}");
    assert!(fs::read_dir(temporary.path()).unwrap().next().is_none(), "a folder is left");
}

#[test]
fn no_credential_is_shown_in_full() {
    let temporary = tempfile::tempdir().unwrap();
    let said = stdout(&demo(temporary.path()).output().unwrap());
    for word in said.split(|character: char| !character.is_ascii_alphanumeric() && character != '_') {
        assert!(!(word.starts_with("eyJ") && word.len() > 4), "{word}");
        assert!(!word.starts_with("rft_") || word.len() == 4, "{word}");
    }
}

/// Reads what a demo says up to a line that contains `text`; gives the cluster's folder.
fn read_until(out: &mut impl BufRead, text: &str) -> PathBuf {
    let mut dir = PathBuf::new();
    for line in out.lines() {
        let line = line.unwrap();
        if let Some((_, rest)) = line.split_once("three nodes in ") {
            dir = PathBuf::from(rest.trim_end_matches(" …"));
        }
        if line.contains(text) {
            break;
        }
    }
    dir
}

#[test]
fn an_interrupted_demo_takes_its_processes_along() {
    let temporary = tempfile::tempdir().unwrap();
    let mut demo = demo(temporary.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(demo.stdout.take().unwrap());
    let dir = read_until(&mut out, "== 1.");
    let file: Value = serde_json::from_slice(&fs::read(dir.join("cluster.json")).unwrap()).unwrap();
    let nodes: Vec<Pid> = file["nodes"].as_array().unwrap().iter().map(|node| pid(&node["pid"])).collect();
    assert!(nodes.iter().copied().all(lives));
    kill_process(Pid::from_child(&demo), Signal::INT).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(1));
    assert!(!nodes.into_iter().any(lives));
}
