//! Where the example target is, and how it is built where it isn't there yet.
use super::wire::say;
use crate::cli::failure::Failure;
use std::path::{Path, PathBuf};
use tokio::process::Command;

const NAME: &str = "notification-policy";

/// The program of the target: the one that was named, the one beside this program, or a new build.
///
/// # Errors
/// Where there is none and none can be built; says how to get one.
pub(super) async fn target_binary(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(file) = named {
        return found(file.to_owned());
    }
    let me = std::env::current_exe().map_err(|error| Failure::local("this program", error))?;
    let folder = me.parent().unwrap_or_else(|| Path::new("."));
    let beside = folder.join("examples").join(NAME);
    if beside.is_file() {
        return Ok(beside);
    }
    match (source_tree(folder), profile(folder)) {
        (Some(tree), Some(release)) => {
            build(&tree, folder, release).await?;
            found(beside)
        }
        _ => Err(Failure::Local(format!(
            "there is no {}: build the target with `cargo build --release --example {NAME}` in ringfence's sources, and \
             name it with --target-bin",
            beside.display()
        ))),
    }
}

fn found(file: PathBuf) -> Result<PathBuf, Failure> {
    if file.is_file() { Ok(file) } else { Err(Failure::Local(format!("{} is not there", file.display()))) }
}

/// Whether this program lies where cargo puts a release build or another one.
fn profile(folder: &Path) -> Option<bool> {
    match folder.file_name()?.to_str()? {
        "release" => Some(true),
        "debug" => Some(false),
        _ => None,
    }
}

/// The sources: around the working directory, or around this program.
fn source_tree(folder: &Path) -> Option<PathBuf> {
    let here = std::env::current_dir().ok();
    let starts = here.iter().map(PathBuf::as_path).chain([folder]);
    let mut folders = starts.flat_map(Path::ancestors);
    folders
        .find(|folder| folder.join("examples").join(NAME).with_extension("rs").is_file())
        .map(Path::to_owned)
}

async fn build(tree: &Path, folder: &Path, release: bool) -> Result<(), Failure> {
    let mut command = Command::new("cargo");
    command.args(["build", "--example", NAME]).current_dir(tree).kill_on_drop(true);
    if release {
        command.arg("--release");
    }
    if let Some(target_dir) = folder.parent() {
        command.arg("--target-dir").arg(target_dir);
    }
    say(&format!("Building the target: cargo build --example {NAME} (in {})", tree.display()))?;
    let status = command.status().await.map_err(|error| Failure::local("cargo can't be started", error))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Local(format!("building the target failed: {status}")))
    }
}
