//! What is refused before anything is decided.
use crate::{
    http::raw,
    world::{World, wish},
};
use hyper::Method;
use ringfence_protocol::ErrorCode;
use serde_json::{Value, json};

#[tokio::test]
async fn every_way_in_which_a_body_can_be_wrong_has_its_own_code_and_names_the_field() {
    let world = World::start().await;
    let run = world.run().await;
    for (body, code, field) in [
        ("", ErrorCode::MalformedJson, None),
        ("{", ErrorCode::MalformedJson, None),
        ("[]", ErrorCode::MalformedJson, None),
        ("{}{}", ErrorCode::MalformedJson, None),
        (r#"{"write_set":[],"ttl_sm":1}"#, ErrorCode::UnknownField, Some("ttl_sm")),
        (r#"{"write_set":[],"break_glass":{"reason":"x"}}"#, ErrorCode::UnknownField, Some("break_glass")),
        (r#"{"write_set":[],"write_set":[]}"#, ErrorCode::DuplicateField, Some("write_set")),
        (r#"{"write_set":[],"ttl_ms":"1"}"#, ErrorCode::InvalidField, Some("ttl_ms")),
        (r#"{"write_set":[],"run":"run_x"}"#, ErrorCode::InvalidField, Some("run")),
        (
            r#"{"write_set":[{"scope":"a//b","mode":"shared"}]}"#,
            ErrorCode::InvalidResource,
            Some("write_set[0].scope"),
        ),
        ("{}", ErrorCode::InvalidField, Some("write_set")),
    ] {
        let ask = world.ask(Method::POST, "/v1/leases").by(&run.token).body("application/json", body);
        let problem = ask.send().await.refused(code);
        assert_eq!(problem.get("field").and_then(Value::as_str), field, "{body}");
    }
}

#[tokio::test]
async fn a_body_of_another_type_is_not_taken() {
    let world = World::start().await;
    let run = world.run().await;
    let ask = |content_type: &str| {
        let body = wish("a/b").to_string();
        world.ask(Method::POST, "/v1/leases").by(&run.token).body(content_type, body)
    };
    for bad in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1"] {
        ask(bad).send().await.refused(ErrorCode::UnsupportedMediaType);
    }
    ask("application/json; charset=utf-8").send().await.done(201);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_however_it_is_sent() {
    let world = World::start().await;
    let run = world.run().await;
    let large = format!("{}{}", wish("a/b"), " ".repeat(256 * 1024));
    let ask = world.ask(Method::POST, "/v1/leases").by(&run.token).body("application/json", large.clone());
    ask.send().await.refused(ErrorCode::BodyTooLarge);

    let chunk = format!("{:x}\r\n{}\r\n", 64 * 1024, " ".repeat(64 * 1024));
    let chunked = format!(
        "POST /v1/leases HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{}0\r\n\r\n",
        run.token,
        chunk.repeat(5)
    );
    let answer = raw(world.address(0), chunked.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("body_too_large"), "{answer}");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let world = World::start().await;
    let run = world.run().await;
    let large = world.get("/v1/leases").by(&run.token).header("x-large", &"a".repeat(17 * 1024));
    large.send().await.refused(ErrorCode::HeadersTooLarge);
    let long = world.get(&format!("/v1/leases?cursor={}", "a".repeat(9 * 1024))).by(&run.token);
    long.send().await.refused(ErrorCode::HeadersTooLarge);
}

#[tokio::test]
async fn who_may_not_is_told_so_before_the_body_is_looked_at() {
    let world = World::start().await;
    let ask = || world.ask(Method::POST, "/v1/runs").body("text/plain", "{");
    ask().send().await.refused(ErrorCode::Unauthenticated);
    ask().by(&world.target).send().await.refused(ErrorCode::Forbidden);
    ask().by(&world.orchestrator).send().await.refused(ErrorCode::UnsupportedMediaType);
}

#[tokio::test]
async fn unknown_query_parameters_are_refused_by_name() {
    let world = World::start().await;
    let run = world.run().await;
    for (path, field) in [
        ("/v1/leases?stat=held", "stat"),
        ("/v1/leases?state=hold", "state"),
        ("/v1/leases?state=held&state=held", "state"),
        ("/v1/runs?limit=0", "limit"),
        ("/v1/runs?cursor=%20", "cursor"),
        ("/v1/runs?consistency=strong", "consistency"),
        ("/v1/cluster?consistency=stale", "consistency"),
    ] {
        let problem = world.get(path).by(&run.token).send().await.refused(ErrorCode::InvalidField);
        assert_eq!(problem["field"], field, "{path}");
    }
    let scope = world.get("/v1/leases?scope=a//b").by(&run.token).send().await;
    scope.refused(ErrorCode::InvalidResource);
    let write = world.post("/v1/leases?dry_run=true", &wish("a/b")).by(&run.token).send().await;
    assert_eq!(write.refused(ErrorCode::InvalidField)["field"], "dry_run");
}

#[tokio::test]
async fn what_is_not_there_is_404_and_a_wrong_method_says_which_are_right() {
    let world = World::start().await;
    let by = &world.orchestrator;
    for path in [
        "/",
        "/v2/leases",
        "/v1/operations",
        "/v1/plan",
        "/v1/runs/run_x",
        "/v1/runs/run_01JD5ZJ5H6S9W3V4R0K2M8N7QX",
        "/v1/leases/lse_01JD5ZJ5H6S9W3V4R0K2M8N7QX",
        "/v1/leases/run_01JD5ZJ5H6S9W3V4R0K2M8N7QX",
        "/v1/runs/",
        "/v1/resources/",
    ] {
        world.get(path).by(by).send().await.refused(ErrorCode::NotFound);
    }
    let heartbeat = world.post("/v1/runs/run_01JD5ZJ5H6S9W3V4R0K2M8N7QX/heartbeat", &json!({})).by(by);
    heartbeat.send().await.refused(ErrorCode::NotFound);
    for (method, path, allowed) in
        [(Method::PUT, "/v1/leases", ["GET", "POST"]), (Method::PATCH, "/v1/tokens/x", ["DELETE", "DELETE"])]
    {
        let reply = world.ask(method, path).by(by).send().await;
        let allow = reply.header("allow").unwrap().to_owned();
        assert!(allowed.iter().all(|method| allow.contains(method)), "{allow}");
        reply.refused(ErrorCode::MethodNotAllowed);
    }
}

#[tokio::test]
async fn a_request_keeps_its_id_and_gets_one_where_it_has_none() {
    let world = World::start().await;
    let kept = world.get("/healthz").header("x-request-id", "trace-7").send().await;
    assert_eq!(kept.header("x-request-id"), Some("trace-7"));
    for unusable in ["a b", "", &"x".repeat(129)] {
        let reply = world.get("/healthz").header("x-request-id", unusable).send().await;
        assert!(reply.header("x-request-id").unwrap().starts_with("req_"), "{unusable}");
    }
    let refused = world.get("/v1/runs").header("x-request-id", "trace-8").send().await;
    assert_eq!(refused.refused(ErrorCode::Unauthenticated)["request_id"], "trace-8");
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_given_up_within_five_seconds() {
    let world = World::start().await;
    let run = world.run().await;
    let stalled = format!(
        "POST /v1/leases HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{",
        run.token
    );
    let started = std::time::Instant::now();
    let answer = raw(world.address(0), stalled.as_bytes()).await;
    assert!(started.elapsed().as_secs_f32() < 5.0, "{:?}", started.elapsed());
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains(r#""applied":"no""#), "{answer}");
}
