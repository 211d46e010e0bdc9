//! The same over TCP, in real time: short leases, generous deadlines.
use crate::support::{Act, Cluster, What, hold, ms, tcp::Sockets, wish};
use ringfence_client::{Client, Error, LeaseView, Lost};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};

/// How late the machine may be.
const GENEROUS: Duration = Duration::from_secs(20);

async fn three() -> (Arc<Cluster>, Sockets, Client) {
    let cluster = Cluster::new();
    let sockets = Sockets::new().node(&cluster).await.node(&cluster).await.node(&cluster).await;
    let client = Client::new(sockets.urls.clone(), "secret").unwrap();
    (cluster, sockets, client)
}

async fn renewed_twice(cluster: &Cluster, view: &LeaseView) {
    let wanted = |cluster: &Cluster| {
        cluster.seen(What::Renew).iter().filter(|seen| seen.lease == Some(view.id())).count() > 1
    };
    timeout(GENEROUS, async {
        while !wanted(cluster) {
            sleep(ms(5)).await;
        }
    })
    .await
    .expect("renewals arrive");
}

async fn lost_at_the_deadline_when(act: Act) {
    let (cluster, _sockets, client) = three().await;
    let leases =
        [client.hold(hold("a/b", 1000)).await.unwrap(), client.hold(hold("a/c", 1000)).await.unwrap()];
    for lease in &leases {
        renewed_twice(&cluster, lease).await;
    }
    cluster.script(move |_| act.clone());
    for lease in &leases {
        let began = Instant::now();
        while lease.check().is_ok() {
            // Judged by the cluster's table at each look, whatever the machine's haste.
            assert!(cluster.is_held(lease.id()) || lease.check().is_err());
            assert!(began.elapsed() < GENEROUS);
            sleep(ms(5)).await;
        }
        timeout(GENEROUS, lease.cancelled()).await.unwrap();
        assert_eq!(lease.lost(), Some(Lost::DeadlinePassed));
    }
}

#[tokio::test]
async fn nodes_that_take_requests_and_never_answer_lose_leases_by_the_timer() {
    lost_at_the_deadline_when(Act::Hang).await;
}

#[tokio::test]
async fn connections_that_break_lose_leases_by_the_timer() {
    lost_at_the_deadline_when(Act::Drop).await;
}

#[tokio::test]
async fn a_lease_unknown_to_the_nodes_is_lost_and_its_neighbour_on_the_same_connections_is_not() {
    let (cluster, _sockets, client) = three().await;
    let gone = client.hold(hold("a/b", 3000)).await.unwrap();
    let kept = client.hold(hold("a/c", 3000)).await.unwrap();
    cluster.forget(gone.id());
    timeout(GENEROUS, gone.cancelled()).await.unwrap();
    assert_eq!(gone.lost(), Some(Lost::NotFound));
    renewed_twice(&cluster, &kept).await;
    assert!(kept.check().is_ok() && cluster.is_held(kept.id()));
}

#[tokio::test]
async fn a_node_that_breaks_after_doing_the_work_is_asked_elsewhere_with_the_same_key() {
    let (cluster, _sockets, client) = three().await;
    cluster.script(|seen| if seen.nth == 1 { Act::DoThenDrop } else { Act::Answer });
    let answer = timeout(GENEROUS, client.acquire(&wish("a/b", 60_000), None)).await.unwrap().unwrap();
    assert!(answer.replayed);
    assert_eq!((answer.body.fence.get(), cluster.granted()), (1, 1));
    let sent = cluster.seen(What::Acquire);
    assert_eq!((sent.len(), &sent[0].key), (2, &sent[1].key));
}

#[tokio::test]
async fn one_black_hole_of_three_nodes_loses_no_lease() {
    let cluster = Cluster::new();
    let sockets = Sockets::new().black_hole().await.node(&cluster).await.closed().await;
    let client = Client::new(sockets.urls.clone(), "secret").unwrap();
    cluster.script(
        |seen| {
            if seen.what == What::Renew && seen.nth % 2 == 0 { Act::Hang } else { Act::Answer }
        },
    );
    let lease = timeout(GENEROUS, client.hold(hold("a/b", 4000))).await.unwrap().unwrap();
    timeout(GENEROUS * 2, async {
        while cluster.seen(What::Renew).len() < 4 {
            assert!(lease.check().is_ok());
            sleep(ms(20)).await;
        }
    })
    .await
    .expect("renewals go on");
    timeout(GENEROUS, lease.release()).await.unwrap().unwrap();
    assert_eq!(cluster.held(), []);
}

#[tokio::test]
async fn ports_that_refuse_are_unreachable_and_black_holes_unknown() {
    let closed = Sockets::new().closed().await.closed().await;
    let client = Client::builder().nodes(closed.urls.clone()).deadline(ms(300)).build().unwrap();
    let error = timeout(GENEROUS, client.acquire(&wish("a/b", 1000), None)).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");

    let holes = Sockets::new().black_hole().await.black_hole().await;
    let client = Client::builder().nodes(holes.urls.clone()).deadline(ms(300)).build().unwrap();
    let error = timeout(GENEROUS, client.acquire(&wish("a/b", 1000), None)).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Unknown { key: Some(_), .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquires_that_are_given_up_leave_no_lease_on_real_sockets_and_threads() {
    let (cluster, _sockets, client) = three().await;
    for round in 0..300_u64 {
        let acquire = client.hold(hold(&format!("svc/{}", round % 20), 60_000));
        drop(timeout(Duration::from_micros(rand::random_range(0..3000)), acquire).await);
    }
    timeout(GENEROUS, client.settled()).await.expect("the background work ends, long before the ttl");
    // A request that was cut off before it had all arrived may be taken in after the rest.
    timeout(GENEROUS, async {
        while !cluster.held().is_empty() {
            sleep(ms(10)).await;
        }
    })
    .await
    .expect("no lease is left");
    let log = cluster.log();
    for lease in log.iter().filter_map(|seen| seen.lease) {
        let release = log.iter().position(|seen| seen.what == What::Release && seen.lease == Some(lease));
        let last = log.iter().rposition(|seen| seen.what == What::Renew && seen.lease == Some(lease));
        assert!(last <= release, "renewed after its release");
    }
}
