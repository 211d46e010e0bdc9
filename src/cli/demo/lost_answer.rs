//! Scene 4: the answer to an acquire is lost, and the request repeated.
use super::{
    Verdict,
    wire::say,
    world::{Actor, LONG_TTL_MS, World, expect},
};
use crate::cli::failure::Failure;
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
const SCOPE: &str = "release/prod-ap";

pub(super) async fn play(world: &World) -> Result<Verdict, Failure> {
    say("\n== 4. The answer to an acquire is lost: the same request again gives the same lease")?;
    let a = world.actor("A", "roll out d4e5f6").await?;
    let b = world.actor("B", "look after the neighbours").await?;
    let wish = world.wish(&a, SCOPE, "exclusive", LONG_TTL_MS);
    wish.tell(a.name)?;
    let connection = wish.start().await.map_err(|error| Failure::local("sending", error))?;
    let granted = until_granted(world, &a).await?;
    drop(connection);
    say("   -> granted, but the connection is closed before a byte of the answer is read. A knows nothing.")?;
    let again = expect(wish.show_when_served(a.name).await?, 201, "repeating")?;
    let replayed = again.header("idempotency-replayed") == Some("true");
    let leases = leases(world, &a).await?;
    let next = world.hold(&b, "release/prod-sa", "exclusive").await?;

    let fence = again.body["fence"].as_u64().unwrap_or(0);
    let mut verdict = Verdict::new("lost answer");
    verdict.expect(replayed, format!("the repetition: 201, Idempotency-Replayed: {replayed}"));
    verdict.expect(
        again.body["id"] == granted["id"] && again.body["fence"] == granted["fence"],
        format!(
            "granted {} with fence {}, repeated {} with fence {fence}",
            granted["id"], granted["fence"], again.body["id"]
        ),
    );
    verdict.expect(leases.len() == 1, format!("leases of the run: {}", leases.len()));
    verdict.expect(next.fence == fence + 1, format!("the next grant has fence {}", next.fence));
    Ok(verdict)
}

async fn leases(world: &World, actor: &Actor) -> Result<Vec<Value>, Failure> {
    let list = world.orchestrated("GET", &format!("/v1/leases?run={}", actor.run)).send().await?;
    Ok(expect(list, 200, "listing leases")?.body["items"].as_array().cloned().unwrap_or_default())
}

async fn until_granted(world: &World, actor: &Actor) -> Result<Value, Failure> {
    let granted = async {
        loop {
            match leases(world, actor).await?.into_iter().next() {
                Some(lease) => return Ok(lease),
                None => tokio::time::sleep(POLL).await,
            }
        }
    };
    timeout(LIMIT, granted).await.map_err(|_| Failure::Local("the lease is not granted".to_owned()))?
}
