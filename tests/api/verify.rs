use crate::{
    node::SIGNING_SEED,
    world::{TestRun, World},
};
use ringfence_protocol::{
    ErrorCode, Fence,
    claims::{GRANT_TYPE, GrantClaims, RUN_TYPE},
    id::{ClusterId, Incarnation},
    jws::{Jwks, KeySet, Signer25519},
};
use serde_json::{Value, json};

async fn ask(world: &World, grant: &str, resource: &str, action: &str) -> crate::world::Reply {
    let body = json!({"grant": grant, "resource": resource, "action": action});
    world.post("/v1/verify", &body).by(&world.target).send().await
}

async fn deploying_run(world: &World) -> (TestRun, Value) {
    let run = world.run().await;
    let wish = json!({"write_set": [
        {"scope": "release/prod-eu", "mode": "exclusive", "actions": ["deploy"]},
        {"scope": "config/eu/**", "mode": "shared"}]});
    let lease = world.post("/v1/leases", &wish).by(&run.token).send().await.done(201);
    (run, lease)
}

fn signer() -> Signer25519 {
    Signer25519::from_seed(&SIGNING_SEED)
}

fn claims(lease: &Value) -> GrantClaims {
    let keys = KeySet::new(&Jwks { keys: vec![signer().verifier()], cluster: None });
    keys.verify(GRANT_TYPE, lease["grant"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn a_grant_in_force_is_allowed_for_what_it_covers_and_nothing_else() {
    let world = World::start().await;
    let (run, lease) = deploying_run(&world).await;
    let grant = lease["grant"].as_str().unwrap();
    let verdict = ask(&world, grant, "release/prod-eu", "deploy").await.done(200);
    assert_eq!((&verdict["allowed"], &verdict["run"]), (&json!(true), &json!(run.id)));
    assert_eq!((&verdict["fence"], &verdict["mode"]), (&lease["fence"], &json!("exclusive")));
    assert!(verdict["expires_in_ms"].as_u64().unwrap() <= 10_000);
    for (resource, action, code) in [
        ("release/prod-us", "deploy", ErrorCode::OutOfScope),
        ("release/prod-eu", "delete", ErrorCode::ActionNotPermitted),
        ("config/eu/a", "update", ErrorCode::ActionNotPermitted),
    ] {
        let problem = ask(&world, grant, resource, action).await.refused(code);
        assert_eq!(problem["resource"], resource);
    }
}

#[tokio::test]
async fn a_run_that_may_only_propose_writes_nothing() {
    let world = World::start().await;
    let run = world.run_with(json!({"name": "n", "authority": "propose"})).await;
    let lease = world.lease(&run, "release/prod-eu").await;
    let refused = ask(&world, lease["grant"].as_str().unwrap(), "release/prod-eu", "deploy").await;
    refused.refused(ErrorCode::ActionNotPermitted);
}

#[tokio::test]
async fn a_grant_of_a_lease_that_is_over_is_refused_with_the_reason() {
    let world = World::start().await;
    let (run, lease) = deploying_run(&world).await;
    world
        .delete(&format!("/v1/leases/{}", lease["id"].as_str().unwrap()))
        .by(&run.token)
        .send()
        .await
        .done(200);
    let refused = ask(&world, lease["grant"].as_str().unwrap(), "release/prod-eu", "deploy").await;
    assert_eq!(refused.refused(ErrorCode::LeaseEnded)["reason"], "released");
}

#[tokio::test]
async fn a_fence_that_is_not_the_leases_own_is_stale() {
    let world = World::start().await;
    let (_, lease) = deploying_run(&world).await;
    let mut claims = claims(&lease);
    claims.fence = Fence::new(claims.fence.get() + 1).unwrap();
    let forged = signer().sign(GRANT_TYPE, &claims).unwrap();
    let problem = ask(&world, &forged, "release/prod-eu", "deploy").await.refused(ErrorCode::StaleFence);
    assert_eq!((&problem["current_fence"], &problem["fence"]), (&lease["fence"], &json!(claims.fence)));
}

#[tokio::test]
async fn what_is_not_a_grant_of_this_cluster_is_not_believed() {
    let world = World::start().await;
    let (run, lease) = deploying_run(&world).await;
    let good = claims(&lease);
    let foreign = GrantClaims { iss: ClusterId::from_bits(1), ..good.clone() };
    let elder = GrantClaims { inc: Incarnation::from_bits(1), ..good.clone() };
    let (ours, theirs) = (signer(), Signer25519::from_seed(&[8; 32]));
    for bad in [
        "nonsense",
        &run.token,
        &ours.sign(RUN_TYPE, &good).unwrap(),
        &ours.sign(GRANT_TYPE, &foreign).unwrap(),
        &theirs.sign(GRANT_TYPE, &good).unwrap(),
    ] {
        ask(&world, bad, "release/prod-eu", "deploy").await.refused(ErrorCode::Unauthenticated);
    }
    let from_before_a_restore = ours.sign(GRANT_TYPE, &elder).unwrap();
    let problem = ask(&world, &from_before_a_restore, "release/prod-eu", "deploy").await;
    assert_eq!(problem.refused(ErrorCode::LeaseEnded)["reason"], "restored");
}
