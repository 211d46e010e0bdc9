//! Test data that nobody here wrote, read from the folder that `RINGFENCE_VECTORS` names.
//!
//! Without the variable these tests have nothing to read and say so; with it, a missing file fails them.
#![cfg(all(feature = "jws", feature = "headers"))]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that can't go on has failed, and says why"
)]
use std::{
    fs,
    path::{Path, PathBuf},
};

mod ed25519;
mod json;
mod structured_fields;

/// The folder of a set of vectors; `None` where no vectors were named at all.
fn vectors(set: &str) -> Option<PathBuf> {
    let Some(root) = std::env::var_os("RINGFENCE_VECTORS") else {
        println!("RINGFENCE_VECTORS is not set: nothing to check");
        return None;
    };
    let folder = Path::new(&root).join(set);
    assert!(folder.is_dir(), "{} is missing", folder.display());
    Some(folder)
}

fn read_json(file: &Path) -> serde_json::Value {
    let text = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_slice(&text).unwrap()
}

fn hex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2));
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
