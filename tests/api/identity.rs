//! Who asks is decided by the credential alone.
use crate::{
    http::Connection,
    node::{OPERATOR, SIGNING_SEED},
    world::World,
};
use ringfence_protocol::{
    ErrorCode,
    claims::{GRANT_TYPE, RUN_TYPE, RunClaims},
    id::{ClusterId, Incarnation},
    jws::{Jwks, KeySet, Signer25519},
};
use serde_json::json;

#[tokio::test]
async fn what_is_no_credential_of_this_cluster_is_unauthenticated() {
    let world = World::start().await;
    let run = world.run().await;
    let ours = Signer25519::from_seed(&SIGNING_SEED);
    let keys = KeySet::new(&Jwks { keys: vec![ours.verifier()], cluster: None });
    let good: RunClaims = keys.verify(RUN_TYPE, &run.token).unwrap();
    let foreign = RunClaims { iss: ClusterId::from_bits(1), ..good.clone() };
    let elder = RunClaims { inc: Incarnation::from_bits(1), ..good.clone() };
    let unknown = RunClaims { sub: ringfence_protocol::RunId::from_bits(1), ..good.clone() };
    let made_up = format!("rft_{}", "A".repeat(43));
    for bad in [
        "nonsense",
        "rft_short",
        &made_up,
        &format!("{OPERATOR}x"),
        &ours.sign(GRANT_TYPE, &good).unwrap(),
        &ours.sign(RUN_TYPE, &foreign).unwrap(),
        &ours.sign(RUN_TYPE, &elder).unwrap(),
        &ours.sign(RUN_TYPE, &unknown).unwrap(),
        &Signer25519::from_seed(&[8; 32]).sign(RUN_TYPE, &good).unwrap(),
    ] {
        // Twice: what was remembered of a first look must not let a second one in.
        for _ in 0..2 {
            world.get("/v1/leases").by(bad).send().await.refused(ErrorCode::Unauthenticated);
        }
    }
    world.get("/v1/leases").send().await.refused(ErrorCode::Unauthenticated);
    let twice = world.get("/v1/leases").by(&run.token).by(&run.token);
    twice.send().await.refused(ErrorCode::Unauthenticated);
    let basic = world.get("/v1/leases").header("authorization", "Basic cm9vdDpyb290");
    basic.send().await.refused(ErrorCode::Unauthenticated);
}

#[tokio::test]
async fn the_wall_clock_in_a_credential_decides_nothing() {
    let world = World::start().await;
    let run = world.run().await;
    let ours = Signer25519::from_seed(&SIGNING_SEED);
    let keys = KeySet::new(&Jwks { keys: vec![ours.verifier()], cluster: None });
    let claims: RunClaims = keys.verify(RUN_TYPE, &run.token).unwrap();
    let past = ours.sign(RUN_TYPE, &RunClaims { exp: 1, ..claims }).unwrap();
    world.get("/v1/leases").by(&past).send().await.done(200);
}

#[tokio::test]
async fn identity_headers_and_fields_that_the_caller_chose_change_nothing() {
    let world = World::start().await;
    let (own, other) = (world.run().await, world.run().await);
    let mut ask = world.acquire("release/prod-eu").by(&own.token);
    for name in
        ["x-run-id", "ringfence-run", "x-tenant", "x-forwarded-user", "x-principal", "x-remote-user", "from"]
    {
        ask = ask.header(name, &other.id);
    }
    let lease =
        ask.header("x-forwarded-authorization", &format!("Bearer {}", other.token)).send().await.done(201);
    assert_eq!(lease["run"], own.id);

    let mut body = crate::world::wish("release/prod-us");
    body["run"] = json!(other.id);
    world.post("/v1/leases", &body).by(&own.token).send().await.refused(ErrorCode::Forbidden);
    for field in ["tenant", "principal", "created_by"] {
        let mut body = json!({"name": "n"});
        body[field] = json!("orchestrator:root");
        let problem = world.post("/v1/runs", &body).by(&world.orchestrator).send().await;
        assert_eq!(problem.refused(ErrorCode::UnknownField)["field"], field);
    }
    let token_in_query = format!("/v1/leases?access_token={}", own.token);
    world.get(&token_in_query).send().await.refused(ErrorCode::Unauthenticated);
}

#[tokio::test]
async fn over_one_connection_each_request_is_judged_by_its_own_credential() {
    let world = World::start().await;
    let (a, b) = (world.run().await, world.run().await);
    let mut connection = Connection::open(world.address(0)).await;
    let lease = world.acquire("release/prod-eu").by(&a.token).send_over(&mut connection).await.done(201);
    let path = format!("/v1/leases/{}", lease["id"].as_str().unwrap());
    let renew = || world.post(&format!("{path}/renew"), &json!({}));
    renew().by(&b.token).send_over(&mut connection).await.refused(ErrorCode::Forbidden);
    world.delete(&path).by(&b.token).send_over(&mut connection).await.refused(ErrorCode::Forbidden);
    renew().send_over(&mut connection).await.refused(ErrorCode::Unauthenticated);
    let shown = world.get(&path).by(&b.token).send_over(&mut connection).await.done(200);
    assert_eq!((&shown["state"], &shown["run"]), (&json!("held"), &json!(a.id)));
    renew().by(&a.token).send_over(&mut connection).await.done(200);
}
