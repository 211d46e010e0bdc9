//! What is remembered of ends, and what is in the way of whom.
use crate::world::{World, acquire_operation, entry, lease_of};
use ringfence_core::{Actor, LeaseFilter, Now, Operation, Refusal, limits};
use ringfence_protocol::{
    LeaseId, Mode, RunId, Timestamp, TokenId,
    body::{LeaseState, Previous},
};

const HOUR: u64 = 3_600_000;

fn runs(number: usize) -> (World, Actor, Vec<RunId>) {
    let mut world = World::new();
    let planner = world.token("default", "orchestrator", "planner");
    let runs = (0..number).map(|_| world.create_run(planner, HOUR)).collect();
    (world, planner, runs)
}

fn of(previous: &[Previous]) -> Vec<LeaseId> {
    previous.iter().map(|previous| previous.lease).collect()
}

#[test]
fn an_unclean_end_is_told_to_the_next_holder_and_not_to_those_after() {
    let (mut world, _, runs) = runs(4);
    let optimistic = |world: &mut World, run, ttl| {
        world.acquire(run, &[entry("svc/orders", Mode::Optimistic)], ttl).unwrap()
    };
    let lost = optimistic(&mut world, runs[0], 1000);
    world.tick(1000);
    let second = optimistic(&mut world, runs[1], 50_000);
    assert_eq!(of(&second.previous), [lost.id]);
    let third = optimistic(&mut world, runs[2], 50_000);
    assert_eq!(of(&third.previous), [], "the second one has held it since");
}

#[test]
fn a_secret_that_is_taken_makes_no_second_token() {
    let mut world = World::new();
    let make = |world: &mut World, tenant: &str, id: u128| {
        let operation = Operation::CreateToken {
            id: TokenId::from_bits(id),
            tenant: Some(tenant.parse().unwrap()),
            role: "admin".parse().unwrap(),
            name: "root".parse().unwrap(),
            secret_hash: [9; 32],
        };
        world.ask(Actor::Operator, None, operation).reply
    };
    make(&mut world, "t1", 900).unwrap();
    let second = make(&mut world, "t2", 901);
    // Whoever has this secret is who they were, and a token that is listed can be used.
    assert_eq!(world.state.token_by_hash(&[9; 32]), Some(TokenId::from_bits(900)));
    assert!(second.is_err());
}

#[test]
fn a_release_that_comes_again_after_the_scope_went_on_does_not_touch_the_successor() {
    let (mut world, _, runs) = runs(2);
    let first = world.exclusive(runs[0], "svc/orders", 5000).unwrap();
    let released = world.release(Actor::Run(runs[0]), first.id).unwrap();
    let next = world.exclusive(runs[1], "svc/orders", 5000).unwrap();
    assert_eq!(next.fence.get(), first.fence.get() + 1);
    assert_eq!(world.release(Actor::Run(runs[0]), first.id).unwrap().reason, released.reason);
    assert_eq!(world.renew(Actor::Run(runs[1]), next.id).unwrap().state, LeaseState::Held);
}

#[test]
fn an_id_that_is_drawn_twice_is_refused_and_changes_nothing() {
    let (mut world, _, runs) = runs(2);
    let operation =
        |scope| acquire_operation(LeaseId::from_bits(7777), None, &[entry(scope, Mode::Exclusive)], 5000);
    let first = lease_of(world.ask(Actor::Run(runs[0]), None, operation("svc/a")).reply.unwrap().reply);
    let before = world.state.to_bytes();
    let again = world.ask(Actor::Run(runs[1]), None, operation("svc/b")).reply;
    assert_eq!(again, Err(Refusal::IdTaken));
    assert_eq!(world.state.to_bytes(), before);
    world.release(Actor::Run(runs[0]), first.id).unwrap();
}

#[test]
fn leases_are_found_by_run_and_scope_whatever_their_state() {
    let (mut world, planner, runs) = runs(2);
    let ended = world.exclusive(runs[0], "svc/orders", 5000).unwrap();
    world.release(Actor::Run(runs[0]), ended.id).unwrap();
    let held = world.exclusive(runs[1], "svc/orders/eu", 5000).unwrap();
    let other = world.exclusive(runs[0], "svc/other", 5000).unwrap();
    let reader = world.state.subject(&planner).unwrap();
    let now = Now { log_ms: world.log_ms, wall: Timestamp::from_unix_ms(0) };
    let find = |filter: LeaseFilter| {
        let found = world.state.read_leases(&reader, &filter, None, 100, now).unwrap();
        found.into_iter().map(|lease| lease.id).collect::<Vec<_>>()
    };
    let scope = Some("svc/orders/**".parse().unwrap());
    assert_eq!(find(LeaseFilter { scope: scope.clone(), ..LeaseFilter::default() }), [ended.id, held.id]);
    let over = Some(LeaseState::Ended);
    assert_eq!(find(LeaseFilter { scope, state: over, ..LeaseFilter::default() }), [ended.id]);
    assert_eq!(find(LeaseFilter { run: Some(runs[0]), ..LeaseFilter::default() }), [ended.id, other.id]);
    assert_eq!(find(LeaseFilter { run: Some(RunId::from_bits(5)), ..LeaseFilter::default() }), []);
}

#[test]
fn a_conflict_with_a_crowd_lists_a_hundred_and_says_that_there_are_more() {
    let (mut world, _, runs) = runs(2);
    for at in 0..150 {
        world.exclusive(runs[0], &format!("svc/orders/{at}"), 5000).unwrap();
    }
    let refused = world.exclusive(runs[1], "svc/orders/**", 5000);
    let Err(Refusal::Conflict { conflicts, truncated }) = refused else { panic!("{refused:?}") };
    assert_eq!((conflicts.len(), truncated), (100, true));
}

#[test]
fn tenants_are_a_level_of_their_own_and_no_prefix() {
    let mut world = World::new();
    for (tenant, scope) in [("t1", "a:b/c"), ("t1.a", "b/c"), ("t1-a", "a:b/c")] {
        let planner = world.token(tenant, "orchestrator", "planner");
        let run = world.create_run(planner, HOUR);
        world.exclusive(run, scope, 5000).unwrap();
    }
}

#[test]
fn a_run_of_another_tenant_has_no_leases_whatever_state_is_asked_for() {
    let (mut world, _, runs) = runs(1);
    world.exclusive(runs[0], "svc/secret-project", 5000).unwrap();
    let stranger = world.token("other", "auditor", "reader");
    // The stranger's tenant has to be there at all.
    let theirs = world.token("other", "orchestrator", "planner");
    world.create_run(theirs, HOUR);
    let reader = world.state.subject(&stranger).unwrap();
    let now = Now { log_ms: world.log_ms, wall: Timestamp::from_unix_ms(0) };
    for state in [None, Some(LeaseState::Held), Some(LeaseState::Ended)] {
        let filter = LeaseFilter { run: Some(runs[0]), state, ..LeaseFilter::default() };
        assert_eq!(world.state.read_leases(&reader, &filter, None, 100, now), Ok(Vec::new()), "{state:?}");
    }
}

#[test]
fn of_ended_leases_only_so_many_entries_are_remembered_and_the_oldest_are_forgotten_first() {
    let (mut world, _, runs) = runs(1);
    let mut first = None;
    let mut last = None;
    for _ in 0..=limits::ENDED_ENTRIES / 256 {
        let entries: Vec<_> = (0..256).map(|at| entry(&format!("svc/{at}"), Mode::Exclusive)).collect();
        let lease = world.acquire(runs[0], &entries, 5000).unwrap();
        world.release(Actor::Run(runs[0]), lease.id).unwrap();
        first = first.or(Some(lease.id));
        last = Some(lease.id);
        world.log_ms += 1;
    }
    world.tick(0);
    let forgotten = world.release(Actor::Run(runs[0]), first.unwrap());
    assert!(matches!(forgotten, Err(Refusal::NotFound(_))), "{forgotten:?}");
    assert!(world.release(Actor::Run(runs[0]), last.unwrap()).is_ok());
}
