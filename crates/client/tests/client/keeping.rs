//! Leases that are lost when they should be, and only then.
use crate::support::{Act, What, World, assert_honest, hold, hold_renewing, ms, problem, world};
use ringfence_client::{HeldLease, LeaseView, Lost, Status};
use ringfence_protocol::{ErrorCode, problem::EndReason};
use tokio::time::{Instant, sleep, sleep_until};

async fn two_held(world: &World, ttl_ms: u64) -> [HeldLease; 2] {
    let first = world.client.hold(hold("svc/orders", ttl_ms)).await.unwrap();
    let second = world.client.hold(hold("svc/bills", ttl_ms)).await.unwrap();
    [first, second]
}

/// When the last renewal that was answered was sent.
fn last_renewed(world: &World, view: &LeaseView, until: Instant) -> Instant {
    let mine = |what| world.cluster.seen(what).into_iter().filter(|seen| seen.lease == Some(view.id()));
    mine(What::Renew).map(|seen| seen.at).filter(|at| *at < until).max().unwrap()
}

/// Both leases are renewed a few times, then the cluster does nothing but `act`.
async fn both_are_lost_in_time_when(act: Act) {
    let world = world();
    let leases = two_held(&world, 3000).await;
    sleep(ms(4000)).await;
    let trouble_since = Instant::now();
    world.cluster.script(move |_| act.clone());
    let lost_at = |lease: &HeldLease| {
        let view = lease.view();
        async move {
            view.cancelled().await;
            Instant::now()
        }
    };
    let times = tokio::join!(lost_at(&leases[0]), lost_at(&leases[1]));
    for (lease, lost_at) in leases.iter().zip([times.0, times.1]) {
        let promised = last_renewed(&world, lease, trouble_since) + ms(3000);
        assert!(lost_at <= promised, "lost {:?} late", lost_at - promised);
        assert!(promised - lost_at < ms(160), "lost long before its margin");
        assert_eq!(lease.lost(), Some(Lost::DeadlinePassed));
        assert_eq!(*lease.status().borrow(), Status::Over(Lost::DeadlinePassed));
    }
    world.cluster.behave();
    let renewals = world.cluster.seen(What::Renew).len();
    sleep(ms(10_000)).await;
    for lease in &leases {
        assert_eq!(lease.check().unwrap_err(), Lost::DeadlinePassed, "what is lost stays lost");
    }
    assert_eq!(world.cluster.seen(What::Renew).len(), renewals, "what is lost isn't renewed");
}

#[tokio::test(start_paused = true)]
async fn leases_are_lost_at_their_deadline_when_the_cluster_takes_requests_and_never_answers() {
    both_are_lost_in_time_when(Act::Hang).await;
}

#[tokio::test(start_paused = true)]
async fn leases_are_lost_at_their_deadline_when_renewals_are_done_and_never_answered() {
    both_are_lost_in_time_when(Act::DoThenHang).await;
}

#[tokio::test(start_paused = true)]
async fn leases_are_lost_at_their_deadline_when_every_renewal_gets_an_error() {
    for code in
        [ErrorCode::NoLeader, ErrorCode::Internal, ErrorCode::RateLimited, ErrorCode::OutcomeUncertain]
    {
        both_are_lost_in_time_when(problem(code)).await;
    }
    both_are_lost_in_time_when(Act::Foreign(404)).await;
    both_are_lost_in_time_when(Act::Foreign(502)).await;
}

#[tokio::test(start_paused = true)]
async fn leases_are_lost_at_their_deadline_when_every_connection_breaks() {
    both_are_lost_in_time_when(Act::Drop).await;
    both_are_lost_in_time_when(Act::Closed).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_the_cluster_does_not_know_is_lost_at_once_and_its_neighbour_lives_on() {
    let world = world();
    let [gone, kept] = two_held(&world, 3000).await;
    world.cluster.forget(gone.id());
    let started = Instant::now();
    gone.cancelled().await;
    assert!(started.elapsed() <= ms(1001), "found at the first renewal");
    assert_eq!(gone.lost(), Some(Lost::NotFound));
    sleep_until(started + ms(10_000)).await;
    assert!(kept.check().is_ok());
    assert!(world.cluster.is_held(kept.id()));
}

#[tokio::test(start_paused = true)]
async fn a_timer_and_not_the_transport_tells_that_a_half_open_connection_has_lost_the_lease() {
    let world = world();
    world.cluster.script(|seen| match seen.what {
        What::Renew if seen.nth > 2 => Act::Hang,
        _ => Act::Answer,
    });
    let lease = world.client.hold(hold("svc/orders", 5000)).await.unwrap();
    let (view, mut stops) = (lease.view(), 0);
    loop {
        sleep(ms(100)).await;
        if view.check().is_err() {
            stops += 1;
            break;
        }
    }
    view.cancelled().await;
    let second = world.cluster.seen(What::Renew)[1].at;
    let after = second.elapsed();
    assert!(after > ms(4000) && after <= ms(5000), "lost {after:?} after the last acknowledged renewal");
    assert_eq!(stops, 1);
    assert!(world.cluster.is_held(lease.id()), "the cluster ends it no earlier than the client");
}

#[tokio::test(start_paused = true)]
async fn renewals_that_worked_and_looked_failed_do_not_lose_the_lease() {
    let world = world();
    world.cluster.script(|seen| match seen.what {
        What::Renew if seen.nth % 3 == 0 => Act::DoThenHang,
        _ => Act::Answer,
    });
    let lease = world.client.hold(hold_renewing("svc/orders", 3000, 1000)).await.unwrap();
    sleep(ms(20_000)).await;
    assert!(lease.check().is_ok());
    assert!(world.cluster.seen(What::Renew).len() >= 20);
}

#[tokio::test(start_paused = true)]
async fn grants_follow_the_renewals_and_the_fence_stays() {
    let world = world();
    let lease = world.client.hold(hold("svc/orders", 3000)).await.unwrap();
    let mut grants = lease.grants();
    let first = lease.check().unwrap();
    grants.changed().await.unwrap();
    let newer = grants.borrow_and_update().clone();
    assert_ne!(first.grant, newer.grant);
    assert_eq!(first.fence, newer.fence);
    assert_eq!(lease.check().unwrap(), newer);
    assert!(!format!("{newer:?}").contains(&*newer.grant), "a grant stays out of logs");
}

#[tokio::test(start_paused = true)]
async fn a_revoked_lease_is_lost_with_its_reason_within_one_interval() {
    let world = world();
    let lease = world.client.hold(hold("svc/orders", 9000)).await.unwrap();
    let started = Instant::now();
    world.cluster.revoke(lease.id());
    lease.cancelled().await;
    assert!(started.elapsed() <= ms(3001));
    assert_eq!(lease.lost(), Some(Lost::Ended(Some(EndReason::Revoked))));
}

#[tokio::test(start_paused = true)]
async fn a_refused_credential_is_told_from_an_outage() {
    let world = world();
    let lease = world.client.hold(hold("svc/orders", 9000)).await.unwrap();
    world.cluster.script(|_| problem(ErrorCode::CredentialRevoked));
    let started = Instant::now();
    lease.cancelled().await;
    assert!(started.elapsed() <= ms(3001));
    assert!(
        matches!(lease.lost(), Some(Lost::Denied(problem)) if problem.error == ErrorCode::CredentialRevoked)
    );
}

#[tokio::test(start_paused = true)]
async fn an_outage_shorter_than_the_lease_is_told_and_loses_nothing() {
    let world = world();
    let lease = world.client.hold(hold("svc/orders", 10_000)).await.unwrap();
    let mut status = lease.status();
    sleep(ms(2000)).await;
    world.cluster.script(|_| Act::Closed);
    status.changed().await.unwrap();
    assert_eq!(*status.borrow_and_update(), Status::Unreachable);
    assert!(lease.check().is_ok(), "go on until the deadline");
    sleep(ms(2000)).await;
    world.cluster.behave();
    status.changed().await.unwrap();
    assert_eq!(*status.borrow_and_update(), Status::Held);
    sleep(ms(20_000)).await;
    assert!(lease.check().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_suspend_longer_than_the_lease_is_noticed_at_the_first_check_and_before_anything_is_sent() {
    let world = world();
    let lease = world.client.hold(hold("svc/orders", 10_000)).await.unwrap();
    sleep(ms(1000)).await;
    world.clock.suspend(ms(3_600_000));
    assert_eq!(lease.check().unwrap_err(), Lost::DeadlinePassed);
    sleep(ms(30_000)).await;
    assert_eq!(world.cluster.seen(What::Renew).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_suspend_is_noticed_without_a_check() {
    let world = world();
    let lease = world.client.hold(hold("svc/orders", 60_000)).await.unwrap();
    sleep(ms(1000)).await;
    world.clock.suspend(ms(3_600_000));
    let woken = Instant::now();
    lease.cancelled().await;
    assert!(woken.elapsed() <= ms(201));
    assert_eq!(world.cluster.seen(What::Renew).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_suspend_is_noticed_while_a_renewal_is_under_way() {
    let world = world();
    let lease = world.client.hold(hold("svc/orders", 60_000)).await.unwrap();
    world.cluster.script(|_| Act::Hang);
    while world.cluster.seen(What::Renew).is_empty() {
        sleep(ms(100)).await;
    }
    world.clock.suspend(ms(3_600_000));
    let woken = Instant::now();
    lease.cancelled().await;
    assert!(woken.elapsed() <= ms(201));
    assert_eq!(world.cluster.seen(What::Renew).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_after_the_deadline_does_not_bring_the_lease_back() {
    let world = world();
    let lease = world.client.hold(hold("svc/orders", 10_000)).await.unwrap();
    world.cluster.script(|_| Act::Slow { there: ms(0), back: ms(50) });
    while world.cluster.seen(What::Renew).is_empty() {
        sleep(ms(1)).await;
    }
    // Past the deadline of the acquire, not past that of the renewal, whose answer is the first thing to be met.
    world.clock.suspend(ms(7000));
    sleep(ms(10_000)).await;
    assert_eq!(lease.lost(), Some(Lost::DeadlinePassed));
    assert_eq!(world.cluster.seen(What::Renew).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_used_is_held_at_the_cluster_whatever_happens_to_requests() {
    let mut lost = 0;
    for _ in 0..100 {
        let world = world();
        let lease = world.client.hold(hold("svc/orders", 1000)).await.unwrap();
        world.cluster.script(|_| match rand::random_range(0..8) {
            0..2 => Act::Answer,
            2 => Act::Hang,
            3 => Act::DoThenHang,
            4 => Act::DoThenDrop,
            5 => problem(ErrorCode::NoLeader),
            _ => Act::Slow { there: ms(rand::random_range(0..600)), back: ms(rand::random_range(0..600)) },
        });
        for _ in 0..2000 {
            sleep(ms(5)).await;
            assert_honest(&world.cluster, &lease);
        }
        lost += usize::from(lease.lost().is_some());
    }
    assert!((5..=95).contains(&lost), "{lost} of 100 lost: the trial shows nothing");
}
