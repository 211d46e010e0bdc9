//! `ringfence lease exec`: a lease is held while a command runs.
//!
//! It guarantees that the command and all its children are gone before the lease's end at the cluster where that
//! comes by time: the lease counts as lost here a margin earlier (a fifth of the ttl, at most 5 s), half of which is left
//! between TERM and KILL and half for the killing. A lease that somebody revokes is over at once; then the same steps
//! are taken from the moment that this is known. This holds as long as this process runs: where it is stopped or killed
//! itself, only the targets' check of the fence keeps the command's late writes out.
mod family;
mod grant_file;

use super::{failure::Failure, keys::entry, output, signals::Signals, target::Target};
use clap::Args;
use family::Family;
use grant_file::GrantFile;
use ringfence_client::{
    Authority, BootInstant, Client, Clock as _, HeldLease, Hold, KeepAlive, LeaseView, Lost, SystemClock,
};
use ringfence_protocol::{
    Reason, Role, RunId,
    body::{AcquireLease, CreateRun, Run, WriteSetEntry},
};
use std::{
    ffi::OsString,
    os::unix::process::ExitStatusExt,
    process::{ExitCode, ExitStatus},
    time::Duration,
};

/// The share of the ttl that is kept for stopping the command.
const MARGIN_SHARE: u32 = 5;
const MOST_MARGIN: Duration = Duration::from_secs(5);
/// How long a run that was created for one command may live: what a run may live at most. It is ended with the command.
const RUN_LIFETIME_MS: u64 = 30 * 24 * 3_600_000;

/// Hold a lease while a command runs.
///
/// The command finds RINGFENCE_FENCE, RINGFENCE_LEASE, RINGFENCE_GRANT and RINGFENCE_GRANT_FILE in its environment; the
/// file has the newest grant. If the lease is lost, the command and all its children are stopped before the lease's end,
/// and the exit code is 3; otherwise it is the command's own. What the command leaves running is stopped when it ends.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ringfence lease exec --scope release/prod-eu=deploy -- ./deploy.sh
  ringfence lease exec --scope config/eu/**:shared --scope release/prod-eu --purpose 'roll out a1b2c3' -- make release

The command runs in a process group of its own, so it can't read from a terminal. With an orchestrator's token and
without --run, a run that may lease just these scopes is created, and ended with the command.")]
pub(crate) struct ExecArgs {
    /// What it is about, exclusive unless said otherwise; may be repeated.
    #[arg(long = "scope", value_name = "SCOPE[:MODE][=ACTIONS]", required = true, value_parser = entry)]
    scopes: Vec<WriteSetEntry>,
    /// How long it lives without a renewal.
    #[arg(long, default_value_t = 10_000)]
    ttl_ms: u64,
    /// What it is for.
    #[arg(long)]
    purpose: Option<Reason>,
    /// The run that will hold it; not needed with a run's own credential.
    #[arg(long)]
    run: Option<RunId>,
    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Acquires, runs, releases.
///
/// # Errors
/// [`Failure::Lost`] where the lease was lost; as of acquiring where it could not be had.
pub(crate) async fn run(args: ExecArgs, target: &Target) -> Result<ExitCode, Failure> {
    let signals = Signals::listen()?;
    let asker = target.client(Role::Orchestrator)?;
    if args.run.is_some() || target.has_run_credential() {
        let code = hold_and_run(&asker, &args, signals).await;
        asker.settled().await;
        return code;
    }
    let run = create_run(&asker, &args).await?;
    let token = run.token.as_deref().unwrap_or_default();
    let holder = asker.with_token(token).map_err(|error| Failure::local("no client", error))?;
    let code = hold_and_run(&holder, &args, signals).await;
    holder.settled().await;
    end_run(&asker, run.id).await;
    code
}

async fn create_run(client: &Client, args: &ExecArgs) -> Result<Run, Failure> {
    let body = CreateRun {
        name: "lease exec".parse().expect("a short line is a name"),
        labels: std::collections::BTreeMap::new(),
        allow: Some(args.scopes.iter().map(|entry| entry.scope.clone()).collect()),
        authority: ringfence_protocol::body::Authority::Write,
        lifetime_ms: Some(RUN_LIFETIME_MS),
    };
    Ok(client.create_run(&body, None).await?.body)
}

async fn end_run(client: &Client, run: RunId) {
    let reason = "lease exec has ended".parse().expect("a short line is a reason");
    match client.end_run(run, reason, None).await {
        Ok(_) => {}
        // Somebody else ended it, which is why the command was stopped.
        Err(error) if error.problem().is_some() => tracing::debug!(%error, "the run is over already"),
        Err(error) => output::note(&format!("note: {run} could not be ended: {error}")),
    }
}

/// How long before its end at the cluster a lease counts as lost here.
fn margin(ttl: Duration) -> Duration {
    (ttl / MARGIN_SHARE).min(MOST_MARGIN)
}

fn hold(args: &ExecArgs) -> Result<Hold, Failure> {
    let body = AcquireLease {
        run: args.run,
        write_set: args.scopes.clone(),
        ttl_ms: Some(args.ttl_ms),
        wait_ms: None,
        max_hold_ms: None,
        stall_ms: None,
        lock_delay_ms: None,
        purpose: args.purpose.clone(),
    };
    let keep = KeepAlive { renew_every: None, margin: Some(margin(Duration::from_millis(args.ttl_ms))) };
    Hold::new(body, keep).map_err(|error| Failure::Usage(error.to_string()))
}

async fn hold_and_run(client: &Client, args: &ExecArgs, mut signals: Signals) -> Result<ExitCode, Failure> {
    let hold = hold(args)?;
    let lease = tokio::select! {
        // Dropping the request gives the lease back, if it was granted.
        signal = signals.next() => return Ok(ExitCode::from(128 + signal_number(signal.as_raw()))),
        lease = client.hold(hold) => lease?,
    };
    let outcome = run_under(&lease, args, &mut signals).await;
    give_back(lease).await;
    outcome
}

async fn give_back(lease: HeldLease) {
    let id = lease.id();
    if let Err(error) = lease.release().await {
        output::note(&format!("note: {id} could not be released, and will expire: {error}"));
    }
}

async fn run_under(lease: &LeaseView, args: &ExecArgs, signals: &mut Signals) -> Result<ExitCode, Failure> {
    let authority = lease.check().map_err(Failure::Lost)?;
    let file = GrantFile::create(&authority.grant)
        .map_err(|error| Failure::local("the grant can't be written to a file", error))?;
    let mut family = Family::start(&args.command, &variables(&authority, &file))?;
    let grace = margin(Duration::from_millis(args.ttl_ms)) / 2;
    let mut deadline = local_deadline(lease);
    let ended = until_ended(lease, &mut family, &file, signals, &mut deadline).await;
    // Whatever it left running must not outlive the lease either. A loss that is noticed late, after this process was
    // stopped or the machine slept, leaves that much less time to end in peace.
    family.stop(grace.min(deadline.plus(grace).since(SystemClock.now()))).await;
    match ended {
        Ended::ByItself(status) => Ok(exit_code(status)),
        Ended::Lost(lost) => Err(Failure::Lost(lost)),
        Ended::Failed(failure) => Err(failure),
    }
}

/// When the lease ends here unless it is renewed, on a clock that counts suspend.
fn local_deadline(lease: &LeaseView) -> BootInstant {
    SystemClock.now().plus(lease.remaining())
}

fn variables(authority: &Authority, file: &GrantFile) -> [(&'static str, OsString); 4] {
    [
        ("RINGFENCE_FENCE", authority.fence.to_string().into()),
        ("RINGFENCE_LEASE", authority.lease.to_string().into()),
        ("RINGFENCE_GRANT", (&*authority.grant).into()),
        ("RINGFENCE_GRANT_FILE", file.path().into()),
    ]
}

enum Ended {
    ByItself(ExitStatus),
    Lost(Lost),
    Failed(Failure),
}

async fn until_ended(
    lease: &LeaseView,
    family: &mut Family,
    file: &GrantFile,
    signals: &mut Signals,
    deadline: &mut BootInstant,
) -> Ended {
    let mut grants = lease.grants();
    loop {
        tokio::select! {
            // All are cancel safe. A loss comes first: a command that ended because of it did not end by itself.
            biased;
            () = lease.cancelled() => return Ended::Lost(lease.lost().unwrap_or(Lost::Unkept)),
            status = family.ended() => return match status {
                Ok(status) => Ended::ByItself(status),
                Err(error) => Ended::Failed(Failure::local("the command can't be waited for", error)),
            },
            signal = signals.next() => family.signal(signal),
            Ok(()) = grants.changed() => {
                let grant = grants.borrow_and_update().grant.clone();
                *deadline = local_deadline(lease).max(*deadline);
                if let Err(error) = file.write(&grant) {
                    output::note(&format!("note: the new grant can't be written: {error}"));
                }
            }
        }
    }
}

/// As a shell says it: the command's own code, or 128 and the signal that ended it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or_else(|| 128 + signal_number(status.signal().unwrap_or(0))))
}

fn signal_number(signal: i32) -> u8 {
    u8::try_from(signal).unwrap_or(0).min(127)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ttl_that_the_cluster_takes_leaves_time_to_stop_the_command() {
        for ttl_ms in [1000, 1500, 10_000, 60_000, 3_600_000] {
            let ttl = Duration::from_millis(ttl_ms);
            assert!(margin(ttl) >= Duration::from_millis(200), "{ttl:?}");
            let keep = KeepAlive { renew_every: None, margin: Some(margin(ttl)) };
            let body = r#"{"write_set":[{"scope":"a/b","mode":"exclusive"}]}"#;
            let mut body: AcquireLease = serde_json::from_str(body).unwrap();
            body.ttl_ms = Some(ttl_ms);
            assert!(Hold::new(body, keep).is_ok(), "{ttl:?}");
        }
    }

    #[test]
    fn an_exit_code_is_passed_on_as_a_shell_would() {
        assert_eq!(
            format!("{:?}", exit_code(ExitStatus::from_raw(7 << 8))),
            format!("{:?}", ExitCode::from(7))
        );
        assert_eq!(
            format!("{:?}", exit_code(ExitStatus::from_raw(15))),
            format!("{:?}", ExitCode::from(143))
        );
    }
}
