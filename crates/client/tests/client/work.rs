//! Work tied to a lease ends before the next lease is asked for.
use crate::support::{Act, What, hold, ms, problem, world};
use ringfence_client::{Ending, Lost};
use ringfence_protocol::{ErrorCode, problem::EndReason};
use std::{
    cell::RefCell,
    ops::ControlFlow,
    sync::atomic::{AtomicU64, Ordering},
};
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn work_has_stopped_before_a_lost_lease_is_acquired_anew() {
    let world = world();
    let (trace, rounds) = (RefCell::new(Vec::new()), AtomicU64::new(0));
    let note = |what: String| trace.borrow_mut().push((Instant::now(), what));
    let work = |view: ringfence_client::LeaseView| {
        let (cluster, round) = (world.cluster.clone(), rounds.fetch_add(1, Ordering::Relaxed));
        let note = &note;
        async move {
            note(format!("start {}", view.fence()));
            if round == 1 {
                return ControlFlow::Break(view.fence());
            }
            cluster.revoke(view.id());
            view.cancelled().await;
            note("lost".to_owned());
            sleep(ms(3000)).await;
            note("stopped".to_owned());
            ControlFlow::Continue(())
        }
    };
    let fence = world.client.run_again_while_held(hold("svc/orders", 3000), ms(10_000), work).await.unwrap();
    assert_eq!(fence.get(), 2);
    let trace = trace.into_inner();
    let order: Vec<_> = trace.iter().map(|(_, what)| what.as_str()).collect();
    assert_eq!(order, ["start 1", "lost", "stopped", "start 2"]);
    let acquires = world.cluster.seen(What::Acquire);
    assert_eq!(acquires.len(), 2, "nothing is asked for while the work stops");
    assert!(acquires[1].at >= trace[2].0);
    assert_ne!(acquires[0].key, acquires[1].key, "another lease is another intent");
}

#[tokio::test(start_paused = true)]
async fn a_new_lease_is_asked_for_through_conflicts_and_outages_but_not_for_ever() {
    let world = world();
    let work = |view: ringfence_client::LeaseView| {
        let cluster = world.cluster.clone();
        async move {
            cluster.script(|seen| {
                if seen.nth % 2 == 0 { Act::Closed } else { problem(ErrorCode::WriteSetConflict) }
            });
            cluster.revoke(view.id());
            ControlFlow::<()>::Continue(())
        }
    };
    let started = Instant::now();
    let ended = world.client.run_again_while_held(hold("svc/orders", 3000), ms(30_000), work).await;
    assert!(ended.is_err());
    assert!(started.elapsed() >= ms(30_000) && started.elapsed() < ms(45_000));
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_gives_the_lease_back() {
    let world = world();
    let ran = world.client.run_while_held(hold("svc/orders", 3000), |view| async move {
        sleep(ms(10_000)).await;
        view.fence()
    });
    let ran = ran.await.unwrap();
    assert_eq!((ran.value.get(), ran.lost), (1, None));
    assert!(matches!(ran.ending, Ok(Ending::GivenBack(_))));
    assert_eq!(world.cluster.held(), []);
}

#[tokio::test(start_paused = true)]
async fn work_that_outlived_its_lease_is_told_apart() {
    let world = world();
    let cluster = world.cluster.clone();
    let ran = world.client.run_while_held(hold("svc/orders", 3000), |view| async move {
        cluster.revoke(view.id());
        view.cancelled().await;
    });
    assert_eq!(ran.await.unwrap().lost, Some(Lost::Ended(Some(EndReason::Revoked))));
}
