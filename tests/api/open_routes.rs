//! What is there for everybody.
use crate::{
    node::{OPERATOR, eventually},
    world::World,
};
use ringfence_protocol::{ErrorCode, jws::Jwks};
use serde_json::json;

#[tokio::test]
async fn every_problem_has_a_page_and_what_is_no_code_has_none() {
    let world = World::start().await;
    for code in ErrorCode::ALL {
        let page = world.get(&format!("/problems/{code}")).send().await;
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
        assert!(page.text.contains(code.title()), "{code}");
    }
    world.get("/problems/no_such_code").send().await.refused(ErrorCode::NotFound);
}

#[tokio::test]
async fn the_key_set_names_its_cluster_and_is_there_for_everybody() {
    let world = World::start().await;
    let jwks: Jwks =
        serde_json::from_value(world.get("/.well-known/jwks.json").send().await.done(200)).unwrap();
    let cluster = world.get("/v1/cluster").by(OPERATOR).send().await.done(200);
    assert_eq!((jwks.keys.len(), json!(jwks.cluster)), (1, cluster["cluster"].clone()));
}

#[tokio::test]
async fn the_cluster_shows_its_members_and_who_leads() {
    let world = World::start().await;
    let reply = world.get("/v1/cluster").by(&world.target).send().await;
    let revision = reply.header("ringfence-revision").unwrap().to_owned();
    let cluster = reply.done(200);
    assert_eq!((&cluster["leader"], &cluster["revision"]), (&json!(1), &json!(revision)));
    let node = &cluster["nodes"][0];
    assert_eq!((&node["id"], &node["state"], &node["voter"]), (&json!(1), &json!("leader"), &json!(true)));
    assert_eq!(node["api"], format!("http://{}", world.address(0)));
    assert!(revision.starts_with(cluster["incarnation"].as_str().unwrap()));
}

#[tokio::test]
async fn metrics_count_routes_by_their_templates_and_show_what_there_is() {
    let world = World::start().await;
    let run = world.run().await;
    let lease = world.lease(&run, "release/secret-scope").await;
    let lease_id = lease["id"].as_str().unwrap();
    world.get(&format!("/v1/leases/{lease_id}")).by(&run.token).send().await.done(200);
    world.get("/no/such/path").send().await.refused(ErrorCode::NotFound);
    // Other tests of this process may count too: numbers are waited for, names and labels are there at once.
    let metrics = eventually("one lease is counted", async || {
        let metrics = world.get("/metrics").send().await;
        metrics.text.contains("\nringfence_leases 1\n").then_some(metrics)
    })
    .await;
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    for line in [
        r#"ringfence_http_requests_total{route="/v1/leases/{lease}",method="GET",status="200"} "#,
        r#"ringfence_http_requests_total{route="none",method="GET",status="404"} "#,
        r#"ringfence_http_request_seconds_bucket{route="/v1/leases/{lease}",le="0.1"} "#,
        "ringfence_raft_leader 1",
        "# HELP ringfence_http_request_seconds ",
        "# TYPE ringfence_http_request_seconds histogram",
    ] {
        assert!(metrics.text.contains(line), "{line} is missing in\n{}", metrics.text);
    }
    for secret in [lease_id, run.id.as_str(), "secret-scope"] {
        assert!(!metrics.text.contains(secret), "{secret}");
    }
}
