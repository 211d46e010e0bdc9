//! `ringfence up`: a local cluster, one real process a node, until interrupted.
mod layout;
mod nodes;

use super::{failure::Failure, local::ClusterFile, output, signals::Signals};
use crate::{
    clock,
    storage::lock::{FolderLock, LockError},
};
use clap::Args;
use layout::Layout;
use nodes::Nodes;
use ringfence_client::Client;
use ringfence_protocol::{
    Name, Role,
    body::{ClusterStatus, CreateToken},
};
use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// How long the cluster may take to find a leader.
const READY_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// Run a local cluster, one process a node, until interrupted.
///
/// It prints `ready` and the nodes' addresses once there is a leader; DIR/cluster.json then has tokens for all roles and the
/// nodes' pids. The same DIR is the same cluster, whatever has been killed in between. A node that dies is reported, not
/// started again. Where this process is killed (SIGKILL), its nodes go on: stop them by the pids in cluster.json.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ringfence up
  ringfence up --port 0 --dir /tmp/try & RINGFENCE_DIR=/tmp/try ringfence cluster status")]
pub(crate) struct UpArgs {
    /// How many nodes; an odd number. Absent: three, or as many as the folder has.
    #[arg(long)]
    nodes: Option<u16>,
    /// Where everything is kept; the same folder is the same cluster.
    #[arg(long, default_value = "ringfence-data")]
    dir: PathBuf,
    /// The first node's API port, the next ones after it; peers listen 100 above. 0: the system chooses. It is chosen once:
    /// absent, a new folder has 7101, one that was used before keeps its ports.
    #[arg(long)]
    port: Option<u16>,
}

/// Runs until interrupted.
///
/// # Errors
/// [`Failure`], after the nodes that were started have been stopped.
pub(crate) async fn run(args: UpArgs) -> Result<ExitCode, Failure> {
    if args.nodes.is_some_and(|nodes| !(1..=9).contains(&nodes)) {
        return Err(Failure::Usage("--nodes takes 1 to 9".to_owned()));
    }
    let dir = open_folder(&args.dir)?;
    let _lock = FolderLock::acquire(&dir).map_err(|error| locked(&error))?;
    let layout = Layout::open(&dir, args.nodes, args.port)?;
    let configs = layout
        .write_configs(&dir)
        .map_err(|error| Failure::local("configurations can't be written", error))?;
    let mut signals = Signals::listen()?;
    let known =
        if dir.join(super::local::CLUSTER_FILE).exists() { Some(ClusterFile::read(&dir)?) } else { None };
    let mut nodes = Nodes::start(configs, known.is_none())?;
    let outcome = tokio::select! {
        // Whatever it was doing: the nodes are stopped below, and the next start goes on from what is on the disk.
        _ = signals.next() => Ok(()),
        outcome = serve(&dir, &mut nodes, known) => outcome,
    };
    nodes.stop().await;
    outcome.map(|()| ExitCode::SUCCESS)
}

fn locked(error: &LockError) -> Failure {
    Failure::Local(match error {
        LockError::InUse { folder } => format!(
            "another `ringfence up` runs in {0}: use its cluster (RINGFENCE_DIR={0}), stop it, or choose another --dir",
            folder.display()
        ),
        LockError::Io { .. } => error.to_string(),
    })
}

fn open_folder(dir: &Path) -> Result<PathBuf, Failure> {
    let failed = |error| Failure::local(&format!("{} can't be used", dir.display()), error);
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    fs::canonicalize(dir).map_err(failed)
}

async fn serve(dir: &Path, nodes: &mut Nodes, known: Option<ClusterFile>) -> Result<(), Failure> {
    let operator = layout::operator_token(dir)?;
    let urls: Vec<String> = nodes.list().into_iter().map(|node| node.api).collect();
    let client = Client::new(urls.clone(), &operator).map_err(|error| Failure::local("no client", error))?;
    let status = until_led(&client, nodes).await?;
    let tokens = match known {
        Some(known) => known.tokens,
        None => make_tokens(&client, &operator).await?,
    };
    let file = ClusterFile { cluster: status.cluster, nodes: nodes.list(), tokens };
    file.write(dir).map_err(|error| Failure::local("cluster.json can't be written", error))?;
    output::line(&format!("ready {}", urls.join(",")))
        .map_err(|error| Failure::local("can't say ready", error))?;
    nodes.watch().await;
    Ok(())
}

/// Waits until the cluster answers and has a leader, as long as all nodes run.
async fn until_led(client: &Client, nodes: &mut Nodes) -> Result<ClusterStatus, Failure> {
    let started = clock::monotonic();
    loop {
        nodes.all_running()?;
        match client.cluster().await {
            Ok(answer) if answer.body.leader.is_some() => return Ok(answer.body),
            Err(error) if started.elapsed() > READY_LIMIT => return Err(error.into()),
            Ok(_) if started.elapsed() > READY_LIMIT => {
                return Err(Failure::Local("the nodes run, but find no leader; see their logs".to_owned()));
            }
            Ok(_) | Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}

/// A token for each role of the tenant `default`: the operator makes the admin's, the admin the others.
async fn make_tokens(client: &Client, operator: &str) -> Result<BTreeMap<Role, String>, Failure> {
    let admin = make_token(client, Role::Admin).await?;
    let by_admin = client.with_token(&admin).map_err(|error| Failure::local("no client", error))?;
    let mut tokens = BTreeMap::from([(Role::Operator, operator.to_owned()), (Role::Admin, admin)]);
    for role in [Role::Orchestrator, Role::Target, Role::Approver, Role::Auditor] {
        tokens.insert(role, make_token(&by_admin, role).await?);
    }
    Ok(tokens)
}

async fn make_token(client: &Client, role: Role) -> Result<String, Failure> {
    let name: Name = "local".parse().expect("a name");
    let tenant = Some("default".parse().expect("a tenant"));
    let made = client.create_token(&CreateToken { name, role, tenant }, None).await?;
    made.body.secret.ok_or_else(|| Failure::Local("a token came without its secret".to_owned()))
}
