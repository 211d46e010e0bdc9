//! The command line.
//!
//! In reading order: `target` (which cluster, as whom), `failure` (what went wrong, and the exit code), `show` (tables
//! and JSON), `output` (the process's streams), then one file a command; `up` is the local cluster, `exec` holds a
//! lease while a command runs, `demo` plays and judges.
mod demo;
mod exec;
mod failure;
mod keygen;
mod keys;
mod lease;
mod local;
mod output;
mod run;
mod serve;
mod show;
mod signals;
mod target;
mod token;
mod up;

use clap::{Parser, Subcommand};
use failure::Failure;
use ringfence_protocol::{ResourceId, Role};
use show::{Output, show};
use std::{future::Future, path::PathBuf, process::ExitCode};
use target::Target;

/// Fenced leases for agent runs, and the refusal of stale writes at the target.
#[derive(Debug, Parser)]
#[command(name = "ringfence", version, about, after_help = HELP)]
struct Cli {
    #[command(flatten)]
    target: Target,
    /// Columns for people, or the API's own body as it came, one JSON document.
    #[arg(long, global = true, value_enum, default_value_t = Output::Table, help_heading = "How answers are shown")]
    output: Output,
    #[command(subcommand)]
    command: Command,
}

const HELP: &str = "Examples:
  ringfence up                                   a local cluster of three nodes, kept in ./ringfence-data
  export RINGFENCE_DIR=ringfence-data            the commands below find nodes and tokens there
  ringfence run create deploy --allow 'release/**'
  ringfence lease exec --scope release/prod-eu -- ./deploy.sh
  ringfence demo                                 what a collision, a stale holder and a lost leader come to

Exit codes: 0 done, 1 failed, 2 usage, 3 conflict or stale, 4 not allowed, 5 no leader or unreachable.
RINGFENCE_LOG takes the directives of a tracing filter, such as `debug`.";

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    Up(up::UpArgs),
    Demo(demo::DemoArgs),
    #[command(hide = true)]
    DemoAgent(demo::AgentArgs),
    #[command(subcommand)]
    Run(run::RunCommand),
    #[command(subcommand)]
    Lease(lease::LeaseCommand),
    /// Who holds what.
    #[command(subcommand)]
    Resource(ResourceCommand),
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// The cluster itself.
    #[command(subcommand)]
    Cluster(ClusterCommand),
}

#[derive(Debug, Subcommand)]
enum ResourceCommand {
    /// Show who holds a resource.
    Show {
        /// Which.
        resource: ResourceId,
    },
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Show the nodes and who leads.
    Status,
    /// Make a signing key.
    Keygen {
        /// Where to write it; must not be there yet.
        file: PathBuf,
    },
}

/// Parses what was typed, does it, and says how it went.
#[must_use]
pub fn main() -> ExitCode {
    init_log();
    execute(Cli::parse()).unwrap_or_else(|failure| failure.report())
}

/// Logs go to standard error. `RINGFENCE_LOG` takes the directives of tracing's filter.
fn init_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("RINGFENCE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,openraft=warn,ringfence_client=warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
}

fn execute(cli: Cli) -> Result<ExitCode, Failure> {
    let Cli { target, output, command } = cli;
    match command {
        Command::Serve(args) => serve::run(args),
        Command::Up(args) => block_on(up::run(args)),
        Command::Demo(args) => block_on(demo::run(args)),
        Command::DemoAgent(args) => block_on(demo::agent(args, &target)),
        Command::Run(command) => block_on(run::run(command, &target, output)),
        Command::Lease(command) => block_on(lease::run(command, &target, output)),
        Command::Token(command) => block_on(token::run(command, &target, output)),
        Command::Resource(ResourceCommand::Show { resource }) => {
            block_on(async { show(output, &target.client(Role::Orchestrator)?.resource(&resource).await?) })
        }
        Command::Cluster(ClusterCommand::Status) => {
            block_on(async { show(output, &target.client(Role::Operator)?.cluster().await?) })
        }
        Command::Cluster(ClusterCommand::Keygen { file }) => keygen::run(&file),
    }
}

fn block_on(work: impl Future<Output = Result<ExitCode, Failure>>) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::local("no runtime", error))?.block_on(work)
}
