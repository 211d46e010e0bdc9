//! A small cluster that keeps an honest table of leases and misbehaves on request.
mod clock;
mod cluster;
mod memory;
mod table;
pub(crate) mod tcp;

pub(crate) use clock::FakeClock;
pub(crate) use cluster::{Act, Cluster, What};
pub(crate) use memory::Memory;

use ringfence_client::{Client, Hold, KeepAlive, LeaseView};
use ringfence_protocol::{
    ErrorCode, Problem,
    body::{AcquireLease, WriteSetEntry},
};
use std::{sync::Arc, time::Duration};

/// Three nodes in memory, a client of them on the fake clock. Under tokio's paused time.
pub(crate) struct World {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) client: Client,
}

pub(crate) fn world() -> World {
    let cluster = Cluster::new();
    let clock = Arc::new(FakeClock::new());
    let memory = Arc::new(Memory::new(cluster.clone()));
    let client = Client::builder()
        .nodes(["http://node-0", "http://node-1", "http://node-2"])
        .token("secret")
        .clock(clock.clone())
        .transport(memory.clone())
        .build()
        .unwrap();
    World { cluster, clock, memory, client }
}

pub(crate) fn wish(scope: &str, ttl_ms: u64) -> AcquireLease {
    let entry = serde_json::json!({"scope": scope, "mode": "exclusive"});
    let entry: WriteSetEntry = serde_json::from_value(entry).unwrap();
    AcquireLease {
        run: None,
        write_set: vec![entry],
        ttl_ms: Some(ttl_ms),
        wait_ms: None,
        max_hold_ms: None,
        stall_ms: None,
        lock_delay_ms: None,
        purpose: None,
    }
}

pub(crate) fn hold(scope: &str, ttl_ms: u64) -> Hold {
    Hold::new(wish(scope, ttl_ms), KeepAlive::default()).unwrap()
}

pub(crate) fn hold_renewing(scope: &str, ttl_ms: u64, renew_ms: u64) -> Hold {
    let renew_every = Some(Duration::from_millis(renew_ms));
    Hold::new(wish(scope, ttl_ms), KeepAlive { renew_every, margin: None }).unwrap()
}

pub(crate) fn problem(code: ErrorCode) -> Act {
    Act::Refuse(Box::new(Problem::new(code, "as the script says")))
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// For `while_watching`: what is usable at the client must be held at the cluster.
pub(crate) fn assert_honest(cluster: &Cluster, view: &LeaseView) {
    if view.check().is_ok() {
        assert!(cluster.is_held(view.id()), "{} is used, but over at the cluster", view.id());
    }
}
