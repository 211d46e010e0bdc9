//! Several nodes, and nodes that have lost the others.
use crate::{
    http::Connection,
    node::{Nodes, OPERATOR, eventually},
    world::{World, wish},
};
use ringfence_protocol::ErrorCode;
use serde_json::json;

fn index(revision: &str) -> u64 {
    revision.rsplit_once('-').unwrap().1.parse().unwrap()
}

/// Connections that are open already: an answer of one node is followed by the next node's question at once, before
/// that node has heard of what the first one did.
#[tokio::test]
async fn what_was_made_through_one_node_is_there_at_the_next_at_once() {
    let world = World::start_with(3).await;
    let mut connections = Vec::new();
    for node in 0..3 {
        connections.push(Connection::open(world.address(node)).await);
    }
    for round in 0..60 {
        let (first, next) = (round % 3, (round + 1 + round / 3 % 2) % 3);
        let name = format!("planner-{round}");
        let body = json!({"name": name, "role": "orchestrator"});
        let make = world.post("/v1/tokens", &body).by(&world.admin);
        let token = make.send_over(&mut connections[first]).await.done(201);
        let token = token["secret"].as_str().unwrap();
        let create = world.post("/v1/runs", &json!({"name": name})).by(token);
        let run = create.send_over(&mut connections[next]).await.done(201);
        let credential = run["token"].as_str().unwrap();
        // The others first: a linearizable read at the leader would tell them of all that is committed.
        for node in [next + 1, next + 2, next] {
            let read = world.get("/v1/leases").by(credential);
            read.send_over(&mut connections[node % 3]).await.done(200);
        }
        let acquire = world.acquire(&format!("release/{name}")).by(credential);
        let acquired = acquire.send_over(&mut connections[first]).await;
        let at = index(acquired.header("ringfence-revision").unwrap());
        let lease = acquired.done(201);
        let show = world.get(&format!("/v1/leases/{}", lease["id"].as_str().unwrap())).by(credential);
        let shown = show.send_over(&mut connections[next]).await;
        assert!(index(shown.header("ringfence-revision").unwrap()) >= at);
        assert_eq!(shown.done(200)["fence"], lease["fence"]);
    }
}

#[tokio::test]
async fn a_node_without_a_quorum_lives_refuses_writes_and_answers_stale_reads() {
    let mut world = World::start_with(2).await;
    let run = world.run().await;
    let lease = world.lease(&run, "release/prod-eu").await;
    let path = format!("/v1/leases/{}?consistency=stale", lease["id"].as_str().unwrap());
    eventually("the second node has the lease too", async || {
        (world.get(&path).by(&run.token).at(1).send().await.status == 200).then_some(())
    })
    .await;
    world.nodes.nodes.remove(0).stop().await;

    world.get("/healthz").send().await.done(200);
    world.get("/readyz").send().await.refused(ErrorCode::NoLeader);
    let stale = world.get(&path).by(&run.token).send().await.done(200);
    assert_eq!(stale["fence"], lease["fence"]);
    // What is wrong in itself needs nobody to say so.
    let wrong = json!({"ttl_ms": 1, "write_set": [{"scope": "a/b", "mode": "shared"}]});
    world.post("/v1/leases", &wrong).by(&run.token).send().await.refused(ErrorCode::InvalidField);
    // It may have been given the leadership before the other one stopped; without a majority that is worth nothing.
    world.get("/v1/cluster").by(OPERATOR).send().await.done(200);
    let read = world.get("/v1/leases").by(&run.token).send().await.refused(ErrorCode::NoLeader);
    assert_eq!(read["applied"], "no");
    let write = world.post("/v1/leases", &wish("a/b")).by(&run.token).send().await.json;
    let (error, applied) = (write["error"].as_str().unwrap(), write["applied"].as_str().unwrap());
    assert!([("no_leader", "no"), ("outcome_uncertain", "unknown")].contains(&(error, applied)), "{write}");
}

#[tokio::test]
async fn a_node_that_no_cluster_has_taken_in_says_so_and_lives() {
    let nodes = Nodes::start(1, false).await;
    let document = crate::contract::Document::of(nodes.nodes[0].api).await;
    let world =
        World { nodes, document, admin: String::new(), orchestrator: String::new(), target: String::new() };
    let live = world.get("/healthz").send().await;
    assert_eq!(live.header("ringfence-revision"), None);
    live.done(200);
    world.get("/readyz").send().await.refused(ErrorCode::NoLeader);
    world.get("/v1/cluster").by(OPERATOR).send().await.refused(ErrorCode::NoLeader);
    world.get("/metrics").send().await.done(200);
    let jwks = world.get("/.well-known/jwks.json").send().await.done(200);
    assert_eq!(jwks["keys"].as_array().unwrap().len(), 1);
}
