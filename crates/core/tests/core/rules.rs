//! Rules by name.
use crate::world::{GRACE_MS, World, acquire_operation, entry, key, lease_of, run_operation};
use ringfence_core::{
    Actor, GrantQuestion, LeaseFilter, Now, Operation, Refusal, Request, limits, outcome::Thing,
};
use ringfence_protocol::{
    ErrorCode, LeaseId, Mode, Problem, RunId, Timestamp, TokenId,
    body::{LeaseState, MAX_WRITE_SET},
    problem::EndReason,
};

const HOUR: u64 = 3_600_000;

fn now(world: &World) -> Now {
    Now { log_ms: world.log_ms, wall: Timestamp::from_unix_ms(world.wall_ms) }
}

/// An orchestrator of tenant `default` and two of its runs.
fn two_runs() -> (World, Actor, RunId, RunId) {
    let mut world = World::new();
    let planner = world.token("default", "orchestrator", "planner");
    let (a, b) = (world.create_run(planner, HOUR), world.create_run(planner, HOUR));
    (world, planner, a, b)
}

#[test]
fn ten_changes_of_leader_add_at_most_ten_graces_and_never_shorten_a_lease() {
    let (mut world, _, run, _) = two_runs();
    let lease = world.exclusive(run, "svc/orders", 600_000).unwrap();
    for term in 1..=10 {
        world.tick(59_000);
        world.state.begin_term(term);
    }
    world.tick(9_999);
    let held = world
        .state
        .read_lease(&world.state.subject(&Actor::Run(run)).unwrap(), lease.id, now(&world))
        .unwrap();
    assert_eq!(held.state, LeaseState::Held, "599,999 ms have passed");
    let outcome = world.tick(1 + 10 * GRACE_MS);
    assert_eq!(outcome.events.len(), 1);
}

#[test]
fn a_new_leader_leaves_a_lease_that_is_about_to_end_a_grace_but_no_more_than_its_ttl() {
    let (mut world, _, run, other) = two_runs();
    world.exclusive(run, "svc/orders", 5000).unwrap();
    world.tick(4999);
    world.state.begin_term(1);
    assert!(world.tick(GRACE_MS - 1).events.is_empty());
    assert_eq!(world.tick(1).events.len(), 1);
    world.exclusive(other, "svc/orders", 5000).unwrap();
}

#[test]
fn wall_clocks_that_jump_by_hours_end_nothing_and_keep_nothing() {
    let (mut world, _, run, other) = two_runs();
    world.exclusive(run, "svc/orders", 60_000).unwrap();
    for jump in [HOUR, 0, 2 * HOUR] {
        world.wall_ms = 1_700_000_000_000 + jump;
        assert!(world.tick(10_000).events.is_empty());
    }
    world.wall_ms = 0;
    assert!(world.tick(29_999).events.is_empty());
    assert_eq!(world.tick(1).events.len(), 1);
    world.exclusive(other, "svc/orders", 1000).unwrap();
}

#[test]
fn what_an_older_leader_stamped_can_not_end_what_was_renewed_since() {
    let (mut world, _, run, _) = two_runs();
    let lease = world.exclusive(run, "svc/orders", 4000).unwrap();
    world.tick(3000);
    world.state.begin_term(2);
    world.renew(Actor::Run(run), lease.id).unwrap();
    // An entry that a stalled leader stamped long ago, or far from now, moves time only where the log has it: back never.
    world.log_ms -= 3000;
    assert!(world.tick(0).events.is_empty());
    assert_eq!(world.state.log_ms(), 3000);
}

#[test]
fn a_ttl_belongs_to_the_lease_and_askers_do_not_matter() {
    let (mut world, _, run, other) = two_runs();
    world.exclusive(run, "svc/orders", 30_000).unwrap();
    for _ in 0..29 {
        world.tick(1000);
        assert!(matches!(world.exclusive(other, "svc/orders", 1000), Err(Refusal::Conflict { .. })));
    }
    world.tick(1000);
    let next = world.exclusive(other, "svc/orders", 1000).unwrap();
    let [previous] = next.previous.as_slice() else { panic!("{:?}", next.previous) };
    assert_eq!((previous.run, previous.ended), (run, EndReason::Expired));
}

#[test]
fn a_conflict_says_who_holds_it_since_when_and_why_and_other_tenants_learn_nothing() {
    let (mut world, planner, run, other) = two_runs();
    let id = LeaseId::from_bits(world.id());
    let mut operation = acquire_operation(id, None, &[entry("svc/orders/**", Mode::Exclusive)], 5000);
    if let Operation::Acquire { purpose, .. } = &mut operation {
        *purpose = Some("migration".parse().unwrap());
    }
    world.ask(Actor::Run(run), None, operation).reply.unwrap();
    world.tick(1000);
    let refused = world.exclusive(other, "svc/orders/eu", 1000).unwrap_err();
    let problem = Problem::from(refused);
    assert_eq!(problem.error, ErrorCode::WriteSetConflict);
    let [conflict] = problem.conflicts.as_deref().unwrap() else { panic!("{problem:?}") };
    assert_eq!((conflict.lease, conflict.run, conflict.expires_in_ms), (id, run, 4000));
    assert_eq!(conflict.purpose.as_ref().unwrap().as_str(), "migration");
    assert_eq!(conflict.held_scope.as_str(), "svc/orders/**");
    let stranger = world.token("other", "orchestrator", "planner");
    let theirs = world.create_run(stranger, HOUR);
    world.exclusive(theirs, "svc/orders/eu", 1000).unwrap();
    let reader = world.state.subject(&stranger).unwrap();
    assert!(matches!(world.state.read_lease(&reader, id, now(&world)), Err(Refusal::NotFound(Thing::Lease))));
    assert!(matches!(world.release(stranger, id), Err(Refusal::NotFound(Thing::Lease))));
    assert!(world.release(planner, id).is_ok());
}

#[test]
fn one_runs_credential_does_nothing_to_anothers_lease() {
    let (mut world, _, run, other) = two_runs();
    let lease = world.exclusive(run, "svc/orders", 5000).unwrap();
    assert!(matches!(world.renew(Actor::Run(other), lease.id), Err(Refusal::Forbidden(_))));
    assert!(matches!(world.release(Actor::Run(other), lease.id), Err(Refusal::Forbidden(_))));
    let named = acquire_operation(LeaseId::from_bits(77), Some(run), &[entry("svc/x", Mode::Shared)], 5000);
    assert!(matches!(world.ask(Actor::Run(other), None, named).reply, Err(Refusal::Forbidden(_))));
    assert_eq!(world.renew(Actor::Run(run), lease.id).unwrap().fence, lease.fence);
}

#[test]
fn an_orchestrator_acts_for_its_own_runs_and_an_admin_ends_any() {
    let (mut world, _, run, _) = two_runs();
    let second = world.token("default", "orchestrator", "second");
    let admin = world.token("default", "admin", "root");
    let end = |revoke| Operation::EndRun { run, revoke, reason: "test".parse().unwrap() };
    assert!(matches!(world.ask(second, None, end(false)).reply, Err(Refusal::Forbidden(_))));
    world.exclusive(run, "svc/orders", 5000).unwrap();
    let outcome = world.ask(admin, None, end(true));
    assert_eq!(outcome.events.len(), 2, "the lease ends in the same entry");
    assert!(matches!(world.exclusive(run, "svc/x", 1000), Err(Refusal::CredentialRevoked)));
    assert!(world.ask(admin, None, end(true)).reply.is_ok(), "again changes nothing");
    assert!(matches!(world.ask(admin, None, end(false)).reply, Err(Refusal::InvalidTransition(_))));
}

#[test]
fn a_repeated_acquire_gives_the_same_lease_as_it_is_now_and_another_command_is_refused() {
    let (mut world, planner, run, _) = two_runs();
    let ask = |world: &mut World, actor, scope: &str, fingerprint| {
        let id = LeaseId::from_bits(world.id());
        let operation = acquire_operation(id, Some(run), &[entry(scope, Mode::Exclusive)], 5000);
        world.ask(actor, Some(key("k1", fingerprint)), operation).reply
    };
    let first = lease_of(ask(&mut world, Actor::Run(run), "svc/orders", 1).unwrap().reply);
    world.tick(2000);
    // The key is the run's, whoever asks for it.
    let again = ask(&mut world, planner, "svc/orders", 1).unwrap();
    assert!(again.replayed);
    let again = lease_of(again.reply);
    assert_eq!((again.id, again.fence, again.expires_in_ms), (first.id, first.fence, 3000));
    assert_eq!(ask(&mut world, Actor::Run(run), "svc/other", 2), Err(Refusal::FingerprintConflict));
    world.release(Actor::Run(run), first.id).unwrap();
    assert!(matches!(ask(&mut world, Actor::Run(run), "svc/orders", 1), Err(Refusal::LeaseEnded { .. })));
    world.tick(limits::REMEMBER_LEASE_MS);
    let later = ask(&mut world, Actor::Run(run), "svc/orders", 1).unwrap();
    assert!(!later.replayed);
}

#[test]
fn only_a_success_takes_a_key() {
    let (mut world, _, run, other) = two_runs();
    let held = world.exclusive(other, "svc/orders", 5000).unwrap();
    let ask = |world: &mut World, fingerprint| {
        let id = LeaseId::from_bits(world.id());
        let operation = acquire_operation(id, None, &[entry("svc/orders", Mode::Exclusive)], 5000);
        world.ask(Actor::Run(run), Some(key("k1", fingerprint)), operation).reply
    };
    assert!(matches!(ask(&mut world, 1), Err(Refusal::Conflict { .. })));
    world.release(Actor::Run(other), held.id).unwrap();
    assert!(!ask(&mut world, 2).unwrap().replayed);
}

#[test]
fn a_lease_never_outlives_its_run_and_says_so() {
    let mut world = World::new();
    let planner = world.token("default", "orchestrator", "planner");
    let run = world.create_run(planner, 3000);
    let lease = world.exclusive(run, "svc/orders", 10_000).unwrap();
    assert_eq!(lease.expires_in_ms, 3000);
    world.tick(1000);
    assert_eq!(world.renew(Actor::Run(run), lease.id).unwrap().expires_in_ms, 2000);
    world.tick(2000);
    assert!(matches!(world.renew(Actor::Run(run), lease.id), Err(Refusal::CredentialExpired)));
    let reader = world.state.subject(&planner).unwrap();
    let ended = world.state.read_lease(&reader, lease.id, now(&world)).unwrap();
    assert_eq!(ended.reason, Some(EndReason::RunEnded));
}

#[test]
fn what_is_wrong_with_a_request_is_named_and_nothing_changes() {
    let (mut world, planner, run, _) = two_runs();
    let before = world.state.to_bytes();
    let cases: [(Operation, &str); 6] = [
        (acquire_operation(LeaseId::from_bits(1), Some(run), &[], 5000), "write_set"),
        (acquire_operation(LeaseId::from_bits(1), Some(run), &[entry("a/b", Mode::Shared)], 999), "ttl_ms"),
        (
            acquire_operation(
                LeaseId::from_bits(1),
                Some(run),
                &[entry("a/b/c", Mode::Shared), entry("a/b/**", Mode::Shared)],
                5000,
            ),
            "write_set[1].scope",
        ),
        (
            acquire_operation(
                LeaseId::from_bits(1),
                Some(run),
                &[entry("a/b", Mode::Shared), entry("a/b", Mode::Optimistic)],
                5000,
            ),
            "write_set[1].scope",
        ),
        (run_operation(RunId::from_bits(1), None, 999), "lifetime_ms"),
        (acquire_operation(LeaseId::from_bits(1), None, &[entry("a/b", Mode::Shared)], 5000), "run"),
    ];
    for (operation, named) in cases {
        let refused = world.ask(planner, Some(key("k", 1)), operation).reply.unwrap_err();
        let Refusal::InvalidField { field, .. } = refused else { panic!("{refused:?}") };
        assert_eq!(field, named);
    }
    for broad in ["production", "production/**"] {
        assert!(matches!(world.exclusive(run, broad, 5000), Err(Refusal::ScopeTooBroad(_))));
    }
    assert_eq!(world.state.to_bytes(), before);
    let many: Vec<_> = (0..=MAX_WRITE_SET).map(|at| entry(&format!("a/{at}"), Mode::Shared)).collect();
    assert!(world.acquire(run, &many, 5000).is_err());
    assert!(world.acquire(run, &many[1..], 5000).is_ok());
}

#[test]
fn a_run_leases_nothing_beyond_its_allowance() {
    let mut world = World::new();
    let planner = world.token("default", "orchestrator", "planner");
    let run = RunId::from_bits(world.id());
    world.ask(planner, None, run_operation(run, Some(&["config/eu/**"]), HOUR)).reply.unwrap();
    world.exclusive(run, "config/eu/a", 5000).unwrap();
    for outside in ["config/us", "config/eu2", "config/**"] {
        let refused = world.exclusive(run, outside, 5000);
        assert!(
            matches!(refused, Err(Refusal::OutsideAllowance(_) | Refusal::ScopeTooBroad(_))),
            "{outside}"
        );
    }
}

#[test]
fn an_admin_makes_tokens_of_its_own_tenant_and_nobody_an_operators() {
    let mut world = World::new();
    let admin = world.token("default", "admin", "root");
    let make = |tenant: Option<&str>, role: &str, id| Operation::CreateToken {
        id: TokenId::from_bits(id),
        tenant: tenant.map(|tenant| tenant.parse().unwrap()),
        role: role.parse().unwrap(),
        name: "x".parse().unwrap(),
        secret_hash: [9; 32],
    };
    assert!(world.ask(admin, None, make(None, "target", 900)).reply.is_ok());
    assert!(matches!(
        world.ask(admin, None, make(Some("other"), "target", 901)).reply,
        Err(Refusal::Forbidden(_))
    ));
    let operator = world.ask(Actor::Operator, None, make(Some("default"), "operator", 902)).reply;
    assert!(matches!(operator, Err(Refusal::InvalidField { .. })));
    let nameless = world.ask(Actor::Operator, None, make(None, "admin", 903)).reply;
    assert!(matches!(nameless, Err(Refusal::InvalidField { .. })));
    let target = Actor::Token(TokenId::from_bits(900));
    world.ask(admin, None, Operation::RevokeToken { id: TokenId::from_bits(900) }).reply.unwrap();
    assert_eq!(world.state.subject(&target), Err(Refusal::CredentialRevoked));
    world.tick(limits::REMEMBER_MS);
    assert_eq!(world.state.subject(&target), Err(Refusal::Unauthenticated));
}

#[test]
fn verifying_asks_for_a_live_lease_its_fence_and_its_coverage() {
    let (mut world, _, run, _) = two_runs();
    let target = world.token("default", "target", "svc");
    let lease = world.exclusive(run, "svc/orders", 5000).unwrap();
    let question = GrantQuestion {
        tenant: "default".parse().unwrap(),
        lease: lease.id,
        fence: lease.fence,
        resource: "svc/orders".parse().unwrap(),
        action: "deploy".parse().unwrap(),
    };
    let verify = |world: &World, question: &GrantQuestion, later: u64| {
        let at = Now { log_ms: world.log_ms + later, ..now(world) };
        world.state.verify(&world.state.subject(&target).unwrap(), question, at)
    };
    assert_eq!(verify(&world, &question, 1000).unwrap().expires_in_ms, 4000);
    // Due, though no entry has ended it yet: the leader's clock is what counts.
    assert!(matches!(verify(&world, &question, 5000), Err(Refusal::LeaseEnded { .. })));
    let elsewhere = GrantQuestion { resource: "svc/x".parse().unwrap(), ..question.clone() };
    assert!(matches!(verify(&world, &elsewhere, 0), Err(Refusal::OutOfScope(_))));
    let foreign = GrantQuestion { tenant: "other".parse().unwrap(), ..question.clone() };
    assert!(matches!(verify(&world, &foreign, 0), Err(Refusal::NotFound(_))));
    world.release(Actor::Run(run), lease.id).unwrap();
    assert!(matches!(verify(&world, &question, 0), Err(Refusal::LeaseEnded { .. })));
}

#[test]
fn who_holds_a_resource_and_the_greatest_fence_there_are_remembered_for_ten_minutes() {
    let (mut world, _, run, _) = two_runs();
    let lease = world.exclusive(run, "svc/**", 5000);
    assert!(lease.is_err(), "too broad");
    let lease = world.exclusive(run, "svc/orders/**", 5000).unwrap();
    let read = |world: &World| {
        let reader = world.state.subject(&Actor::Run(run)).unwrap();
        world.state.read_resource(&reader, &"svc/orders/eu".parse().unwrap(), now(world)).unwrap()
    };
    assert_eq!(read(&world).holders[0].lease, lease.id);
    world.tick(5000);
    let after = read(&world);
    assert!(after.holders.is_empty());
    assert_eq!(after.highest_fence.unwrap().get(), lease.fence.get() + 1, "the end took a fence");
    world.tick(limits::REMEMBER_LEASE_MS);
    assert_eq!(read(&world).highest_fence, None);
}

#[test]
fn lists_come_in_pages_and_find_what_overlaps() {
    let (mut world, _, run, _) = two_runs();
    for at in 0..5 {
        world.exclusive(run, &format!("svc/{at}"), 5000).unwrap();
    }
    let reader = world.state.subject(&Actor::Run(run)).unwrap();
    let filter = |scope: &str| LeaseFilter {
        scope: Some(scope.parse().unwrap()),
        state: Some(LeaseState::Held),
        run: None,
    };
    let all = world.state.read_leases(&reader, &filter("svc/**"), None, 100, now(&world)).unwrap();
    assert_eq!(all.len(), 5);
    let page = world.state.read_leases(&reader, &filter("svc/**"), Some(all[1].id), 2, now(&world)).unwrap();
    assert_eq!(page.iter().map(|lease| lease.id).collect::<Vec<_>>(), [all[2].id, all[3].id]);
    assert_eq!(world.state.read_leases(&reader, &filter("svc/3"), None, 100, now(&world)).unwrap().len(), 1);
}

#[test]
fn nothing_is_done_before_the_cluster_has_begun_and_it_begins_once() {
    let mut world = World::new();
    let genesis = world.state.identity().unwrap().clone();
    assert_eq!(world.apply(Request::Genesis(genesis)).reply, Err(Refusal::AlreadyBegun));
    world.state = ringfence_core::State::new();
    let refused =
        world.ask(Actor::Operator, None, Operation::RevokeToken { id: TokenId::from_bits(1) }).reply;
    assert_eq!(refused, Err(Refusal::NotReady));
}

#[test]
fn snapshots_of_another_version_cut_short_or_with_more_behind_are_refused() {
    let (world, ..) = two_runs();
    let bytes = world.state.to_bytes();
    assert!(ringfence_core::State::from_bytes(&bytes[..bytes.len() - 1]).is_err());
    assert!(ringfence_core::State::from_bytes(&[bytes.as_slice(), &[0]].concat()).is_err());
    assert!(ringfence_core::State::from_bytes(&[]).is_err());
    let mut other = bytes;
    other[0] = 99;
    assert!(ringfence_core::State::from_bytes(&other).unwrap_err().to_string().contains("format 99"));
}
