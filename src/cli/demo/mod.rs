//! `ringfence demo`: four scenes against a real cluster and a real target, played, shown and judged.
//!
//! In reading order: `stage` (the processes; `example` finds the target), `wire` (requests and answers as they travel),
//! `world` (who plays), then one file a scene. It waits for states, never for time, and leaves nothing running.
mod collision;
mod example;
mod failover;
mod lost_answer;
mod paused;
mod stage;
mod wire;
mod world;

use super::{failure::Failure, signals::Signals, target::Target};
use clap::Args;
use stage::Stage;
use std::{path::PathBuf, process::ExitCode};
use wire::say;
use world::World;

/// Play a collision, a stale holder, a lost leader and a lost answer against a real cluster.
///
/// It starts a local cluster and the example target, shows the requests and their answers, and ends with a line for each
/// scene. The exit code is 0 only if everything was refused that has to be.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ringfence demo
  ringfence demo --keep      leave the cluster and the target running, to play with them")]
pub(crate) struct DemoArgs {
    /// Leave the cluster and the target running, and say how to go on.
    #[arg(long)]
    keep: bool,
    /// Where everything is kept. Absent: a temporary folder.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The program of the target. Absent: `examples/notification-policy` beside this program, built where it isn't there.
    #[arg(long)]
    target_bin: Option<PathBuf>,
}

/// The holder of the second scene, a process of its own.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// The target's address.
    #[arg(long)]
    target: String,
}

/// What a scene came to.
#[derive(Debug)]
struct Verdict {
    scene: &'static str,
    seen: Vec<String>,
    wrong: Vec<String>,
}

impl Verdict {
    const fn new(scene: &'static str) -> Self {
        Self { scene, seen: Vec::new(), wrong: Vec::new() }
    }

    /// Notes what was seen, and whether it is as it has to be.
    fn expect(&mut self, right: bool, what: String) {
        if right { self.seen.push(what) } else { self.wrong.push(what) }
    }

    fn failed(scene: &'static str, failure: &Failure) -> Self {
        Self { scene, seen: Vec::new(), wrong: vec![failure.to_string()] }
    }

    fn passed(&self) -> bool {
        self.wrong.is_empty() && !self.seen.is_empty()
    }

    fn line(&self, number: usize) -> String {
        if self.passed() {
            format!("PASS  {number} {}: {}", self.scene, self.seen.join("; "))
        } else {
            format!("FAIL  {number} {}: wrong is: {}", self.scene, self.wrong.join("; "))
        }
    }
}

/// Plays all scenes.
///
/// # Errors
/// [`Failure::Demo`] where one failed; others where it could not be played.
pub(crate) async fn run(args: DemoArgs) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen()?;
    let mut stage = Stage::prepare(&args)?;
    let played = tokio::select! {
        // Wherever it was: everything that was started is on the stage, and is stopped below.
        signal = signals.next() => Err(Failure::Local(format!("interrupted by signal {}", signal.as_raw()))),
        played = play(&args, &mut stage) => played,
    };
    match played {
        Ok(0) if args.keep => stage.keep()?,
        Ok(failed) => {
            stage.clear(failed == 0).await?;
            if failed > 0 {
                return Err(Failure::Demo(failed));
            }
        }
        Err(failure) => {
            stage.clear(false).await?;
            return Err(failure);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Gives how many scenes failed.
async fn play(args: &DemoArgs, stage: &mut Stage) -> Result<usize, Failure> {
    let (file, target) = stage.start(args).await?;
    let mut world = World::new(&file, target)?;
    let verdicts = [
        judged("collision", collision::play(&world).await),
        judged("stale holder", paused::play(&world).await),
        judged("leader lost", failover::play(&mut world).await),
        judged("lost answer", lost_answer::play(&world).await),
    ];
    say("")?;
    for (number, verdict) in (1..).zip(&verdicts) {
        say(&verdict.line(number))?;
    }
    Ok(verdicts.iter().filter(|verdict| !verdict.passed()).count())
}

fn judged(scene: &'static str, played: Result<Verdict, Failure>) -> Verdict {
    played.unwrap_or_else(|failure| Verdict::failed(scene, &failure))
}

/// Plays the holder of the second scene.
///
/// # Errors
/// Where it can't play.
pub(crate) async fn agent(args: AgentArgs, target: &Target) -> Result<ExitCode, Failure> {
    paused::act(&args, target).await?;
    Ok(ExitCode::SUCCESS)
}
