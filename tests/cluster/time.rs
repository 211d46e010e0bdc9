//! Expiry by the log's own time, across stalls, lost majorities and restarts.
use crate::cluster::{Cluster, acquire, exclusive, until};
use ringfence_protocol::{
    ErrorCode,
    body::{LeaseState, RenewLease},
    problem::EndReason,
};
use rustix::process::Signal;
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_leader_that_wakes_after_being_deposed_ends_no_lease_that_its_successor_renewed() {
    let mut cluster = Cluster::start().await;
    let (_, holder) = cluster.run().await;
    let (_, other) = cluster.run().await;
    let held = acquire(&holder, "svc/orders", 4000).await;
    let deposed = cluster.leader().await;
    cluster.signal(deposed, Signal::STOP);
    // Stopped for longer than two ttls, while the holder renews at whoever leads now.
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(9) {
        until(async || holder.renew(held.id, &RenewLease::default()).await.ok()).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    cluster.signal(deposed, Signal::CONT);
    // Once the woken node answers a linearizable read itself, it has heard of its successor and has applied what that
    // one did: what it meant to do before can't come any more.
    let woken = cluster.client_of(deposed, &cluster.orchestrator);
    let seen = until(async || woken.lease(held.id).await.ok()).await.body;
    assert_eq!((seen.state, seen.fence), (LeaseState::Held, held.fence));
    let refused = until(async || {
        other
            .acquire(&exclusive("svc/orders", 1000), None)
            .await
            .map_or_else(|error| error.code().map(Some), |_| Some(None))
    });
    assert_eq!(refused.await, Some(ErrorCode::WriteSetConflict), "nobody else gets what is still held");
    let renewed = until(async || holder.renew(held.id, &RenewLease::default()).await.ok()).await.body;
    assert_eq!((renewed.state, renewed.fence), (LeaseState::Held, held.fence));
}

#[tokio::test]
async fn a_lease_that_lapsed_while_there_was_no_majority_is_gone_soon_after_there_is_one() {
    let mut cluster = Cluster::start().await;
    let (_, holder) = cluster.run().await;
    let (_, other) = cluster.run().await;
    let held = acquire(&holder, "svc/orders", 2000).await;
    let leader = cluster.leader().await;
    let followers: Vec<_> = (1..=3).filter(|id| *id != leader).collect();
    for id in &followers {
        cluster.signal(*id, Signal::STOP);
    }
    // The outage itself: longer than the ttl.
    tokio::time::sleep(Duration::from_secs(5)).await;
    for id in &followers {
        cluster.signal(*id, Signal::CONT);
    }
    let next = acquire(&other, "svc/orders", 10_000).await;
    assert!(next.fence > held.fence);
    let ended = other.lease(held.id).await.unwrap().body;
    assert_eq!(ended.reason, Some(EndReason::Expired));
    assert!(ended.end_fence.is_some_and(|fence| held.fence < fence && fence < next.fence));
}

#[tokio::test]
async fn a_dead_holders_lease_is_neither_shortened_nor_kept_by_a_restart_of_all_nodes() {
    let mut cluster = Cluster::start().await;
    let (_, holder) = cluster.run().await;
    let (_, other) = cluster.run().await;
    let sent = Instant::now();
    let held = acquire(&holder, "svc/orders", 3000).await;
    for id in 1..=3 {
        cluster.kill(id);
    }
    for id in 1..=3 {
        cluster.spawn(id, false);
    }
    cluster.leader().await;
    let led = Instant::now();
    let next = acquire(&other, "svc/orders", 10_000).await;
    assert!(sent.elapsed() >= Duration::from_millis(3000), "the lease was shortened");
    assert!(next.fence > held.fence);
    let grace =
        Duration::from_millis(cluster.client(&cluster.orchestrator).cluster().await.unwrap().body.grace_ms);
    // Generous: elections, ticks and a busy machine; far from what an expiry that starts late would take.
    let limit = Duration::from_millis(3000) + grace + Duration::from_secs(5);
    assert!(led.elapsed() < limit, "the lease outlived the restart by {:?}", led.elapsed());
}
