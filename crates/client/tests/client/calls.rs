//! Single calls: what is sent again, what isn't, and what the caller is told.
use crate::support::{Act, What, ms, problem, wish, world};
use ringfence_client::{Call, Error, LeaseFilter, PageOf, RunFilter, fresh_key};
use ringfence_protocol::{
    ErrorCode, LeaseId, ResourceId, RunId,
    body::{LeaseState, RunState},
};
use std::collections::BTreeSet;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn an_acquire_whose_answer_was_lost_is_repeated_with_its_key_and_gives_the_first_lease() {
    let world = world();
    world.cluster.script(|seen| if seen.nth == 1 { Act::DoThenDrop } else { Act::Answer });
    let answer = world.client.acquire(&wish("svc/orders", 5000), None).await.unwrap();
    assert!(answer.replayed);
    assert_eq!((answer.body.fence.get(), world.cluster.granted()), (1, 1));
    assert_eq!(answer.revision.as_deref(), Some("rev-7"));
    assert_eq!(answer.request_id.as_deref(), Some("req-1"));
    let acquires = world.cluster.seen(What::Acquire);
    assert_eq!(acquires.len(), 2);
    assert_eq!(acquires[0].key, acquires[1].key);
    assert_ne!(acquires[0].node, acquires[1].node);

    let other = world.client.acquire(&wish("svc/orders", 5000), None).await.unwrap_err();
    assert_eq!(other.code(), Some(ErrorCode::WriteSetConflict), "another intent is another key");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_repeated_never_touches_a_successor() {
    let world = world();
    let first = world.client.acquire(&wish("svc/orders", 5000), None).await.unwrap().body;
    world.client.release(first.id).await.unwrap();
    let second = world.client.acquire(&wish("svc/orders", 5000), None).await.unwrap().body;
    let again = world.client.release(first.id).await.unwrap().body;
    assert_eq!(again.state, LeaseState::Ended);
    assert!(world.cluster.is_held(second.id));
}

#[tokio::test(start_paused = true)]
async fn every_sending_of_a_creating_call_has_one_key_and_each_call_another() {
    let world = world();
    world.cluster.script(|_| match rand::random_range(0..4) {
        0 => Act::DoThenHang,
        1 => Act::DoThenDrop,
        2 => problem(ErrorCode::NoLeader),
        _ => Act::Answer,
    });
    for call in 0..100 {
        let begun = world.cluster.seen(What::Acquire).len();
        drop(world.client.acquire(&wish(&format!("svc/{call}"), 5000), None).await);
        let sent = world.cluster.seen(What::Acquire);
        let keys: BTreeSet<_> = sent[begun..].iter().map(|seen| seen.key.clone().unwrap()).collect();
        assert_eq!(keys.len(), 1);
        assert!(sent[..begun].iter().all(|seen| !keys.contains(seen.key.as_ref().unwrap())));
    }
    assert!(world.cluster.granted() <= 100, "no call was done twice");
}

#[tokio::test(start_paused = true)]
async fn a_callers_own_key_is_sent_as_it_is() {
    let world = world();
    let key = fresh_key();
    let first = world.client.acquire(&wish("svc/orders", 5000), Some(key.clone())).await.unwrap();
    let second = world.client.acquire(&wish("svc/orders", 5000), Some(key.clone())).await.unwrap();
    assert_eq!(first.body.id, second.body.id);
    assert!(second.replayed && !first.replayed);
    assert!(world.cluster.log().iter().all(|seen| seen.key.as_deref() == Some(key.as_str())));
    assert!(world.cluster.log().iter().all(|seen| seen.authorization.as_deref() == Some("Bearer secret")));
}

#[tokio::test(start_paused = true)]
async fn what_a_node_has_judged_is_not_sent_again() {
    for code in ErrorCode::ALL.iter().copied().filter(|code| code.status() != 503) {
        let world = world();
        world.cluster.script(move |_| problem(code));
        let error = world.client.acquire(&wish("svc/orders", 5000), None).await.unwrap_err();
        assert_eq!(error.code(), Some(code));
        assert!(!error.may_have_happened());
        assert_eq!(world.cluster.log().len(), 1, "{code} was sent again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_unavailable_is_passed_over_within_the_deadline() {
    for code in
        [ErrorCode::NoLeader, ErrorCode::ShuttingDown, ErrorCode::Overloaded, ErrorCode::OutcomeUncertain]
    {
        let world = world();
        world.cluster.script(move |seen| if seen.node == 0 { problem(code) } else { Act::Answer });
        world.client.acquire(&wish("svc/orders", 5000), None).await.unwrap();
        world.cluster.script(move |_| problem(code));
        let started = Instant::now();
        let error = world.client.acquire(&wish("svc/bills", 5000), None).await.unwrap_err();
        assert!(started.elapsed() <= ms(10_001));
        let uncertain = code == ErrorCode::OutcomeUncertain;
        assert_eq!(error.may_have_happened(), uncertain, "{error:?}");
        assert_eq!(error.code(), (!uncertain).then_some(code));
        assert!(world.cluster.log().len() > 5, "tried again with pauses");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_never_sent_is_unreachable_and_what_got_no_answer_is_unknown() {
    let world = world();
    world.cluster.script(|_| Act::Closed);
    let error = world.client.acquire(&wish("svc/orders", 5000), None).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { tries, .. } if tries > 3), "{error:?}");
    assert!(!error.may_have_happened());
    for act in [Act::Hang, Act::Drop, Act::Foreign(502)] {
        world.cluster.script(move |_| act.clone());
        let started = Instant::now();
        let error = world.client.acquire(&wish("svc/orders", 5000), None).await.unwrap_err();
        assert!(started.elapsed() <= ms(10_001));
        assert!(matches!(&error, Error::Unknown { key: Some(_), .. }), "{error:?}");
        let read = world.client.lease(LeaseId::from_bits(1)).await.unwrap_err();
        assert!(matches!(read, Error::Unreachable { .. }), "a read changes nothing: {read:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_try_takes_more_than_a_quarter_of_the_time_that_is_left() {
    let world = world();
    world.cluster.script(|_| Act::Hang);
    let (started, deadline) = (Instant::now(), ms(10_000));
    drop(world.client.acquire(&wish("svc/orders", 5000), None).await);
    let tries = world.cluster.seen(What::Acquire);
    assert!(tries.len() >= 6);
    for pair in tries.windows(2) {
        let left = deadline - (pair[0].at - started);
        assert!(pair[1].at - pair[0].at <= left / 4 + ms(1));
    }
    let nodes: BTreeSet<_> = tries.iter().map(|seen| seen.node).collect();
    assert_eq!(nodes.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_something_else_is_unreadable_and_its_node_avoided() {
    let world = world();
    world.cluster.script(|_| Act::Foreign(404));
    let error = world.client.lease(LeaseId::from_bits(1)).await.unwrap_err();
    assert!(matches!(error, Error::Unreadable { status: 404, .. }), "{error:?}");
    world.cluster.behave();
    let error = world.client.lease(LeaseId::from_bits(1)).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NotFound));
    assert_eq!(world.cluster.log().iter().map(|seen| seen.node).collect::<Vec<_>>(), [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn paths_and_queries_name_exactly_what_was_meant() {
    let world = world();
    let client = world.client.with_stale_reads();
    let resource: ResourceId = "svc~a/b:c@d+e/f-1._x".parse().unwrap();
    drop(world.client.resource(&resource).await);
    drop(client.resource(&resource).await);
    let run = RunId::from_bits(7);
    let page = PageOf { limit: Some(5), cursor: Some("a+b/c=".to_owned()) };
    let filter = LeaseFilter {
        run: Some(run),
        scope: Some("a+b/c/**".parse().unwrap()),
        state: Some(LeaseState::Held),
        page,
    };
    drop(client.leases(&filter).await);
    let filter = RunFilter { state: Some(RunState::Active), page: PageOf::default() };
    drop(world.client.runs(&filter).await);
    drop(world.client.send(Call::get("/v1/anything?x=1")).await);
    let targets: Vec<_> = world.cluster.log().into_iter().map(|seen| seen.target).collect();
    let expected = [
        "/v1/resources/svc~a/b:c@d+e/f-1._x".to_owned(),
        "/v1/resources/svc~a/b:c@d+e/f-1._x?consistency=stale".to_owned(),
        format!(
            "/v1/leases?run={run}&scope=a%2Bb%2Fc%2F%2A%2A&state=held&limit=5&cursor=a%2Bb%2Fc%3D&consistency=stale"
        ),
        "/v1/runs?state=active".to_owned(),
        "/v1/anything?x=1".to_owned(),
    ];
    assert_eq!(targets, expected);
}

#[tokio::test(start_paused = true)]
async fn another_credential_is_sent_by_the_client_that_was_given_it() {
    let world = world();
    let run = world.client.with_token("run-token").unwrap();
    run.acquire(&wish("svc/orders", 5000), None).await.unwrap();
    assert_eq!(world.cluster.log()[0].authorization.as_deref(), Some("Bearer run-token"));
}
