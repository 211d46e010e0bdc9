//! A repeated request has one effect, whatever happened to its answers.
use crate::cluster::{Cluster, acquire, code, exclusive, until};
use ringfence_client::fresh_key;
use ringfence_protocol::{
    ErrorCode,
    body::{EndRun, LeaseState},
};

#[tokio::test]
async fn an_acquire_repeated_at_a_new_leader_is_the_same_lease_and_one_fence() {
    let mut cluster = Cluster::start().await;
    let (_, holder) = cluster.run().await;
    let (_, other) = cluster.run().await;
    let key = fresh_key();
    let first = holder.acquire(&exclusive("svc/orders", 60_000), Some(key.clone())).await.unwrap();
    let leader = cluster.leader().await;
    cluster.kill(leader);
    let again =
        until(async || holder.acquire(&exclusive("svc/orders", 60_000), Some(key.clone())).await.ok()).await;
    assert!(again.replayed);
    assert_eq!((again.body.id, again.body.fence), (first.body.id, first.body.fence));
    let refused = other.acquire(&exclusive("svc/orders", 1000), None).await;
    assert_eq!(code(refused), Some(ErrorCode::WriteSetConflict));
    let next = acquire(&other, "svc/other", 1000).await;
    assert_eq!(next.fence.get(), first.body.fence.get() + 1, "the repetition took no fence");
}

#[tokio::test]
async fn a_release_repeated_after_the_scope_went_to_another_run_leaves_that_one_alone() {
    let cluster = Cluster::start().await;
    let (_, holder) = cluster.run().await;
    let (_, other) = cluster.run().await;
    let first = acquire(&holder, "svc/orders", 60_000).await;
    holder.release(first.id).await.unwrap();
    let second = acquire(&other, "svc/orders", 60_000).await;
    let again = holder.release(first.id).await.unwrap().body;
    assert_eq!(again.state, LeaseState::Ended);
    assert_eq!(other.lease(second.id).await.unwrap().body.state, LeaseState::Held);
    assert_eq!(code(holder.release(second.id).await), Some(ErrorCode::Forbidden));
}

#[tokio::test]
async fn what_one_node_acknowledged_every_node_answers() {
    let cluster = Cluster::start().await;
    let (run, _) = cluster.run().await;
    for (at, node) in (1..=3).cycle().take(12).enumerate() {
        let writer = cluster.client_of(node, run.token.as_deref().unwrap());
        let lease = writer.acquire(&exclusive(&format!("svc/{at}"), 60_000), None).await.unwrap().body;
        for reader in 1..=3 {
            let reader = cluster.client_of(reader, &cluster.orchestrator);
            assert_eq!(reader.lease(lease.id).await.unwrap().body.fence, lease.fence);
        }
    }
    let orchestrator = cluster.client(&cluster.orchestrator);
    let EndRun { reason } = EndRun { reason: "done".parse().unwrap() };
    orchestrator.end_run(run.id, reason, None).await.unwrap();
    for node in 1..=3 {
        let client = cluster.client_of(node, run.token.as_deref().unwrap());
        assert_eq!(code(client.acquire(&exclusive("svc/late", 1000), None).await), Some(ErrorCode::RunEnded));
    }
}
