//! Nothing acknowledged is lost, whichever process is killed while requests are under way.
use crate::{
    cluster::{Cluster, acquire, exclusive, until},
    rounds,
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use ringfence_client::{Client, Error};
use ringfence_protocol::{
    ErrorCode, Fence, LeaseId,
    body::{Lease, LeaseState, RenewLease},
    idempotency::IdempotencyKey,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinSet;

/// Long enough that nothing expires while the test runs.
const TTL_MS: u64 = 3_600_000;
const WORKERS: u64 = 8;

/// What was acknowledged to the workers.
#[derive(Default)]
struct Ledger {
    /// Leases that were granted and not released since, and the release that was asked for but not answered.
    held: BTreeMap<LeaseId, (Fence, bool)>,
    released: Vec<LeaseId>,
    /// Every fence that was handed out, and for which lease.
    fences: BTreeMap<Fence, LeaseId>,
    acknowledged: u64,
}

impl Ledger {
    fn granted(&mut self, lease: &Lease) {
        let known = self.fences.insert(lease.fence, lease.id);
        assert!(known.is_none_or(|id| id == lease.id), "fence {} was handed out twice", lease.fence);
        self.held.insert(lease.id, (lease.fence, false));
        self.acknowledged += 1;
    }
}

fn key(worker: u64, number: u64) -> IdempotencyKey {
    IdempotencyKey::from_header(format!("kill-{worker}-{number}").as_bytes()).unwrap()
}

/// Acquires, renews and releases until told to stop, and writes down what was acknowledged.
async fn work(worker: u64, client: Client, ledger: Arc<Mutex<Ledger>>, stop: Arc<AtomicBool>) {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let scope = format!("kill/{worker}-{number}");
        let Some(lease) = grant(&client, &scope, key(worker, number), &stop).await else {
            continue;
        };
        ledger.lock().unwrap().granted(&lease);
        if number % 3 == 0 && client.renew(lease.id, &RenewLease::default()).await.is_ok() {
            ledger.lock().unwrap().acknowledged += 1;
        }
        if number % 2 == 0 {
            ledger.lock().unwrap().held.get_mut(&lease.id).unwrap().1 = true;
            if client.release(lease.id).await.is_ok() {
                let mut ledger = ledger.lock().unwrap();
                ledger.held.remove(&lease.id);
                ledger.released.push(lease.id);
                ledger.acknowledged += 1;
            }
        }
    }
}

/// Repeats one request with its key until it is answered; every answer must be the same lease.
async fn grant(client: &Client, scope: &str, key: IdempotencyKey, stop: &AtomicBool) -> Option<Lease> {
    loop {
        match client.acquire(&exclusive(scope, TTL_MS), Some(key.clone())).await {
            Ok(answer) => return Some(answer.body),
            Err(Error::Unknown { .. } | Error::Unreachable { .. }) if !stop.load(Ordering::Relaxed) => {}
            Err(Error::Refused { problem, .. }) if problem.status == 503 && !stop.load(Ordering::Relaxed) => {
            }
            Err(Error::Refused { problem, .. }) if problem.status != 503 => {
                panic!("a scope that nobody else asks for was refused: {problem}")
            }
            Err(_) => return None,
        }
    }
}

async fn check(cluster: &Cluster, ledger: &Mutex<Ledger>) {
    let client = cluster.client(&cluster.orchestrator);
    let (held, released) = {
        let ledger = ledger.lock().unwrap();
        (ledger.held.clone(), ledger.released.clone())
    };
    for (id, (fence, release_asked)) in held {
        let lease = until(async || client.lease(id).await.ok()).await.body;
        assert_eq!(lease.fence, fence);
        assert!(
            lease.state == LeaseState::Held || release_asked,
            "{id} was granted and is {:?}",
            lease.reason
        );
    }
    for id in released.iter().rev().take(200) {
        let lease = until(async || client.lease(*id).await.ok()).await.body;
        assert_eq!(lease.state, LeaseState::Ended, "{id} was released");
    }
}

#[tokio::test]
async fn everything_acknowledged_survives_kill_nine_of_one_or_all_nodes_under_load() {
    let mut cluster = Cluster::start().await;
    let mut random = SmallRng::seed_from_u64(7);
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let stop = Arc::new(AtomicBool::new(false));
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        let (_, client) = cluster.run().await;
        workers.spawn(work(worker, client, Arc::clone(&ledger), Arc::clone(&stop)));
    }
    for round in 0..rounds(4) {
        let before = ledger.lock().unwrap().acknowledged;
        until(async || (ledger.lock().unwrap().acknowledged > before + 50).then_some(())).await;
        let leader = cluster.leader().await;
        let victims = match round % 4 {
            0 => vec![leader],
            1 => vec![leader % 3 + 1],
            2 => vec![1, 2, 3],
            _ => vec![random.random_range(1..=3)],
        };
        tokio::time::sleep(Duration::from_millis(random.random_range(0..200))).await;
        for id in &victims {
            cluster.kill(*id);
        }
        for id in victims {
            cluster.spawn(id, false);
        }
        cluster.leader().await;
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = workers.join_next().await {
        ended.unwrap();
    }
    check(&cluster, &ledger).await;
    let (_, client) = cluster.run().await;
    let highest = *ledger.lock().unwrap().fences.last_key_value().unwrap().0;
    assert!(acquire(&client, "kill/after", 10_000).await.fence > highest);
}

#[tokio::test]
async fn a_lease_survives_its_leader_with_the_same_fence_and_the_next_one_is_greater() {
    let mut cluster = Cluster::start().await;
    let (_, client) = cluster.run().await;
    let held = acquire(&client, "release/prod", 60_000).await;
    let leader = cluster.leader().await;
    cluster.kill(leader);
    let (_, other) = cluster.run().await;
    assert_eq!(
        crate::cluster::code(other.acquire(&exclusive("release/prod", 1000), None).await),
        Some(ErrorCode::WriteSetConflict)
    );
    let renewed = client.renew(held.id, &RenewLease::default()).await.unwrap().body;
    assert_eq!(renewed.fence, held.fence);
    assert!(acquire(&other, "release/staging", 1000).await.fence > held.fence);
}

#[tokio::test]
async fn a_planned_stop_hands_leadership_over_and_the_node_comes_back() {
    let mut cluster = Cluster::start().await;
    let (_, client) = cluster.run().await;
    let held = acquire(&client, "release/prod", 60_000).await;
    for _ in 0..2 {
        let leader = cluster.leader().await;
        cluster.terminate(leader);
        assert!(cluster.log(leader).contains("handing leadership over"));
        let renewed = until(async || client.renew(held.id, &RenewLease::default()).await.ok()).await.body;
        assert_eq!(renewed.fence, held.fence);
        cluster.spawn(leader, false);
        cluster.leader().await;
    }
}
