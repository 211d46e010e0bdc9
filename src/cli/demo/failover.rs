//! Scene 3: the leader is killed while a lease is held.
use super::{
    Verdict,
    wire::{Request, say},
    world::{Actor, Held, World, expect},
};
use crate::cli::failure::Failure;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;
use std::time::Duration;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

pub(super) async fn play(world: &mut World) -> Result<Verdict, Failure> {
    say("\n== 3. The leader is killed while a lease is held: the lease lives on, with its fence")?;
    let a = world.actor("A", "roll out a1b2c3").await?;
    let b = world.actor("B", "rotate the certificate").await?;
    let held = world.hold(&a, "release/prod-eu", "exclusive").await?;
    let dead = kill_leader(world).await?;
    let leader = until_led(world, dead).await?;
    say(&format!("   Node {leader} leads now."))?;
    let path = format!("/v1/leases/{}", held.lease);
    let read = Request::new("GET", world.api(&path)).bearer(&a.token).show_when_served("A").await?;
    let renew = Request::new("POST", world.api(&format!("{path}/renew"))).bearer(&a.token).json(json!({}));
    let renewed = renew.show_when_served("A").await?;
    let next = world.hold(&b, "release/prod-us", "exclusive").await?;
    finish(world, [(&a, &held), (&b, &next)]).await?;

    let fence = held.fence;
    let same = |answer: &super::wire::Response| {
        answer.status == 200 && answer.text("state") == "held" && answer.body["fence"].as_u64() == Some(fence)
    };
    let mut verdict = Verdict::new("leader lost");
    verdict.expect(leader != dead, format!("node {dead} was killed, node {leader} leads"));
    verdict.expect(
        same(&read),
        format!("the lease, read at another node: {} with fence {}", read.verdict(), read.body["fence"]),
    );
    verdict.expect(
        same(&renewed),
        format!("renewed: {} with fence {}", renewed.verdict(), renewed.body["fence"]),
    );
    verdict.expect(next.fence > fence, format!("the next grant has fence {}", next.fence));
    Ok(verdict)
}

async fn finish(world: &World, held: [(&Actor, &Held); 2]) -> Result<(), Failure> {
    for (actor, held) in held {
        world.release(actor, held).await?;
    }
    Ok(())
}

/// Kills the node that leads, waits until it is gone, and strikes it off.
async fn kill_leader(world: &mut World) -> Result<u64, Failure> {
    let status = expect(world.orchestrated("GET", "/v1/cluster").send().await?, 200, "asking who leads")?;
    let leader = status.body["leader"].as_u64();
    let at = world.nodes.iter().position(|node| Some(node.id) == leader);
    let node = world.nodes.remove(at.ok_or_else(|| Failure::Local("nobody leads".to_owned()))?);
    let pid = i32::try_from(node.pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Failure::Local(format!("node {} has no pid", node.id)))?;
    say(&format!("   Node {} leads. Its process {} is killed now (SIGKILL).", node.id, node.pid))?;
    kill_process(pid, Signal::KILL).map_err(|error| Failure::local("killing the leader", error))?;
    let gone = async {
        while test_kill_process(pid).is_ok() {
            tokio::time::sleep(POLL).await;
        }
    };
    timeout(LIMIT, gone).await.map_err(|_| Failure::Local(format!("process {} lives on", node.pid)))?;
    Ok(node.id)
}

/// Waits until a node that lives knows a leader that lives.
async fn until_led(world: &World, dead: u64) -> Result<u64, Failure> {
    let led = async {
        loop {
            let known = world.orchestrated("GET", "/v1/cluster").send().await;
            let leader = known.ok().and_then(|status| status.body["leader"].as_u64());
            match leader.filter(|leader| *leader != dead) {
                Some(leader) => return leader,
                None => tokio::time::sleep(POLL).await,
            }
        }
    };
    timeout(LIMIT, led).await.map_err(|_| Failure::Local("the others find no leader".to_owned()))
}
