//! Random histories: the state machine says what the model says, step by step, and on every replica the same.
use crate::{
    model::{End, Mode, Model, No, Over, Who},
    world::{GRACE_MS, World, acquire_operation, key, run_operation},
};
use proptest::prelude::*;
use ringfence_core::{Actor, Event, Operation, Outcome, Refusal, Reply, State};
use ringfence_protocol::{
    LeaseId, RunId,
    body::{Actions, LeaseState, RunState, WriteSetEntry},
    problem::EndReason,
};

const SCOPES: [&str; 9] = ["a/b", "a/b/c", "a/b/c/d", "a/b/**", "a/b/c/**", "a/x", "a/x/**", "a/bc", "z/z"];
const TTLS: [u64; 3] = [1000, 3000, 700_000];

#[derive(Debug, Clone)]
enum Step {
    CreateRun { by: usize, allow: Option<Vec<usize>>, lifetime: usize },
    FinishRun { by: By, run: usize, revoke: bool },
    Acquire { by: By, run: usize, entries: Vec<(usize, usize)>, ttl: usize, key: Option<(u8, u8)> },
    Touch { by: By, lease: usize, release: bool },
    RevokeToken { orchestrator: usize },
    NewLeader,
    Restart,
    Nothing,
}

/// Who does it: mostly somebody who may.
#[derive(Debug, Clone, Copy)]
enum By {
    TheRun,
    ItsOwner,
    Anybody(usize),
}

fn by() -> impl Strategy<Value = By> {
    prop_oneof![6 => Just(By::TheRun), 3 => Just(By::ItsOwner), 2 => (0..12_usize).prop_map(By::Anybody)]
}

/// A step, and how log time and wall time move before it: forth, not at all, or back.
fn steps() -> impl Strategy<Value = Vec<(Step, i64, i64)>> {
    let entries = prop::collection::vec((0..SCOPES.len(), 0..3_usize), 1..3);
    let keys = prop::option::weighted(0.4, (0..3_u8, 0..4_u8));
    let step = prop_oneof![
        2 => (0..4_usize, prop::option::weighted(0.3, prop::collection::vec(0..SCOPES.len(), 0..3)), 0..3_usize)
            .prop_map(|(by, allow, lifetime)| Step::CreateRun { by, allow, lifetime }),
        1 => (by(), 0..8_usize, any::<bool>())
            .prop_map(|(by, run, revoke)| Step::FinishRun { by, run, revoke }),
        16 => (by(), 0..8_usize, entries, 0..TTLS.len(), keys)
            .prop_map(|(by, run, entries, ttl, key)| Step::Acquire { by, run, entries, ttl, key }),
        8 => (by(), 0..12_usize, any::<bool>())
            .prop_map(|(by, lease, release)| Step::Touch { by, lease, release }),
        1 => (0..40_usize).prop_map(|orchestrator| Step::RevokeToken { orchestrator }),
        1 => Just(Step::NewLeader),
        1 => Just(Step::Restart),
        2 => Just(Step::Nothing),
    ];
    let log = prop_oneof![6 => Just(0_i64), 6 => 1..1500_i64, 1 => -5000..0_i64, 1 => 100_000..900_000_i64];
    let wall = prop_oneof![4 => 0..2000_i64, 1 => -7_200_000..7_200_000_i64];
    prop::collection::vec((step, log, wall), 1..35)
}

/// The state under test beside the model.
struct Pair {
    world: World,
    twin: State,
    model: Model,
    orchestrators: Vec<Actor>,
    runs: Vec<u128>,
    leases: Vec<u128>,
    term: u64,
    last_fence: u64,
}

fn refusal(refusal: &Refusal) -> Option<No> {
    Some(match refusal {
        Refusal::Unauthenticated => No::Unauthenticated,
        Refusal::CredentialRevoked => No::Revoked,
        Refusal::CredentialExpired => No::CredentialExpired,
        Refusal::RunEnded(_) => No::RunEnded,
        Refusal::Forbidden(_) => No::Forbidden,
        Refusal::NotFound(_) => No::NotFound,
        Refusal::OutsideAllowance(_) => No::Outside,
        Refusal::AlreadyHeld { .. } => No::AlreadyHeld,
        Refusal::Conflict { .. } => No::Conflict,
        Refusal::LeaseEnded { .. } => No::LeaseEnded,
        Refusal::FingerprintConflict => No::Fingerprint,
        Refusal::InvalidTransition(_) => No::Transition,
        Refusal::NotReady
        | Refusal::AlreadyBegun
        | Refusal::InvalidField { .. }
        | Refusal::ScopeTooBroad(_)
        | Refusal::IdTaken
        | Refusal::LimitExceeded(_)
        | Refusal::RequestRecordsFull
        | Refusal::StaleFence { .. }
        | Refusal::OutOfScope(_)
        | Refusal::ActionNotPermitted { .. } => return None,
    })
}

const fn mode(number: usize) -> (Mode, ringfence_protocol::Mode) {
    match number {
        0 => (Mode::Exclusive, ringfence_protocol::Mode::Exclusive),
        1 => (Mode::Shared, ringfence_protocol::Mode::Shared),
        _ => (Mode::Optimistic, ringfence_protocol::Mode::Optimistic),
    }
}

impl Pair {
    /// Two tenants with two orchestrators each.
    fn new() -> Self {
        let mut world = World::new();
        let tenants = ["t1", "t1", "t2", "t2"];
        let orchestrators = tenants
            .iter()
            .enumerate()
            .map(|(number, tenant)| world.token(tenant, "orchestrator", &format!("o{number}")))
            .collect();
        let model =
            Model { orchestrators: vec![(0, false), (0, false), (1, false), (1, false)], ..Model::default() };
        let twin = State::from_bytes(&world.state.to_bytes()).unwrap();
        let (runs, leases) = (Vec::new(), Vec::new());
        let mut pair = Self { world, twin, model, orchestrators, runs, leases, term: 0, last_fence: 0 };
        // Enough runs from the start that they get into each other's way.
        for by in [0, 1, 0, 2] {
            pair.create_run(by, None, 2);
        }
        pair
    }

    fn by(&self, by: By, run: u128) -> (Who, Actor) {
        match by {
            By::TheRun => (Who::Run(run), Actor::Run(RunId::from_bits(run))),
            By::ItsOwner => {
                let owner = self.model.runs.iter().find(|other| other.id == run).map_or(0, |run| run.owner);
                self.who(owner)
            }
            By::Anybody(number) => self.who(number),
        }
    }

    fn who(&self, number: usize) -> (Who, Actor) {
        match self.runs.get(number.wrapping_sub(4)) {
            Some(run) => (Who::Run(*run), Actor::Run(RunId::from_bits(*run))),
            None => (Who::Orchestrator(number % 4), self.orchestrators[number % 4]),
        }
    }

    fn run(&self, number: usize) -> u128 {
        // Now and then one that nobody knows.
        if number == 7 { 999_999 } else { self.runs[number % self.runs.len()] }
    }

    /// Lets both do the same, on both replicas.
    fn ask(
        &mut self,
        actor: Actor,
        key: Option<ringfence_core::RequestKey>,
        operation: Operation,
    ) -> Outcome {
        let mut other = World { state: std::mem::take(&mut self.twin), ..self.world.clone() };
        let outcome = self.world.ask(actor, key.clone(), operation.clone());
        let again = other.ask(actor, key, operation);
        self.twin = other.state;
        assert_eq!(outcome, again, "two replicas differ");
        outcome
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::CreateRun { by, allow, lifetime } => self.create_run(*by, allow.as_deref(), *lifetime),
            Step::FinishRun { by, run, revoke } => self.finish_run(*by, *run, *revoke),
            Step::Acquire { by, run, entries, ttl, key } => {
                self.acquire(*by, *run, entries, TTLS[*ttl], *key);
            }
            Step::Touch { by, lease, release } => self.touch(*by, *lease, *release),
            Step::RevokeToken { orchestrator } => self.revoke_token(*orchestrator),
            Step::NewLeader => {
                self.term += 1;
                self.world.state.begin_term(self.term);
                self.twin.begin_term(self.term);
                self.model.new_leader(GRACE_MS);
            }
            Step::Restart => {
                self.world.state = State::from_bytes(&self.world.state.to_bytes()).unwrap();
            }
            Step::Nothing => self.nothing(),
        }
    }

    fn nothing(&mut self) {
        let mut other = World { state: std::mem::take(&mut self.twin), ..self.world.clone() };
        let outcome = self.world.tick(0);
        assert_eq!(outcome, other.tick(0));
        self.twin = other.state;
        self.check_events(&outcome.events);
    }

    fn create_run(&mut self, by: usize, allow: Option<&[usize]>, lifetime: usize) {
        let id = self.world.id();
        let lifetime = [2000, 20_000, 3_600_000][lifetime];
        let allow: Option<Vec<&str>> = allow.map(|allow| allow.iter().map(|scope| SCOPES[*scope]).collect());
        let outcome = self.ask(
            self.orchestrators[by],
            None,
            run_operation(RunId::from_bits(id), allow.as_deref(), lifetime),
        );
        let owned = allow.map(|allow| allow.into_iter().map(str::to_owned).collect());
        let expected = self.model.create_run(by, id, owned, lifetime);
        assert_eq!(outcome.reply.as_ref().map(|_| ()).map_err(|no| refusal(no).unwrap()), expected);
        if expected.is_ok() {
            self.runs.push(id);
        }
        self.check_events(&outcome.events);
    }

    fn finish_run(&mut self, by: By, run: usize, revoke: bool) {
        let run = self.run(run);
        let (who, actor) = self.by(by, run);
        let operation =
            Operation::EndRun { run: RunId::from_bits(run), revoke, reason: "test".parse().unwrap() };
        let outcome = self.ask(actor, None, operation);
        let expected = self.model.finish_run(who, run, revoke);
        assert_eq!(outcome.reply.as_ref().map(|_| ()).map_err(|no| refusal(no).unwrap()), expected);
        self.check_events(&outcome.events);
    }

    fn acquire(&mut self, by: By, run: usize, entries: &[(usize, usize)], ttl: u64, wish: Option<(u8, u8)>) {
        let run = self.run(run);
        let (who, actor) = self.by(by, run);
        // Entries that overlap each other are refused before anything else; that rule has a test of its own.
        let named: Vec<(String, Mode)> =
            entries.iter().map(|(scope, number)| (SCOPES[*scope].to_owned(), mode(*number).0)).collect();
        let write_set: Vec<WriteSetEntry> = entries
            .iter()
            .map(|(scope, number)| {
                let scope = SCOPES[*scope].parse().unwrap();
                WriteSetEntry { scope, mode: mode(*number).1, actions: Actions::ANY }
            })
            .collect();
        let id = self.world.id();
        let operation =
            acquire_operation(LeaseId::from_bits(id), Some(RunId::from_bits(run)), &write_set, ttl);
        if operation.check().is_err() {
            return self.nothing();
        }
        let request_key = wish.map(|(name, fingerprint)| key(&name.to_string(), fingerprint % 2));
        let outcome = self.ask(actor, request_key, operation);
        let wish = wish.map(|(name, fingerprint)| (name, fingerprint % 2));
        let expected = self.model.acquire(who, run, id, &named, ttl, wish);
        let seen = outcome.reply.as_ref().map_err(|no| refusal(no).unwrap()).map(|done| {
            let Reply::Lease(granted) = &done.reply else { panic!("{done:?}") };
            let lease = &granted.lease;
            assert_eq!(lease.state, LeaseState::Held);
            (lease.id.bits(), lease.fence.get(), lease.expires_in_ms, done.replayed)
        });
        assert_eq!(seen, expected);
        if let Ok((id, _, _, false)) = expected {
            self.leases.push(id);
        }
        self.check_events(&outcome.events);
    }

    fn touch(&mut self, by: By, lease: usize, release: bool) {
        // The latest ones first: they are the likeliest to be held.
        let id = self.leases.iter().rev().nth(lease).copied().unwrap_or(999_999);
        let run = self.model.leases.iter().find(|lease| lease.id == id).map_or(999_999, |lease| lease.run);
        let (who, actor) = self.by(by, run);
        let lease = LeaseId::from_bits(id);
        let operation = if release { Operation::Release { lease } } else { Operation::Renew { lease } };
        let outcome = self.ask(actor, None, operation);
        let expected = self.model.touch(who, id, release);
        let seen = outcome.reply.as_ref().map_err(|no| refusal(no).unwrap()).map(|done| {
            let Reply::Lease(granted) = &done.reply else { panic!("{done:?}") };
            (granted.lease.id.bits(), granted.lease.fence.get(), granted.lease.expires_in_ms, done.replayed)
        });
        assert_eq!(seen, expected);
        self.check_events(&outcome.events);
    }

    fn revoke_token(&mut self, number: usize) {
        let Some(Actor::Token(id)) = self.orchestrators.get(number).copied() else { return self.nothing() };
        let outcome = self.ask(Actor::Operator, None, Operation::RevokeToken { id });
        outcome.reply.unwrap();
        self.model.orchestrators[number].1 = true;
        self.check_events(&outcome.events);
    }

    /// Fences strictly grow in the order of the log, over grants and unclean ends alike.
    fn check_events(&mut self, events: &[Event]) {
        for event in events {
            let taken = match event {
                Event::Granted { fence, .. } => Some(*fence),
                Event::Ended { end_fence, reason, .. } => {
                    assert_eq!(end_fence.is_none(), *reason == EndReason::Released);
                    *end_fence
                }
                Event::RunOver { .. } => None,
            };
            if let Some(fence) = taken {
                assert_eq!(fence.get(), self.last_fence + 1, "fences grow by one at a time");
                self.last_fence = fence.get();
            }
        }
        assert_eq!(self.last_fence, self.model.fence);
    }

    /// The whole state against the model and against itself.
    fn check(&self) {
        self.world.state.check_invariants().unwrap();
        assert_eq!(self.world.state.to_bytes(), self.twin.to_bytes(), "a restored replica has other bytes");
        assert_eq!(self.world.state.log_ms(), self.model.now);
        let live = self.model.leases.iter().filter(|lease| lease.end.is_none());
        assert_eq!(self.world.state.stats().live_leases, live.count() as u64);
        for lease in &self.model.leases {
            self.check_lease(lease);
        }
    }

    fn check_lease(&self, lease: &crate::model::Lease) {
        use ringfence_core::{Caller, Now, Subject};
        let run = self.model.runs.iter().find(|run| run.id == lease.run).unwrap();
        let tenant = ["t1", "t2"][run.tenant].parse().unwrap();
        let caller = Caller::Role(ringfence_protocol::Role::Auditor);
        let reader = Subject { caller, tenant: Some(tenant), principal: None, run: None };
        let now = Now { log_ms: self.model.now, wall: ringfence_protocol::Timestamp::from_unix_ms(0) };
        let seen = self.world.state.read_lease(&reader, LeaseId::from_bits(lease.id), now);
        let Some((end, at)) = lease.end else {
            let seen = seen.unwrap();
            assert_eq!((seen.state, seen.expires_in_ms), (LeaseState::Held, lease.deadline - self.model.now));
            return;
        };
        if at + 600_000 <= self.model.now {
            assert!(seen.is_err(), "an ended lease is forgotten after ten minutes");
            return;
        }
        let reason = match end {
            End::Released => EndReason::Released,
            End::Expired => EndReason::Expired,
            End::RunEnded => EndReason::RunEnded,
        };
        assert_eq!(seen.unwrap().reason, Some(reason));
        let over = self.world.state.read_run(&reader, RunId::from_bits(run.id), now).unwrap().state;
        let expected = match run.over {
            None => RunState::Active,
            Some(Over::Ended) => RunState::Ended,
            Some(Over::Revoked) => RunState::Revoked,
            Some(Over::Expired) => RunState::Expired,
        };
        assert_eq!(over, expected);
    }
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().map_or(10_000, |cases| cases.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn every_history_goes_as_the_model_says_and_gives_the_same_bytes_everywhere(history in steps()) {
        let mut pair = Pair::new();
        for (step, log, wall) in &history {
            let floor = pair.world.log_ms;
            // Stamps may go back; what an entry carries is at least nothing.
            pair.world.log_ms = floor.saturating_add_signed(*log);
            pair.world.wall_ms = pair.world.wall_ms.saturating_add_signed(*wall);
            let moves = !matches!(step, Step::NewLeader | Step::Restart);
            if moves {
                pair.model.pass(pair.world.log_ms);
            }
            pair.step(step);
            pair.check();
        }
    }
}
