//! Scene 1: two runs change one policy, and the second to write is told that it has changed.
use super::{
    Verdict,
    wire::{Request, Response, say},
    world::{Actor, Held, World, expect, write},
};
use crate::cli::failure::Failure;
use serde_json::json;

const SCOPE: &str = "notification-policy/prod-alerts";
/// The version that both read, where the policy is new.
const VERSION: u64 = 41;

pub(super) async fn play(world: &World) -> Result<Verdict, Failure> {
    say("\n== 1. Two runs read one version and both write: the second is refused")?;
    prepare(world).await?;
    let a = world.actor("A", "add the pager to the prod alerts").await?;
    let b = world.actor("B", "raise the severity of the prod alerts").await?;
    say("   Both get an optimistic lease: they may write side by side, under version checks.")?;
    let under_a = world.hold(&a, SCOPE, "optimistic").await?;
    let under_b = world.hold(&b, SCOPE, "optimistic").await?;
    let read_by_a = read(world, &a).await?;
    let read_by_b = read(world, &b).await?;
    let same = read_by_a == read_by_b;

    let change = json!({"destinations": ["mail:ops", "pager:on-call"]});
    let first = world.patch(&under_a, &read_by_a, change.clone()).show("A").await?;
    let second = world.patch(&under_b, &read_by_b, json!({"severity": "low"})).show("B").await?;
    let after = Request::new("GET", world.policy()).show("anybody").await?;
    finish(world, [(&a, &under_a), (&b, &under_b)]).await?;

    let mut verdict = Verdict::new("collision");
    verdict.expect(same, format!("A read version {read_by_a}, B {read_by_b}"));
    verdict.expect(first.status == 200, format!("the first write: {}", first.verdict()));
    verdict.expect(is_stale_version(&second), format!("the second: {}", second.verdict()));
    verdict.expect(
        after.body["destinations"] == change["destinations"] && after.body["severity"] == "high",
        format!("the policy is {}", after.body),
    );
    Ok(verdict)
}

fn is_stale_version(answer: &Response) -> bool {
    answer.status == 412 && answer.text("error") == "stale_version"
}

async fn finish(world: &World, held: [(&Actor, &Held); 2]) -> Result<(), Failure> {
    for (actor, held) in held {
        world.release(actor, held).await?;
    }
    Ok(())
}

async fn read(world: &World, actor: &Actor) -> Result<String, Failure> {
    let answer = expect(Request::new("GET", world.policy()).show(actor.name).await?, 200, "reading")?;
    etag(&answer)
}

pub(super) fn etag(answer: &Response) -> Result<String, Failure> {
    let tag = answer.header("etag").map(str::to_owned);
    tag.ok_or_else(|| Failure::Local("the target's answer has no ETag".to_owned()))
}

/// Brings the policy to a known content, at version 41 or, where the folder was played in before, a later one.
async fn prepare(world: &World) -> Result<(), Failure> {
    let owner = world.actor("owner", "set the prod alerts up").await?;
    let held = world.hold(&owner, SCOPE, "exclusive").await?;
    let policy = json!({"destinations": ["mail:ops"], "severity": "high"});
    let mut current = Request::new("GET", world.policy()).send().await?;
    loop {
        let known = if current.status == 404 { None } else { Some(etag(&current)?) };
        let put = write("PUT", world.policy(), &held.grant).json(policy.clone());
        let (put, status) = match known {
            Some(tag) => (put.with("If-Match", tag), 200),
            None => (put.with("If-None-Match", "*"), 201),
        };
        current = expect(put.send().await?, status, "setting the policy up")?;
        if version(&etag(&current)?) >= VERSION {
            break;
        }
    }
    say(&format!("   The policy is at version {} now.", etag(&current)?))?;
    world.release(&owner, &held).await
}

fn version(tag: &str) -> u64 {
    tag.trim_matches('"').parse().unwrap_or(0)
}
