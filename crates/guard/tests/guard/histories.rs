//! Random histories of a cluster and a store that sees its grants late, in any order and more than once.
//!
//! The model is written apart from the guard: its own idea of overlap and of which modes go together.
use crate::{
    cluster::Cluster,
    conformance::{Bench, marks_at},
};
use proptest::prelude::*;
use ringfence_guard::{
    Guard, MemoryStore, ModeMarks, Realm, Request, VerifiedGrant,
    protocol::{ErrorCode, Mode},
};
use rusqlite::Connection;

const SCOPES: [&str; 10] =
    ["a/b", "a/b/**", "a/b/c", "a/b/c/**", "a/b/d", "a/**", "a/e", "a/b-x", "a/b0/**", "f/g"];

/// What may happen next; the numbers choose among what there is.
#[derive(Debug, Clone)]
enum Step {
    Grant(Vec<(usize, usize)>),
    End { lease: usize, clean: bool },
    Send { lease: usize, entry: usize },
    Deliver { message: usize, again: bool },
    Read { lease: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let entries = prop::collection::vec((0..SCOPES.len(), 0..3_usize), 1..4);
    prop_oneof![
        3 => entries.prop_map(Step::Grant),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(lease, clean)| Step::End { lease, clean }),
        4 => (any::<usize>(), any::<usize>()).prop_map(|(lease, entry)| Step::Send { lease, entry }),
        5 => (any::<usize>(), any::<bool>()).prop_map(|(message, again)| Step::Deliver { message, again }),
        1 => any::<usize>().prop_map(|lease| Step::Read { lease }),
    ]
}

#[derive(Debug, Clone)]
struct Lease {
    fence: u64,
    entries: Vec<(&'static str, Mode)>,
    live: bool,
    seen: bool,
    grant: VerifiedGrant,
}

fn is_below(text: &str, tree: &str) -> bool {
    let inner: Vec<_> = text.trim_end_matches("/**").split('/').collect();
    let outer: Vec<_> = tree.trim_end_matches("/**").split('/').collect();
    tree.ends_with("/**") && inner.len() >= outer.len() && inner[..outer.len()] == outer[..]
}

fn touch(a: &str, b: &str) -> bool {
    a == b || is_below(a, b) || is_below(b, a)
}

fn clash(a: &[(&str, Mode)], b: &[(&str, Mode)]) -> bool {
    a.iter().any(|(scope, mode)| {
        b.iter().any(|(other, held)| {
            touch(scope, other) && (*mode == Mode::Exclusive || *held == Mode::Exclusive || mode != held)
        })
    })
}

struct World<S> {
    cluster: Cluster,
    guard: Guard,
    store: S,
    counter: u64,
    leases: Vec<Lease>,
    messages: Vec<(usize, &'static str)>,
    decisions: Vec<Result<(), ErrorCode>>,
    marks: Vec<ModeMarks>,
}

impl<S: Bench> World<S> {
    fn new() -> Self {
        let cluster = Cluster::new();
        let (guard, _clock) = cluster.guard();
        Self {
            cluster,
            guard,
            store: S::fresh(),
            counter: 0,
            leases: Vec::new(),
            messages: Vec::new(),
            decisions: Vec::new(),
            marks: vec![ModeMarks::default(); SCOPES.len()],
        }
    }

    fn play(&mut self, step: &Step) {
        match step {
            Step::Grant(wish) => self.grant(wish),
            Step::End { lease, clean } => self.end(*lease, *clean),
            Step::Send { lease, entry } => self.send(*lease, *entry),
            Step::Deliver { message, again } => self.deliver(*message, *again),
            Step::Read { lease } => self.read(*lease),
        }
        self.marks_never_go_down();
    }

    fn grant(&mut self, wish: &[(usize, usize)]) {
        let mut entries: Vec<(&'static str, Mode)> = Vec::new();
        for (scope, mode) in wish {
            if entries.iter().all(|(other, _)| !touch(SCOPES[*scope], other)) {
                entries.push((SCOPES[*scope], Mode::ALL[*mode]));
            }
        }
        let free = self.leases.iter().all(|held| !held.live || !clash(&held.entries, &entries));
        if free {
            self.counter += 1;
            let grant = self.cluster.verified(self.counter, &entries);
            let fence = self.counter;
            self.leases.push(Lease { fence, entries, live: true, seen: false, grant });
        }
    }

    fn end(&mut self, lease: usize, clean: bool) {
        let count = self.leases.len();
        if count > 0 && self.leases[lease % count].live {
            self.leases[lease % count].live = false;
            self.counter += u64::from(!clean);
        }
    }

    /// A holder may send whether or not its lease is still live: it does not know.
    fn send(&mut self, lease: usize, entry: usize) {
        if !self.leases.is_empty() {
            let lease = lease % self.leases.len();
            let entries = &self.leases[lease].entries;
            let (scope, _) = entries[entry % entries.len()];
            self.messages.push((lease, scope));
        }
    }

    fn deliver(&mut self, message: usize, again: bool) {
        if self.messages.is_empty() {
            return;
        }
        let at = message % self.messages.len();
        let (lease, scope) = self.messages[at];
        if !again {
            self.messages.swap_remove(at);
        }
        self.leases[lease].seen = true;
        let outcome = self.write(lease, scope);
        self.judge(lease, scope, outcome);
        self.decisions.push(outcome);
    }

    fn write(&mut self, lease: usize, scope: &str) -> Result<(), ErrorCode> {
        let grant = self.leases[lease].grant.clone();
        let resource = scope.replace("/**", "/deep/down");
        let request = Request::parse(&resource, "update").unwrap();
        self.guard
            .write(&mut self.store, &grant, &request, |_, _| Ok(()))
            .map_err(|error| error.into_problem().error)
    }

    fn judge(&self, lease: usize, scope: &str, outcome: Result<(), ErrorCode>) {
        let lease = &self.leases[lease];
        let overtaken = self
            .leases
            .iter()
            .any(|other| other.seen && other.fence > lease.fence && clash(&other.entries, &lease.entries));
        let reads_only = lease.entries.contains(&(scope_of(lease, scope), Mode::Shared));
        if reads_only {
            assert_eq!(outcome, Err(ErrorCode::ActionNotPermitted));
        } else if overtaken {
            assert!(!lease.live, "the model itself granted two that clash");
            assert_eq!(outcome, Err(ErrorCode::StaleFence), "{lease:?} after a newer one");
        } else {
            assert_eq!(outcome, Ok(()), "{lease:?}: nothing newer was seen, live: {}", lease.live);
        }
    }

    fn read(&mut self, lease: usize) {
        if !self.leases.is_empty() {
            let lease = lease % self.leases.len();
            self.leases[lease].seen = true;
            let grant = self.leases[lease].grant.clone();
            self.guard.observe(&mut self.store, &grant).unwrap();
        }
    }

    fn marks_never_go_down(&mut self) {
        let realm = Realm { cluster: self.cluster.id, tenant: "default".parse().unwrap() };
        for (scope, before) in SCOPES.iter().zip(&mut self.marks) {
            let now = marks_at(&mut self.store, &realm, scope);
            for mode in Mode::ALL {
                assert!(now.get(mode) >= before.get(mode), "{scope} {mode}");
            }
            *before = now;
        }
    }
}

fn scope_of(lease: &Lease, scope: &str) -> &'static str {
    let found = lease.entries.iter().find(|(own, _)| *own == scope);
    found.map_or("", |(own, _)| own)
}

fn play<S: Bench>(history: &[Step]) -> Vec<Result<(), ErrorCode>> {
    let mut world = World::<S>::new();
    for step in history {
        world.play(step);
    }
    world.decisions
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Exactly the writes under grants that a newer one has overtaken in this store are refused: so no holder
    /// whose lease is live ever is.
    #[test]
    fn only_what_was_overtaken_is_refused_and_all_of_it(history in prop::collection::vec(step(), 1..60)) {
        play::<MemoryStore<i64>>(&history);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn both_stores_decide_alike(history in prop::collection::vec(step(), 1..60)) {
        prop_assert_eq!(play::<MemoryStore<i64>>(&history), play::<Connection>(&history));
    }
}

#[test]
fn histories_are_rich_enough_to_mean_something() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let (mut passed, mut overtaken) = (0, 0);
    for _ in 0..200 {
        let history = prop::collection::vec(step(), 30..60).new_tree(&mut runner).unwrap().current();
        for decision in play::<MemoryStore<i64>>(&history) {
            passed += usize::from(decision.is_ok());
            overtaken += usize::from(decision == Err(ErrorCode::StaleFence));
        }
    }
    assert!(passed > 200 && overtaken > 200, "{passed} passed, {overtaken} overtaken");
}
