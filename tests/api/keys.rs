//! `Idempotency-Key`: the same request again is the first one's outcome, never a second effect.
use crate::{
    http::Connection,
    node::eventually,
    world::{World, wish},
};
use ringfence_protocol::ErrorCode;
use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpStream};

#[tokio::test]
async fn a_repeated_acquire_is_the_first_lease_with_a_new_grant() {
    let world = World::start().await;
    let run = world.run().await;
    let acquire = || world.acquire("release/prod-eu").by(&run.token).key("deploy-1");
    let first = acquire().send().await;
    assert_eq!(first.header("idempotency-replayed"), Some("false"));
    let again = acquire().send().await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(first.header("location"), again.header("location"));
    let (first, again) = (first.done(201), again.done(201));
    assert_eq!((&first["id"], &first["fence"]), (&again["id"], &again["fence"]));
    assert_ne!(first["grant"], again["grant"]);
    world
        .delete(&format!("/v1/leases/{}", first["id"].as_str().unwrap()))
        .by(&run.token)
        .send()
        .await
        .done(200);
    let over = acquire().send().await.refused(ErrorCode::LeaseEnded);
    assert_eq!((&over["reason"], &over["lease"]), (&json!("released"), &first["id"]));
}

#[tokio::test]
async fn a_repeated_creation_of_a_run_gives_a_credential_of_the_same_run() {
    let world = World::start().await;
    let body = json!({"name": "n"});
    let create = || world.post("/v1/runs", &body).by(&world.orchestrator).key("run-1");
    let first = create().send().await.done(201);
    let again = create().send().await.done(201);
    assert_eq!(first["id"], again["id"]);
    for run in [&first, &again] {
        world.get("/v1/leases").by(run["token"].as_str().unwrap()).send().await.done(200);
    }
    let end = world.post(&format!("/v1/runs/{}/end", first["id"].as_str().unwrap()), &json!({"reason": "x"}));
    end.by(&world.orchestrator).send().await.done(200);
    let over = create().send().await.done(201);
    assert_eq!((&over["state"], &over["token"]), (&json!("ended"), &json!(null)));
}

#[tokio::test]
async fn a_key_is_bound_to_what_was_meant_not_to_how_it_was_written() {
    let world = World::start().await;
    let run = world.run().await;
    let acquire = |body: String| {
        let ask = world.ask(hyper::Method::POST, "/v1/leases").body("application/json", body);
        ask.by(&run.token).key("k")
    };
    let plain = wish("a/b").to_string();
    let first = acquire(plain.clone()).send().await.done(201);
    let spelled_out = format!(
        r#" {{"ttl_ms":10000, "run":"{}", "write_set":[{{"mode":"exclusive","actions":["*"],"scope":"a\u002fb"}}]}}"#,
        run.id
    );
    assert_eq!(acquire(spelled_out).send().await.done(201)["id"], first["id"]);
    for other in [
        plain.replace("exclusive", "shared"),
        plain.replace("a/b", "a/c"),
        plain.replacen('{', r#"{"ttl_ms":10001,"#, 1),
        plain.replacen('{', r#"{"purpose":"x","#, 1),
    ] {
        acquire(other).send().await.refused(ErrorCode::FingerprintConflict);
    }
    assert_eq!(acquire(plain).send().await.done(201)["id"], first["id"]);
}

#[tokio::test]
async fn a_key_that_ended_a_run_does_not_revoke_it() {
    let world = World::start().await;
    let run = world.run().await;
    let ask = |what: &str| {
        let path = format!("/v1/runs/{}/{what}", run.id);
        world.post(&path, &json!({"reason": "x"})).by(&world.orchestrator).key("k")
    };
    ask("end").send().await.done(200);
    assert_eq!(ask("end").send().await.header("idempotency-replayed"), Some("true"));
    ask("revoke").send().await.refused(ErrorCode::FingerprintConflict);
}

#[tokio::test]
async fn a_refused_request_does_not_take_its_key() {
    let world = World::start().await;
    let (holder, other) = (world.run().await, world.run().await);
    let lease = world.lease(&holder, "release/prod-eu").await;
    let acquire = || world.acquire("release/prod-eu").by(&other.token).key("k");
    acquire().send().await.refused(ErrorCode::WriteSetConflict);
    world
        .delete(&format!("/v1/leases/{}", lease["id"].as_str().unwrap()))
        .by(&holder.token)
        .send()
        .await
        .done(200);
    let granted = acquire().send().await;
    assert_eq!(granted.header("idempotency-replayed"), Some("false"));
    granted.done(201);
}

#[tokio::test]
async fn quoted_and_bare_are_one_key_and_what_is_neither_is_refused() {
    let world = World::start().await;
    let body = json!({"name": "n"});
    let create = |key: &str| world.post("/v1/runs", &body).by(&world.orchestrator).key(key);
    let first = create("k1").send().await.done(201);
    assert_eq!(create("\"k1\"").send().await.done(201)["id"], first["id"]);
    create(&"a".repeat(255)).send().await.done(201);
    for bad in ["", "\"\"", &"a".repeat(256), "a\tb", "a b", "\"a\";p=1", "ä"] {
        create(bad).send().await.refused(ErrorCode::IdempotencyKeyInvalid);
    }
    for second in ["k2", "k1"] {
        create("k1").key(second).send().await.refused(ErrorCode::IdempotencyKeyInvalid);
    }
}

#[tokio::test]
async fn renewals_and_verifications_ignore_a_key() {
    let world = World::start().await;
    let run = world.run().await;
    let lease = world.lease(&run, "release/prod-eu").await;
    let renew = world.post(&format!("/v1/leases/{}/renew", lease["id"].as_str().unwrap()), &json!({}));
    for key in ["k", "k", "not a key"] {
        let renewed = renew.clone().by(&run.token).key(key).send().await;
        assert_eq!(renewed.header("idempotency-replayed"), None);
        renewed.done(200);
    }
}

#[tokio::test]
async fn keys_of_leases_belong_to_the_run() {
    let world = World::start().await;
    let (a, b) = (world.run().await, world.run().await);
    let acquire = |token: &str, scope: &str| world.acquire(scope).by(token).key("k");
    acquire(&a.token, "a/1").send().await.done(201);
    acquire(&b.token, "a/2").send().await.done(201);
    let mut body = wish("a/1");
    body["run"] = json!(a.id);
    let by_orchestrator = world.post("/v1/leases", &body).by(&world.orchestrator).key("k").send().await;
    assert_eq!(by_orchestrator.header("idempotency-replayed"), Some("true"));
}

#[tokio::test]
async fn whoever_hangs_up_gets_the_one_outcome_when_they_come_back() {
    let world = World::start().await;
    let run = world.run().await;
    let body = wish("release/prod-eu").to_string();
    let head = format!(
        "POST /v1/leases HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nidempotency-key: k\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        run.token,
        body.len()
    );
    let mut stream = TcpStream::connect(world.address(0)).await.unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let held = || world.get("/v1/leases?state=held").by(&run.token);
    // Read over a connection of its own until the lease is there: then hang up without having read the answer.
    let mut connection = Connection::open(world.address(0)).await;
    let lease = eventually("the lease is granted", async || {
        let held = held().send_over(&mut connection).await.done(200);
        held["items"].get(0).cloned()
    })
    .await;
    drop(stream);
    let again = world.acquire("release/prod-eu").by(&run.token).key("k").send().await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.done(201)["fence"], lease["fence"]);
    assert_eq!(held().send().await.done(200)["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn many_at_once_with_one_key_are_one_lease() {
    let world = World::start().await;
    let run = world.run().await;
    let attempts = (0..32).map(|_| world.acquire("release/prod-eu").by(&run.token).key("k").send());
    let replies = futures_util::future::join_all(attempts).await;
    let fresh = replies.iter().filter(|reply| reply.header("idempotency-replayed") == Some("false")).count();
    assert_eq!(fresh, 1);
    let fences: Vec<_> = replies.into_iter().map(|reply| reply.done(201)["fence"].clone()).collect();
    assert!(fences.iter().all(|fence| *fence == fences[0]), "{fences:?}");
}
