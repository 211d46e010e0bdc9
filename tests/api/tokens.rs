use crate::{node::OPERATOR, world::World};
use ringfence_protocol::ErrorCode;
use serde_json::json;

#[tokio::test]
async fn a_secret_is_shown_once_and_never_listed() {
    let world = World::start().await;
    let body = json!({"name": "planner", "role": "orchestrator"});
    let make = || world.post("/v1/tokens", &body).by(&world.admin).key("token-1");
    let first = make().send().await;
    assert_eq!(first.header("idempotency-replayed"), Some("false"));
    let first = first.done(201);
    assert!(first["secret"].as_str().unwrap().starts_with("rft_"));
    assert_eq!((&first["principal"], &first["tenant"]), (&json!("orchestrator:planner"), &json!("default")));

    let again = make().send().await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let again = again.done(201);
    assert_eq!((&again["id"], &again["secret"]), (&first["id"], &json!(null)));

    let listed = world.get("/v1/tokens").by(&world.admin).send().await.done(200);
    let listed = listed["items"].as_array().unwrap();
    assert!(listed.iter().any(|token| token["id"] == first["id"]));
    assert!(listed.iter().all(|token| token["secret"] == json!(null)), "{listed:?}");
}

#[tokio::test]
async fn a_deleted_token_is_worth_nothing_and_deleting_it_again_answers_the_same() {
    let world = World::start().await;
    let body = json!({"name": "second", "role": "orchestrator"});
    let token = world.post("/v1/tokens", &body).by(&world.admin).send().await.done(201);
    let secret = token["secret"].as_str().unwrap();
    world.get("/v1/runs").by(secret).send().await.done(200);
    let path = format!("/v1/tokens/{}", token["id"].as_str().unwrap());
    world.delete(&path).by(&world.admin).send().await.done(204);
    world.get("/v1/runs").by(secret).send().await.refused(ErrorCode::CredentialRevoked);
    world.delete(&path).by(&world.admin).send().await.done(204);
}

#[tokio::test]
async fn two_tokens_of_one_name_are_one_principal() {
    let world = World::start().await;
    let run = world.run().await;
    let rotated = world.token(&world.admin, "default", "orchestrator", "planner").await;
    let end = world.post(&format!("/v1/runs/{}/end", run.id), &json!({"reason": "rotated"}));
    end.by(&rotated).send().await.done(200);
}

#[tokio::test]
async fn an_admin_makes_tokens_of_its_own_tenant_only_and_nobody_makes_an_operator() {
    let world = World::start().await;
    let make = |by: &str, body| world.post("/v1/tokens", &body).by(by);
    let foreign = json!({"name": "x", "role": "admin", "tenant": "other"});
    make(&world.admin, foreign).send().await.refused(ErrorCode::Forbidden);
    for by in [OPERATOR, &world.admin] {
        let body = json!({"name": "x", "role": "operator", "tenant": "default"});
        assert_eq!(make(by, body).send().await.refused(ErrorCode::InvalidField)["field"], "role");
    }
    let nowhere = make(OPERATOR, json!({"name": "x", "role": "admin"})).send().await;
    assert_eq!(nowhere.refused(ErrorCode::InvalidField)["field"], "tenant");
    let listed = world.get("/v1/tokens?tenant=other").by(&world.admin).send().await;
    listed.refused(ErrorCode::Forbidden);
    let all = world.get("/v1/tokens?tenant=default").by(OPERATOR).send().await.done(200);
    assert_eq!(all["items"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_tenant_has_a_bounded_number_of_tokens() {
    let world = World::start().await;
    // Three are there already.
    for number in 3..1000 {
        let body = json!({"name": format!("t{number}"), "role": "auditor"});
        world.post("/v1/tokens", &body).by(&world.admin).send().await.done(201);
    }
    let one_more = world.post("/v1/tokens", &json!({"name": "more", "role": "auditor"})).by(&world.admin);
    one_more.send().await.refused(ErrorCode::LimitExceeded);
}
