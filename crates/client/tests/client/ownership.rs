//! Whatever becomes of the caller: no lease without an owner, no renewal after a release.
use crate::support::{Act, What, World, hold, ms, problem, world};
use ringfence_client::{Ending, Error, Lost};
use ringfence_protocol::{ErrorCode, body::LeaseState, problem::EndReason};
use std::time::Duration;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep, sleep_until, timeout},
};

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

async fn assert_nothing_is_left(world: &World, tasks_before: usize, ttl_ms: u64) {
    timeout(ms(60_000), world.client.settled()).await.expect("the background work ends");
    sleep(ms(ttl_ms)).await;
    let quiet_since = Instant::now();
    sleep(ms(2 * ttl_ms)).await;
    assert_eq!(world.cluster.held(), []);
    assert!(
        world.cluster.seen(What::Renew).iter().all(|seen| seen.at < quiet_since),
        "a renewal without an owner"
    );
    assert_eq!(tasks(), tasks_before + world.memory.being_served());
}

fn random_ms(most: f64) -> Duration {
    ms(1).mul_f64(rand::random_range(0.0..most))
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_is_given_up_at_any_moment_leaves_no_lease_and_no_renewal() {
    let before = tasks();
    let world = world();
    world.cluster.script(|_| Act::Slow { there: random_ms(2.0), back: random_ms(2.0) });
    let mut acquired = 0;
    for round in 0..10_000 {
        let acquire = world.client.hold(hold(&format!("svc/{}", round % 50), 1000));
        if let Ok(held) = timeout(random_ms(5.0), acquire).await {
            acquired += usize::from(held.is_ok());
        }
    }
    assert!(
        acquired > 100 && world.cluster.granted() > acquired,
        "{acquired} of {}",
        world.cluster.granted()
    );
    // Given back, not expired: well before the ttl of the last one.
    timeout(ms(500), world.client.settled()).await.expect("leases are given back at once");
    assert_eq!(world.cluster.held(), []);
    assert_nothing_is_left(&world, before, 1000).await;
}

#[tokio::test(start_paused = true)]
async fn given_up_acquires_leave_nothing_even_when_answers_get_lost() {
    let before = tasks();
    let world = world();
    world.cluster.script(|_| match rand::random_range(0..6) {
        0 => Act::DoThenHang,
        1 => Act::DoThenDrop,
        2 => Act::Hang,
        3 => problem(ErrorCode::NoLeader),
        _ => Act::Slow { there: random_ms(2.0), back: random_ms(2.0) },
    });
    for round in 0..1000 {
        let acquire = world.client.hold(hold(&format!("svc/{}", round % 50), 1000));
        drop(timeout(random_ms(5.0), acquire).await);
    }
    world.cluster.behave();
    assert_nothing_is_left(&world, before, 1000).await;
}

#[tokio::test(start_paused = true)]
async fn an_acquire_whose_answer_never_came_is_found_by_its_key_and_given_back() {
    let world = world();
    world.cluster.script(|seen| match seen.what {
        What::Acquire if seen.nth == 1 => Act::DoThenHang,
        _ => Act::Answer,
    });
    let given_up = timeout(ms(1000), world.client.hold(hold("svc/orders", 60_000))).await;
    assert!(given_up.is_err());
    timeout(ms(10_000), world.client.settled()).await.expect("long before the ttl");
    assert_eq!(world.cluster.held(), []);
    let acquires = world.cluster.seen(What::Acquire);
    assert!(acquires.len() > 1 && acquires.iter().all(|seen| seen.key == acquires[0].key));
    assert_eq!(world.cluster.granted(), 1);
    assert_eq!(world.cluster.seen(What::Release).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_ends_unknown_is_looked_for_after_the_caller_was_told() {
    for act in [Act::DoThenDrop, Act::DoThenHang] {
        let world = world();
        let down_until = Instant::now() + ms(12_000);
        world.cluster.script(move |seen| if seen.at < down_until { act.clone() } else { Act::Answer });
        let error = world.client.hold(hold("svc/orders", 60_000)).await.unwrap_err();
        assert!(matches!(error, Error::Unknown { key: Some(_), .. }), "{error:?}");
        assert_eq!(world.cluster.held().len(), 1, "it had happened");
        timeout(ms(20_000), world.client.settled()).await.expect("long before the ttl");
        assert_eq!(world.cluster.held(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_acquire_whose_first_try_comes_late_is_given_back() {
    let world = world();
    let holder = world.client.hold(hold("svc/orders", 20_000)).await.unwrap();
    world.cluster.script(|seen| match seen.nth {
        2 if seen.what == What::Acquire => Act::Slow { there: ms(4900), back: ms(0) },
        _ => Act::Answer,
    });
    let started = Instant::now();
    let error = world.client.hold(hold("svc/orders", 20_000)).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::WriteSetConflict));
    assert!(error.may_have_happened(), "the first try is still on its way");
    sleep_until(started + ms(4800)).await;
    assert!(world.cluster.seen(What::Acquire).len() > 3, "asked again, and refused again");
    holder.release().await.unwrap();
    timeout(ms(5000), world.client.settled()).await.expect("long before the ttl");
    assert_eq!(world.cluster.granted(), 2, "it came");
    assert_eq!(world.cluster.held(), [], "and was given back");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_granted_too_late_to_use_is_given_back_after_the_caller_was_told() {
    let world = world();
    world.cluster.script(|seen| match seen.what {
        What::Acquire => Act::Slow { there: ms(0), back: ms(990) },
        _ => Act::Slow { there: ms(500), back: ms(0) },
    });
    let started = Instant::now();
    let error = world.client.hold(hold("svc/orders", 1000)).await.unwrap_err();
    assert!(matches!(error, Error::TooLate { .. }), "{error:?}");
    assert!(started.elapsed() < ms(1000));
    world.client.settled().await;
    assert_eq!(world.cluster.seen(What::Release).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_release_is_sent_once_the_renewals_have_stopped_and_the_lease_is_unusable_before() {
    for round in 0..200 {
        let world = world();
        world.cluster.script(|seen| match seen.what {
            What::Renew => Act::Slow { there: random_ms(400.0), back: random_ms(400.0) },
            _ => Act::Answer,
        });
        let lease = world.client.hold(hold("svc/orders", 1000)).await.unwrap();
        sleep(ms(250) + ms(round)).await;
        let view = lease.view();
        let released = lease.release().await.unwrap();
        let Ending::GivenBack(answer) = released else { panic!("{released:?}") };
        assert_eq!((answer.body.state, answer.body.reason), (LeaseState::Ended, Some(EndReason::Released)));
        assert_eq!(view.lost(), Some(Lost::Released));
        sleep(ms(3000)).await;
        let log = world.cluster.log();
        let release = log.iter().position(|seen| seen.what == What::Release).unwrap();
        assert!(log[release..].iter().all(|seen| seen.what != What::Renew), "renewed after the release");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_lease_is_given_back_and_its_views_fail_at_once() {
    let world = world();
    let lease = world.client.hold(hold("svc/orders", 60_000)).await.unwrap();
    let (view, token) = (lease.view(), lease.cancellation());
    drop(lease);
    assert_eq!(view.check().unwrap_err(), Lost::Released);
    assert!(token.is_cancelled());
    world.client.settled().await;
    assert_eq!(world.cluster.held(), []);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_given_up_goes_on_in_the_background() {
    let world = world();
    let lease = world.client.hold(hold("svc/orders", 60_000)).await.unwrap();
    world.cluster.script(|_| Act::Slow { there: ms(100), back: ms(100) });
    assert!(timeout(ms(1), lease.release()).await.is_err());
    world.client.settled().await;
    assert_eq!(world.cluster.held(), []);
}

#[tokio::test(start_paused = true)]
async fn releasing_what_was_lost_says_so() {
    let world = world();
    let lease = world.client.hold(hold("svc/orders", 3000)).await.unwrap();
    world.cluster.revoke(lease.id());
    lease.cancelled().await;
    let lost = Lost::Ended(Some(EndReason::Revoked));
    assert_eq!(lease.release().await.unwrap(), Ending::WasLost(lost));
}

#[test]
fn a_lease_whose_runtime_is_gone_is_not_taken_for_held() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let lease = runtime.block_on(async { world().client.hold(hold("svc/orders", 60_000)).await.unwrap() });
    assert!(lease.check().is_ok());
    drop(runtime);
    assert_eq!(lease.check().unwrap_err(), Lost::Unkept);
    assert!(lease.cancellation().is_cancelled());
}
