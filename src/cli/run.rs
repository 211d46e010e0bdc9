//! `ringfence run …`
use super::{
    failure::Failure,
    keys::{Key, Paging},
    show::{Output, show},
    target::Target,
};
use clap::Subcommand;
use ringfence_client::RunFilter;
use ringfence_protocol::{
    Reason, Role, RunId, Scope,
    body::{Authority, CreateRun, RunState},
    name::LabelKey,
};
use std::process::ExitCode;

/// Runs: who acts.
#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// Create a run, and show its credential.
    #[command(after_help = "Example:
  ringfence run create rotate-staging-cert --allow 'config/eu/**' --allow release/prod-eu --label task=T-118")]
    Create {
        /// What to call it.
        name: Reason,
        /// A scope within which it may lease; may be repeated. Absent: any.
        #[arg(long, value_name = "SCOPE")]
        allow: Vec<Scope>,
        /// A label, `key=value`; may be repeated.
        #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
        labels: Vec<(LabelKey, Reason)>,
        /// How long it may live. Absent: an hour.
        #[arg(long)]
        lifetime_ms: Option<u64>,
        /// Its grants don't serve writes.
        #[arg(long)]
        propose: bool,
        #[command(flatten)]
        key: Key,
    },
    /// List runs.
    List {
        /// Only those in this state.
        #[arg(long)]
        state: Option<RunState>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a run and its live leases.
    Show {
        /// Which.
        run: RunId,
    },
    /// End a run, and its leases with it.
    End {
        /// Which.
        run: RunId,
        /// Why.
        #[arg(long, default_value = "ended from the command line")]
        reason: Reason,
        #[command(flatten)]
        key: Key,
    },
    /// Take a run's credential back, and end its leases.
    Revoke {
        /// Which.
        run: RunId,
        /// Why.
        #[arg(long)]
        reason: Reason,
        #[command(flatten)]
        key: Key,
    },
}

fn label(text: &str) -> Result<(LabelKey, Reason), String> {
    let (key, value) = text.split_once('=').ok_or("a label is `key=value`")?;
    let key = key.parse().map_err(|error: ringfence_protocol::name::NameError| error.to_string())?;
    let value = value.parse().map_err(|error: ringfence_protocol::name::NameError| error.to_string())?;
    Ok((key, value))
}

pub(crate) async fn run(command: RunCommand, target: &Target, how: Output) -> Result<ExitCode, Failure> {
    let client = target.client(Role::Orchestrator)?;
    match command {
        RunCommand::Create { name, allow, labels, lifetime_ms, propose, key } => {
            let body = CreateRun {
                name,
                labels: labels.into_iter().collect(),
                allow: (!allow.is_empty()).then_some(allow),
                authority: if propose { Authority::Propose } else { Authority::Write },
                lifetime_ms,
            };
            show(how, &client.create_run(&body, key.get()?).await?)
        }
        RunCommand::List { state, paging } => {
            show(how, &client.runs(&RunFilter { state, page: paging.page() }).await?)
        }
        RunCommand::Show { run } => show(how, &client.run(run).await?),
        RunCommand::End { run, reason, key } => show(how, &client.end_run(run, reason, key.get()?).await?),
        RunCommand::Revoke { run, reason, key } => {
            show(how, &client.revoke_run(run, reason, key.get()?).await?)
        }
    }
}
