//! A damaged or replaced folder is refused with the way out; the others go on.
use crate::cluster::{Cluster, acquire, until};
use std::fs;

async fn ends(cluster: &mut Cluster, id: u64, says: &str) {
    until(async || cluster.log(id).contains(says).then_some(())).await;
}

#[tokio::test]
async fn a_flipped_byte_in_the_middle_of_the_log_stops_the_node_and_says_how_to_rejoin() {
    let mut cluster = Cluster::start().await;
    let (_, client) = cluster.run().await;
    for at in 0..50 {
        acquire(&client, &format!("svc/{at}"), 60_000).await;
    }
    let victim = cluster.leader().await % 3 + 1;
    cluster.kill(victim);
    let log = cluster.data_dir(victim).join("log");
    let mut segments: Vec<_> = fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "wal"));
    segments.sort();
    let mut bytes = fs::read(&segments[0]).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[used / 2] ^= 0x40;
    fs::write(&segments[0], bytes).unwrap();
    cluster.spawn(victim, false);
    ends(&mut cluster, victim, "rejoin the cluster").await;
    assert!(cluster.log(victim).contains(".wal"), "the file is named");
    acquire(&client, "svc/after", 60_000).await;
}

#[tokio::test]
async fn a_node_that_missed_more_than_the_log_keeps_gets_a_snapshot_and_starts_from_it_again() {
    let mut cluster = Cluster::start_with_short_logs().await;
    let (_, client) = cluster.run().await;
    let late = cluster.leader().await % 3 + 1;
    cluster.kill(late);
    let mut last = acquire(&client, "svc/0", 60_000).await;
    for at in 1..500 {
        last = acquire(&client, &format!("svc/{at}"), 60_000).await;
    }
    for _ in 0..2 {
        cluster.spawn(late, false);
        let itself = cluster.client_of(late, &cluster.orchestrator).with_stale_reads();
        let seen = until(async || itself.lease(last.id).await.ok()).await.body;
        assert_eq!(seen.fence, last.fence);
        cluster.kill(late);
    }
    assert!(cluster.log(late).contains("wrote a snapshot"));
    let snapshots = fs::read_dir(cluster.data_dir(late).join("snapshots")).unwrap().count();
    assert!((1..=2).contains(&snapshots), "{snapshots} snapshots are kept");
}

#[tokio::test]
async fn a_wiped_node_is_not_taken_back_under_its_old_id() {
    let mut cluster = Cluster::start().await;
    let (_, client) = cluster.run().await;
    let victim = cluster.leader().await % 3 + 1;
    cluster.kill(victim);
    fs::remove_dir_all(cluster.data_dir(victim)).unwrap();
    cluster.spawn(victim, false);
    let others: Vec<_> = (1..=3).filter(|id| *id != victim).collect();
    until(async || {
        let refused = others.iter().any(|id| cluster.log(*id).contains("was wiped or replaced"));
        refused.then_some(())
    })
    .await;
    acquire(&client, "svc/after", 60_000).await;
}
