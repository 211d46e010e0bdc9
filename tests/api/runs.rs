use crate::{node::eventually, world::World};
use ringfence_protocol::{
    ErrorCode,
    claims::{RUN_TYPE, RunClaims},
    jws::{Jwks, KeySet},
};
use serde_json::json;

#[tokio::test]
async fn a_run_is_created_with_its_own_signed_credential_and_shown_without_it() {
    let world = World::start().await;
    let body = json!({"name": "rotate", "labels": {"task": "T-1"}, "allow": ["config/eu/**"], "lifetime_ms": 60_000});
    let reply = world.post("/v1/runs", &body).by(&world.orchestrator).send().await;
    let location = reply.header("location").unwrap().to_owned();
    let run = reply.done(201);
    assert_eq!(location, format!("/v1/runs/{}", run["id"].as_str().unwrap()));
    assert_eq!((&run["state"], &run["tenant"]), (&json!("active"), &json!("default")));
    assert_eq!(run["created_by"], "orchestrator:planner");

    let jwks: Jwks =
        serde_json::from_value(world.get("/.well-known/jwks.json").send().await.done(200)).unwrap();
    let token = run["token"].as_str().unwrap();
    let claims: RunClaims = KeySet::new(&jwks).verify(RUN_TYPE, token).unwrap();
    assert_eq!((Some(claims.iss), json!(claims.sub)), (jwks.cluster, run["id"].clone()));
    assert!(claims.exp <= claims.iat + 60, "{claims:?}");

    let shown = world.get(&location).by(token).send().await.done(200);
    assert_eq!(
        (&shown["token"], &shown["leases"], &shown["labels"]),
        (&json!(null), &json!([]), &body["labels"])
    );
}

#[tokio::test]
async fn a_run_is_shown_with_its_live_leases() {
    let world = World::start().await;
    let run = world.run().await;
    let lease = world.lease(&run, "release/prod-eu").await;
    let shown = world.get(&format!("/v1/runs/{}", run.id)).by(&world.target).send().await.done(200);
    assert_eq!(shown["leases"][0]["id"], lease["id"]);
    assert_eq!(shown["leases"][0]["grant"], json!(null));
}

#[tokio::test]
async fn ending_a_run_ends_its_leases_and_its_credential() {
    let world = World::start().await;
    let run = world.run().await;
    let lease = world.lease(&run, "release/prod-eu").await;
    let end = || world.post(&format!("/v1/runs/{}/end", run.id), &json!({"reason": "done"}));
    let ended = end().by(&run.token).send().await.done(200);
    assert_eq!((&ended["state"], &ended["reason"]), (&json!("ended"), &json!("done")));

    let lease_path = format!("/v1/leases/{}", lease["id"].as_str().unwrap());
    world.get(&lease_path).by(&run.token).send().await.refused(ErrorCode::RunEnded);
    let shown = world.get(&lease_path).by(&world.orchestrator).send().await.done(200);
    assert_eq!((&shown["state"], &shown["reason"]), (&json!("ended"), &json!("run_ended")));
    assert!(shown["end_fence"].as_u64() > lease["fence"].as_u64());

    let again = end().by(&world.orchestrator).send().await.done(200);
    assert_eq!(again["state"], "ended");
    let problem = world.acquire("release/prod-us").by(&run.token).send().await.refused(ErrorCode::RunEnded);
    assert_eq!(problem["run"], run.id);
}

#[tokio::test]
async fn an_orchestrator_can_not_acquire_for_a_run_that_is_over() {
    let world = World::start().await;
    let run = world.run().await;
    let end = world.post(&format!("/v1/runs/{}/end", run.id), &json!({"reason": "done"}));
    end.by(&world.orchestrator).send().await.done(200);
    let wish = json!({"run": run.id, "write_set": [{"scope": "a/b", "mode": "shared"}]});
    world.post("/v1/leases", &wish).by(&world.orchestrator).send().await.refused(ErrorCode::RunEnded);
}

#[tokio::test]
async fn a_revoked_run_is_told_so_before_anything_else_and_other_runs_live_on() {
    let world = World::start().await;
    let (run, other) = (world.run().await, world.run().await);
    let lease = world.lease(&run, "release/prod-eu").await;
    let revoke = world.post(&format!("/v1/runs/{}/revoke", run.id), &json!({"reason": "stolen"}));
    let revoked = revoke.by(&world.admin).send().await.done(200);
    assert_eq!(revoked["state"], "revoked");
    let renew = world.post(&format!("/v1/leases/{}/renew", lease["id"].as_str().unwrap()), &json!({}));
    renew.by(&run.token).send().await.refused(ErrorCode::CredentialRevoked);
    world.lease(&other, "release/prod-eu").await;
}

#[tokio::test]
async fn a_run_past_its_lifetime_is_expired_by_the_clusters_time() {
    let world = World::start().await;
    let run = world.run_with(json!({"name": "short", "lifetime_ms": 1000})).await;
    let lease = world.lease(&run, "release/prod-eu").await;
    assert!(lease["expires_in_ms"].as_u64().unwrap() <= 1000, "capped by the run: {lease}");
    let path = format!("/v1/runs/{}", run.id);
    eventually("the run expires", async || {
        let shown = world.get(&path).by(&world.orchestrator).send().await.done(200);
        (shown["state"] == "expired").then_some(())
    })
    .await;
    world.get(&path).by(&run.token).send().await.refused(ErrorCode::CredentialExpired);
}

#[tokio::test]
async fn only_its_own_principal_or_an_admin_ends_a_run() {
    let world = World::start().await;
    let (run, other) = (world.run().await, world.run().await);
    let stranger = world.token(&world.admin, "default", "orchestrator", "stranger").await;
    let end = |by: &str| world.post(&format!("/v1/runs/{}/end", run.id), &json!({"reason": "x"})).by(by);
    end(&stranger).send().await.refused(ErrorCode::Forbidden);
    end(&other.token).send().await.refused(ErrorCode::Forbidden);
    end(&world.target).send().await.refused(ErrorCode::Forbidden);
    end(&world.admin).send().await.done(200);
}
