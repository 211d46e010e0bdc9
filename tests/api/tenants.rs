//! What belongs to another tenant is not there.
use crate::{
    node::OPERATOR,
    world::{World, wish},
};
use ringfence_protocol::ErrorCode;
use serde_json::json;

/// Everything that somebody of tenant `b` could try on what tenant `a` has.
#[tokio::test]
async fn what_another_tenant_has_answers_404_and_shows_nothing_of_it() {
    let world = World::start().await;
    let body = json!({"name": "secret-name", "labels": {"secret": "label"}});
    let run = world.run_with(body).await;
    let lease = world.lease(&run, "release/secret-scope").await;
    let lease_id = lease["id"].as_str().unwrap();
    let admin = world.token(OPERATOR, "b", "admin", "root").await;
    let orchestrator = world.token(&admin, "b", "orchestrator", "planner").await;
    let target = world.token(&admin, "b", "target", "releases").await;
    let token_of_a =
        world.get("/v1/tokens").by(&world.admin).send().await.done(200)["items"][0]["id"].clone();

    let reason = json!({"reason": "x"});
    let mut for_their_run = wish("release/other");
    for_their_run["run"] = json!(run.id);
    let verify = json!({"grant": lease["grant"], "resource": "release/secret-scope", "action": "deploy"});
    for ask in [
        world.get(&format!("/v1/runs/{}", run.id)).by(&orchestrator),
        world.post(&format!("/v1/runs/{}/end", run.id), &reason).by(&orchestrator),
        world.post(&format!("/v1/runs/{}/revoke", run.id), &reason).by(&admin),
        world.get(&format!("/v1/leases/{lease_id}")).by(&target),
        world.post(&format!("/v1/leases/{lease_id}/renew"), &json!({})).by(&orchestrator),
        world.delete(&format!("/v1/leases/{lease_id}")).by(&orchestrator),
        world.post("/v1/leases", &for_their_run).by(&orchestrator),
        world.delete(&format!("/v1/tokens/{}", token_of_a.as_str().unwrap())).by(&admin),
        world.post("/v1/verify", &verify).by(&target),
    ] {
        let reply = ask.send().await;
        assert!(!reply.text.contains("secret"), "{}", reply.text);
        reply.refused(ErrorCode::NotFound);
    }
    for path in
        ["/v1/runs", "/v1/leases", "/v1/leases?scope=release/**", "/v1/resources/release/secret-scope"]
    {
        let reply = world.get(path).by(&orchestrator).send().await;
        assert!(!reply.text.contains(lease_id) && !reply.text.contains(&run.id), "{}", reply.text);
        reply.done(200);
    }
    assert_eq!(
        world.get(&format!("/v1/leases/{lease_id}")).by(&run.token).send().await.done(200)["state"],
        "held"
    );
}

#[tokio::test]
async fn the_same_scope_and_the_same_key_in_two_tenants_have_nothing_to_do_with_each_other() {
    let world = World::start().await;
    let admin = world.token(OPERATOR, "b", "admin", "root").await;
    let orchestrator = world.token(&admin, "b", "orchestrator", "planner").await;
    let body = json!({"name": "n"});
    let create = |by: &str| world.post("/v1/runs", &body).by(by).key("k1");
    let ours = create(&world.orchestrator).send().await.done(201);
    let theirs = create(&orchestrator).send().await;
    assert_eq!(theirs.header("idempotency-replayed"), Some("false"));
    let theirs = theirs.done(201);
    assert_ne!(ours["id"], theirs["id"]);
    for run in [ours, theirs] {
        world.acquire("release/prod-eu").by(run["token"].as_str().unwrap()).key("k1").send().await.done(201);
    }
}

#[tokio::test]
async fn the_operator_sees_no_tenants_runs_or_leases() {
    let world = World::start().await;
    for path in ["/v1/runs", "/v1/leases", "/v1/resources/a/b"] {
        world.get(path).by(OPERATOR).send().await.refused(ErrorCode::Forbidden);
    }
}
