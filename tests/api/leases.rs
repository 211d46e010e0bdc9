use crate::{
    node::eventually,
    world::{World, wish},
};
use ringfence_protocol::{
    ErrorCode, Timestamp,
    claims::{GRANT_TYPE, GrantClaims},
    jws::{Jwks, KeySet},
};
use serde_json::{Value, json};

fn path(lease: &Value) -> String {
    format!("/v1/leases/{}", lease["id"].as_str().unwrap())
}

async fn grant_of(world: &World, lease: &Value) -> GrantClaims {
    let jwks: Jwks =
        serde_json::from_value(world.get("/.well-known/jwks.json").send().await.done(200)).unwrap();
    KeySet::new(&jwks).verify(GRANT_TYPE, lease["grant"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn a_lease_is_acquired_with_a_grant_that_says_what_it_says_and_no_more() {
    let world = World::start().await;
    let run = world.run().await;
    let wish = json!({"ttl_ms": 20_000, "purpose": "roll out", "wait_ms": 0, "max_hold_ms": null, "write_set": [
        {"scope": "release/prod-eu", "mode": "exclusive", "actions": ["deploy"]},
        {"scope": "config/eu/**", "mode": "shared"}]});
    let reply = world.post("/v1/leases", &wish).by(&run.token).send().await;
    assert!(reply.header("location").unwrap().starts_with("/v1/leases/lse_"));
    assert!(reply.header("ringfence-revision").unwrap().starts_with("inc_"));
    let lease = reply.done(201);
    assert_eq!((&lease["run"], &lease["state"]), (&json!(run.id), &json!("held")));

    let claims = grant_of(&world, &lease).await;
    assert_eq!((json!(claims.lease), json!(claims.fence)), (lease["id"].clone(), lease["fence"].clone()));
    assert_eq!((json!(claims.sub), json!(claims.principal)), (json!(run.id), json!("orchestrator:planner")));
    let entries =
        json!([{"s": "release/prod-eu", "m": "x", "a": ["deploy"]}, {"s": "config/eu/**", "m": "s"}]);
    assert_eq!(json!(claims.scopes), entries);
    assert!(claims.iat < claims.exp && claims.exp <= claims.iat + 20, "{claims:?}");
    let expires_at: Timestamp = serde_json::from_value(lease["expires_at"].clone()).unwrap();
    assert!(claims.exp * 1000 <= expires_at.unix_ms(), "a grant must not outlive its lease: {claims:?}");
}

#[tokio::test]
async fn a_renewal_gives_a_new_grant_of_the_same_fence_and_takes_an_absent_body() {
    let world = World::start().await;
    let run = world.run().await;
    let lease = world.lease(&run, "release/prod-eu").await;
    let renew = || world.ask(hyper::Method::POST, &format!("{}/renew", path(&lease))).by(&run.token);
    let renewed = renew().send().await.done(200);
    assert_eq!(renewed["fence"], lease["fence"]);
    assert_ne!(grant_of(&world, &renewed).await.jti, grant_of(&world, &lease).await.jti);
    renew().body("application/json", "").send().await.done(200);
    renew().body("application/json", r#"{"progress":null}"#).send().await.done(200);
    let refused =
        renew().body("application/json", r#"{"progress":7}"#).send().await.refused(ErrorCode::InvalidField);
    assert_eq!(refused["field"], "progress");
}

#[tokio::test]
async fn a_lease_is_read_without_its_grant() {
    let world = World::start().await;
    let run = world.run().await;
    let lease = world.lease(&run, "release/prod-eu").await;
    for by in [&run.token, &world.target, &world.orchestrator] {
        let shown = world.get(&path(&lease)).by(by).send().await.done(200);
        assert_eq!((&shown["fence"], &shown["grant"]), (&lease["fence"], &json!(null)));
    }
}

#[tokio::test]
async fn releasing_is_clean_can_be_repeated_and_never_touches_a_successor() {
    let world = World::start().await;
    let (first, second) = (world.run().await, world.run().await);
    let lease = world.lease(&first, "release/prod-eu").await;
    let release = || world.delete(&path(&lease)).by(&first.token);
    let released = release().send().await.done(200);
    assert_eq!((&released["state"], &released["reason"]), (&json!("ended"), &json!("released")));
    assert_eq!((&released["end_fence"], &released["grant"]), (&json!(null), &json!(null)));
    let successor = world.lease(&second, "release/prod-eu").await;
    assert_eq!(release().send().await.done(200)["reason"], "released");
    assert_eq!(world.get(&path(&successor)).by(&second.token).send().await.done(200)["state"], "held");
    let renew = world.post(&format!("{}/renew", path(&lease)), &json!({})).by(&first.token);
    let problem = renew.send().await.refused(ErrorCode::LeaseEnded);
    assert_eq!((&problem["reason"], &problem["lease"]), (&json!("released"), &lease["id"]));
}

#[tokio::test]
async fn a_conflict_says_who_holds_what_and_when_to_ask_again() {
    let world = World::start().await;
    let (holder, other) = (world.run().await, world.run().await);
    let wish =
        json!({"purpose": "migrate", "write_set": [{"scope": "release/prod-eu/**", "mode": "exclusive"}]});
    let lease = world.post("/v1/leases", &wish).by(&holder.token).send().await.done(201);
    let wish = world.acquire("release/prod-eu/db").by(&other.token).send().await;
    let problem = wish.refused(ErrorCode::WriteSetConflict);
    let conflict = &problem["conflicts"][0];
    assert_eq!((&conflict["lease"], &conflict["run"]), (&lease["id"], &json!(holder.id)));
    assert_eq!(
        (&conflict["held_scope"], &conflict["purpose"]),
        (&json!("release/prod-eu/**"), &json!("migrate"))
    );
    assert_eq!((&conflict["fence"], &problem["resource"]), (&lease["fence"], &json!("release/prod-eu/db")));
}

#[tokio::test]
async fn a_run_that_holds_an_overlapping_lease_is_told_which() {
    let world = World::start().await;
    let run = world.run().await;
    let lease = world.lease(&run, "release/prod-eu").await;
    let problem =
        world.acquire("release/prod-eu").by(&run.token).send().await.refused(ErrorCode::AlreadyHeld);
    assert_eq!(problem["lease"], lease["id"]);
}

#[tokio::test]
async fn what_is_not_renewed_expires_and_its_end_takes_a_fence() {
    let world = World::start().await;
    let (run, next) = (world.run().await, world.run().await);
    let wish = json!({"ttl_ms": 1000, "write_set": [{"scope": "release/prod-eu", "mode": "exclusive"}]});
    let lease = world.post("/v1/leases", &wish).by(&run.token).send().await.done(201);
    let ended = eventually("the lease expires", async || {
        let shown = world.get(&path(&lease)).by(&run.token).send().await.done(200);
        (shown["state"] == "ended").then_some(shown)
    })
    .await;
    assert_eq!(ended["reason"], "expired");
    let renew = world.post(&format!("{}/renew", path(&lease)), &json!({})).by(&run.token);
    assert_eq!(renew.send().await.refused(ErrorCode::LeaseEnded)["reason"], "expired");
    let successor = world.lease(&next, "release/prod-eu").await;
    assert!(successor["fence"].as_u64() > ended["end_fence"].as_u64());
    assert_eq!(successor["previous"][0]["lease"], lease["id"]);
}

#[tokio::test]
async fn scopes_beyond_the_allowance_or_too_broad_are_refused_by_name() {
    let world = World::start().await;
    let run = world.run_with(json!({"name": "n", "allow": ["config/eu/**"]})).await;
    world.lease(&run, "config/eu/a").await;
    let problem =
        world.acquire("config/us/a").by(&run.token).send().await.refused(ErrorCode::OutsideAllowance);
    assert_eq!(problem["resource"], "config/us/a");
    for broad in ["production", "production/**"] {
        let problem = world.acquire(broad).by(&run.token).send().await.refused(ErrorCode::ScopeTooBroad);
        assert_eq!(problem["resource"], broad);
    }
    let body = json!({"name": "n", "allow": ["production/**"]});
    world.post("/v1/runs", &body).by(&world.orchestrator).send().await.refused(ErrorCode::ScopeTooBroad);
}

#[tokio::test]
async fn an_orchestrator_acquires_renews_and_releases_for_a_run_that_it_created() {
    let world = World::start().await;
    let run = world.run().await;
    let mut body = wish("release/prod-eu");
    body["run"] = json!(run.id);
    let lease = world.post("/v1/leases", &body).by(&world.orchestrator).send().await.done(201);
    assert_eq!(lease["run"], run.id);
    let renew = world.post(&format!("{}/renew", path(&lease)), &json!({}));
    renew.by(&world.orchestrator).send().await.done(200);
    world.delete(&path(&lease)).by(&world.orchestrator).send().await.done(200);
    let nobody = world.acquire("release/prod-eu").by(&world.orchestrator).send().await;
    assert_eq!(nobody.refused(ErrorCode::InvalidField)["field"], "run");
}

#[tokio::test]
async fn entries_of_one_write_set_do_not_overlap_and_numbers_keep_their_bounds() {
    let world = World::start().await;
    let run = world.run().await;
    let refused = |body: Value| {
        let ask = world.post("/v1/leases", &body).by(&run.token);
        async { ask.send().await.refused(ErrorCode::InvalidField)["field"].as_str().unwrap().to_owned() }
    };
    let overlapping = json!({"write_set": [
        {"scope": "a/b/**", "mode": "shared"}, {"scope": "a/b/c", "mode": "exclusive"}]});
    assert_eq!(refused(overlapping).await, "write_set[1].scope");
    assert_eq!(refused(json!({"write_set": []})).await, "write_set");
    for (field, value) in
        [("ttl_ms", 999), ("ttl_ms", 3_600_001), ("wait_ms", 1), ("stall_ms", 1), ("max_hold_ms", 1)]
    {
        let mut body = wish("a/b");
        body[field] = json!(value);
        assert_eq!(refused(body).await, field);
    }
}

#[tokio::test]
async fn a_resource_shows_its_holders_and_the_greatest_fence() {
    let world = World::start().await;
    let run = world.run().await;
    let lease = world.lease(&run, "release/prod-eu/**").await;
    let shown = world.get("/v1/resources/release/prod-eu/db").by(&world.target).send().await.done(200);
    assert_eq!(
        (&shown["resource"], &shown["highest_fence"]),
        (&json!("release/prod-eu/db"), &lease["fence"])
    );
    assert_eq!(shown["holders"][0]["scope"], "release/prod-eu/**");
    let free = world.get("/v1/resources/release/prod-us").by(&world.target).send().await.done(200);
    assert_eq!((&free["holders"], &free["highest_fence"]), (&json!([]), &json!(null)));
    for bad in ["a//b", "a/../b", "a/b/", "a%2Fb", "a/%20b", "a/**"] {
        let ask = world.get(&format!("/v1/resources/{bad}")).by(&world.target);
        ask.send().await.refused(ErrorCode::InvalidResource);
    }
}
