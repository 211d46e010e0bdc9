//! Scene 2: a holder is stopped longer than its lease lives, another run writes, and the first one wakes up.
use super::{
    AgentArgs, Verdict,
    collision::etag,
    wire::{Request, Response, say},
    world::{Actor, Held, POLICY, World, expect, write},
};
use crate::cli::{failure::Failure, output, target::Target};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::{fs, io, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// How long the holder's lease lives without a renewal.
const SHORT_TTL_MS: u64 = 3_000;
const LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// What begins a line of the holder that is for the director, not the audience.
const CUE: char = '@';

fn scope() -> String {
    format!("notification-policy/{POLICY}")
}

pub(super) async fn play(world: &World) -> Result<Verdict, Failure> {
    say(
        "\n== 2. A holder sleeps past its lease, another run writes, and the holder's late write is refused",
    )?;
    let a = world.actor("A", "rotate the destinations").await?;
    let b = world.actor("B", "silence the prod alerts").await?;
    let mut holder = Holder::start(world, &a).await?;
    let (lease, old_fence) = holder.held().await?;
    say(&format!("   A is the process {}. It is stopped now (SIGSTOP).", holder.pid.as_raw_pid()))?;
    holder.freeze().await?;
    let early = world.acquire(&b, &scope(), "exclusive", SHORT_TTL_MS).await?;
    until_ended(world, &lease).await?;
    say(&format!("   {lease} has expired. B asks again."))?;
    let under_b = world.hold(&b, &scope(), "exclusive").await?;
    let read = expect(Request::new("GET", world.policy()).show("B").await?, 200, "reading")?;
    let change = json!({"severity": "muted"});
    let written = world.patch(&under_b, &etag(&read)?, change.clone()).show("B").await?;

    say("   A wakes up (SIGCONT), and goes on where it was; it is even told the newest version.")?;
    kill_process(holder.pid, Signal::CONT).map_err(|error| Failure::local("waking the holder", error))?;
    let late = holder.write(&etag(&written)?).await?;
    let after = Request::new("GET", world.policy()).show("anybody").await?;
    world.release(&b, &under_b).await?;
    holder.leave().await;

    let mut verdict = Verdict::new("stale holder");
    verdict.expect(early.status == 409, format!("while the lease lived B got {}", early.verdict()));
    verdict.expect(under_b.fence > old_fence, format!("fence {old_fence}, then {}", under_b.fence));
    verdict.expect(written.status == 200, format!("B's write: {}", written.verdict()));
    verdict.expect(late == "409 stale_fence", format!("A's late write: {late}"));
    verdict.expect(after.body["severity"] == change["severity"], format!("the policy is {}", after.body));
    Ok(verdict)
}

async fn until_ended(world: &World, lease: &str) -> Result<(), Failure> {
    let ended = async {
        loop {
            let read = world.orchestrated("GET", &format!("/v1/leases/{lease}")).send().await?;
            if read.text("state") == "ended" {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    };
    timeout(LIMIT, ended).await.map_err(|_| Failure::Local(format!("{lease} does not expire")))?
}

/// The process that is stopped.
struct Holder {
    child: Child,
    pid: Pid,
    cues: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    async fn start(world: &World, actor: &Actor) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::local("the holder can't be started", error);
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["demo-agent", "--target", &world.target]);
        command.env("RINGFENCE_URL", world.api("")).env("RINGFENCE_TOKEN", &actor.token);
        command.process_group(0).kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let (Some(pid), Some(cues), Some(out)) = (pid, child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::Local("the holder has ended at once".to_owned()));
        };
        Ok(Self { child, pid, cues, lines: BufReader::new(out).lines() })
    }

    /// Passes on what the holder says until it gives a cue.
    async fn cue(&mut self) -> Result<String, Failure> {
        let cue = async {
            while let Some(line) =
                self.lines.next_line().await.map_err(|error| Failure::local("the holder", error))?
            {
                match line.strip_prefix(CUE) {
                    Some(cue) => return Ok(cue.to_owned()),
                    None => say(&line)?,
                }
            }
            Err(Failure::Local("the holder has ended early".to_owned()))
        };
        timeout(LIMIT, cue).await.map_err(|_| Failure::Local("the holder says nothing".to_owned()))?
    }

    async fn held(&mut self) -> Result<(String, u64), Failure> {
        let cue = self.cue().await?;
        let parsed =
            cue.split_once(' ').and_then(|(lease, fence)| Some((lease.to_owned(), fence.parse().ok()?)));
        parsed.ok_or_else(|| Failure::Local(format!("the holder says `{cue}`")))
    }

    /// Stops it, and waits until it has stopped.
    async fn freeze(&self) -> Result<(), Failure> {
        kill_process(self.pid, Signal::STOP).map_err(|error| Failure::local("stopping the holder", error))?;
        let stat = format!("/proc/{}/stat", self.pid.as_raw_pid());
        let stopped = async {
            while !fs::read_to_string(&stat).is_ok_and(|text| text.contains(") T ")) {
                tokio::time::sleep(POLL).await;
            }
        };
        timeout(LIMIT, stopped).await.map_err(|_| Failure::Local("the holder does not stop".to_owned()))
    }

    async fn write(&mut self, tag: &str) -> Result<String, Failure> {
        let told = self.cues.write_all(format!("{tag}\n").as_bytes()).await;
        told.map_err(|error| Failure::local("the holder does not listen", error))?;
        self.cue().await
    }

    async fn leave(mut self) {
        if timeout(LIMIT, self.child.wait()).await.is_err() {
            self.child.kill().await.ok();
        }
    }
}

/// The holder's own part: acquires, waits for a version on standard input, and writes under the grant that it has. It
/// never looks whether its lease is still good: whoever looks just before being stopped is no wiser.
///
/// # Errors
/// Where the lease isn't granted, or nobody answers.
pub(super) async fn act(args: &AgentArgs, target: &Target) -> Result<(), Failure> {
    let missing = || Failure::Usage("the demo starts this with RINGFENCE_URL and RINGFENCE_TOKEN".to_owned());
    let (api, token) = target.url.first().zip(target.token.clone()).ok_or_else(missing)?;
    let body = json!({"write_set": [{"scope": scope(), "mode": "exclusive"}], "ttl_ms": SHORT_TTL_MS});
    let acquire = Request::new("POST", format!("{api}/v1/leases")).bearer(&token).json(body);
    let held = Held::from(&expect(acquire.show("A").await?, 201, "acquiring")?)?;
    cue(&format!("{} {}", held.lease, held.fence))?;
    let mut tag = String::new();
    // Nothing else happens in this process meanwhile.
    let heard = io::stdin().read_line(&mut tag);
    heard.map_err(|error| Failure::local("standard input", error))?;
    let policy = format!("{}/v1/notification-policies/{POLICY}", args.target);
    let late: Response = write("PATCH", policy, &held.grant)
        .with("If-Match", tag.trim())
        .json(json!({"severity": "overwritten"}))
        .show("A")
        .await?;
    cue(&late.verdict())
}

fn cue(text: &str) -> Result<(), Failure> {
    output::line(&format!("{CUE}{text}")).map_err(|error| Failure::local("nobody listens", error))
}
