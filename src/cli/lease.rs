//! `ringfence lease …`
use super::{
    exec::{self, ExecArgs},
    failure::Failure,
    keys::{Key, Paging, entry},
    show::{Output, show},
    target::Target,
};
use clap::Subcommand;
use ringfence_client::LeaseFilter;
use ringfence_protocol::{
    LeaseId, Reason, Role, RunId, Scope,
    body::{AcquireLease, LeaseState, RenewLease, WriteSetEntry},
};
use std::process::ExitCode;

/// Leases: what a run may write, and until when.
#[derive(Debug, Subcommand)]
pub(crate) enum LeaseCommand {
    /// Acquire a lease: all of its scopes or nothing.
    #[command(after_help = "Examples:
  ringfence lease acquire --run run_… --scope release/prod-eu=deploy --scope config/eu/**:shared --ttl-ms 30000
  RINGFENCE_TOKEN=<run credential> ringfence lease acquire --scope notification-policy/prod-alerts:optimistic")]
    Acquire {
        /// What it is about, exclusive unless said otherwise; may be repeated.
        #[arg(long = "scope", value_name = "SCOPE[:MODE][=ACTIONS]", required = true, value_parser = entry)]
        scopes: Vec<WriteSetEntry>,
        /// The run that will hold it; not needed with the run's own credential.
        #[arg(long)]
        run: Option<RunId>,
        /// How long it lives without a renewal. Absent: 10 s.
        #[arg(long)]
        ttl_ms: Option<u64>,
        /// What it is for.
        #[arg(long)]
        purpose: Option<Reason>,
        #[command(flatten)]
        key: Key,
    },
    /// List leases.
    List {
        /// Only those of this run.
        #[arg(long)]
        run: Option<RunId>,
        /// Only those that overlap this scope.
        #[arg(long)]
        scope: Option<Scope>,
        /// Only those in this state.
        #[arg(long)]
        state: Option<LeaseState>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a lease, also one that ended within the last ten minutes.
    Show {
        /// Which.
        lease: LeaseId,
    },
    /// Prolong a lease.
    Renew {
        /// Which.
        lease: LeaseId,
    },
    /// Give a lease back.
    Release {
        /// Which.
        lease: LeaseId,
    },
    Exec(ExecArgs),
}

pub(crate) async fn run(command: LeaseCommand, target: &Target, how: Output) -> Result<ExitCode, Failure> {
    let client = || target.client(Role::Orchestrator);
    match command {
        LeaseCommand::Acquire { scopes, run, ttl_ms, purpose, key } => {
            let body = AcquireLease {
                run,
                write_set: scopes,
                ttl_ms,
                wait_ms: None,
                max_hold_ms: None,
                stall_ms: None,
                lock_delay_ms: None,
                purpose,
            };
            show(how, &client()?.acquire(&body, key.get()?).await?)
        }
        LeaseCommand::List { run, scope, state, paging } => {
            let filter = LeaseFilter { run, scope, state, page: paging.page() };
            show(how, &client()?.leases(&filter).await?)
        }
        LeaseCommand::Show { lease } => show(how, &client()?.lease(lease).await?),
        LeaseCommand::Renew { lease } => show(how, &client()?.renew(lease, &RenewLease::default()).await?),
        LeaseCommand::Release { lease } => show(how, &client()?.release(lease).await?),
        LeaseCommand::Exec(args) => exec::run(args, target).await,
    }
}
