//! Elections, black holes and slow nodes: a lease lives through what is shorter than it.
use crate::support::{Act, What, assert_honest, hold, hold_renewing, ms, problem, world};
use ringfence_protocol::ErrorCode;
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn no_lease_is_lost_in_an_election_and_renewals_go_on_through_it() {
    for _ in 0..50 {
        let world = world();
        let lease = world.client.hold(hold_renewing("svc/orders", 10_000, 3000)).await.unwrap();
        sleep(ms(2600)).await;
        let (killed, elected) = (Instant::now(), Instant::now() + ms(2900));
        world.cluster.script(move |seen| match seen.node {
            0 => Act::Closed,
            _ if seen.at < elected => problem(ErrorCode::NoLeader),
            _ => Act::Answer,
        });
        sleep(ms(20_000)).await;
        assert!(lease.check().is_ok());
        let during = world
            .cluster
            .seen(What::Renew)
            .iter()
            .filter(|seen| seen.at > killed && seen.at < elected)
            .count();
        assert!(during >= 3, "{during} tries in the election");
    }
}

#[tokio::test(start_paused = true)]
async fn a_black_hole_and_renewals_that_are_never_answered_lose_nothing_in_ten_minutes() {
    let world = world();
    world.cluster.script(|seen| match seen.what {
        _ if seen.node == 1 => Act::Hang,
        What::Renew if seen.nth % 5 == 0 => Act::Hang,
        _ => Act::Answer,
    });
    let lease = world.client.hold(hold("svc/orders", 12_000)).await.unwrap();
    for _ in 0..6000 {
        sleep(ms(100)).await;
        assert!(lease.check().is_ok());
        assert_honest(&world.cluster, &lease);
    }
    let renewals = world.cluster.seen(What::Renew);
    assert!(renewals.iter().filter(|seen| seen.node == 1).count() > 5, "the black hole was met");
}

#[tokio::test(start_paused = true)]
async fn no_try_of_a_renewal_is_waited_for_longer_than_a_quarter_of_the_lease() {
    let world = world();
    let lease = world.client.hold(hold("svc/orders", 12_000)).await.unwrap();
    world.cluster.script(|_| Act::Hang);
    lease.cancelled().await;
    let tries = world.cluster.seen(What::Renew);
    assert!(tries.len() >= 4);
    for pair in tries.windows(2) {
        assert!(pair[1].at - pair[0].at <= ms((12_000 - 600) / 4 + 1));
        assert_ne!(pair[1].node, pair[0].node, "the next try goes to another node");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_slower_than_the_patience_still_counts() {
    let world = world();
    // Every node takes two fifths of the ttl, longer than any one try is waited for.
    let lease = world.client.hold(hold("svc/orders", 5000)).await.unwrap();
    world.cluster.script(|_| Act::Slow { there: ms(1000), back: ms(1000) });
    sleep(ms(60_000)).await;
    assert!(lease.check().is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_node_that_answered_is_asked_again() {
    let world = world();
    world.cluster.script(|seen| if seen.node == 2 { Act::Answer } else { Act::Closed });
    let lease = world.client.hold(hold("svc/orders", 3000)).await.unwrap();
    world.cluster.behave();
    sleep(ms(10_000)).await;
    assert!(lease.check().is_ok());
    assert!(world.cluster.log().iter().all(|seen| seen.node == 2));
}
