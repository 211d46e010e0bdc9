//! What every store has to do, written once over the trait and run on each.
use crate::cluster::{Cluster, NOW_S};
use ringfence_guard::{
    Expiry, Guard, GuardError, Keys, MemoryStore, ModeMarks, Realm, Reason, Request, Store, VerifiedGrant,
    Verifier,
    clock::ManualClock,
    protocol::{ErrorCode, Fence, Mode, Problem, id::Incarnation},
    sqlite,
};
use rusqlite::Connection;
use std::{fmt::Debug, sync::Arc};

/// A store with one number in it, which the writes change.
pub(crate) trait Bench: Store<Error: Debug> + Sized {
    fn fresh() -> Self;
    fn set(handle: Self::Handle<'_>, value: i64);
    fn value(&mut self) -> i64;
}

impl Bench for MemoryStore<i64> {
    fn fresh() -> Self {
        Self::new(0)
    }

    fn set(handle: &mut i64, value: i64) {
        *handle = value;
    }

    fn value(&mut self) -> i64 {
        *self.data()
    }
}

impl Bench for Connection {
    fn fresh() -> Self {
        let mut connection = Self::open_in_memory().unwrap();
        sqlite::migrate(&mut connection).unwrap();
        connection
            .execute_batch("CREATE TABLE number (value INTEGER); INSERT INTO number VALUES (0)")
            .unwrap();
        connection
    }

    fn set(handle: sqlite::Write<'_>, value: i64) {
        handle.execute("UPDATE number SET value = ?1", [value]).unwrap();
    }

    fn value(&mut self) -> i64 {
        self.query_row("SELECT value FROM number", [], |row| row.get(0)).unwrap()
    }
}

struct Stage<S> {
    cluster: Cluster,
    guard: Guard,
    clock: Arc<ManualClock>,
    store: S,
}

impl<S: Bench> Stage<S> {
    fn new() -> Self {
        let cluster = Cluster::new();
        let (guard, clock) = cluster.guard();
        let store = S::fresh();
        Self { cluster, guard, clock, store }
    }

    fn grant(&self, fence: u64, scopes: &[(&str, Mode)]) -> VerifiedGrant {
        self.cluster.verified(fence, scopes)
    }

    /// The code of the refusal, or nothing where the write was made.
    fn write(&mut self, grant: &VerifiedGrant, resource: &str, value: i64) -> Result<(), ErrorCode> {
        let request = Request::parse(resource, "update").unwrap();
        let outcome = self.guard.write(&mut self.store, grant, &request, |handle, permit| {
            assert_eq!(permit.fence(), grant.fence());
            S::set(handle, value);
            Ok(())
        });
        outcome.map_err(|error| error.into_problem().error)
    }

    fn marks(&mut self, scope: &str) -> ModeMarks {
        let realm = self.realm("default");
        marks_at(&mut self.store, &realm, scope)
    }

    fn realm(&self, tenant: &str) -> Realm {
        Realm { cluster: self.cluster.id, tenant: tenant.parse().unwrap() }
    }
}

pub(crate) fn marks_at<S: Store<Error: Debug>>(store: &mut S, realm: &Realm, scope: &str) -> ModeMarks {
    let mut found = ModeMarks::default();
    store
        .observe(|marks| {
            found = marks.at(realm, scope)?;
            Ok(())
        })
        .unwrap();
    found
}

fn fence(number: u64) -> Option<Fence> {
    Fence::new(number)
}

macro_rules! on_both_stores {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $( #[test] fn $name() { super::$name::<super::MemoryStore<i64>>(); } )*
        }
        mod sqlite_store {
            $( #[test] fn $name() { super::$name::<super::Connection>(); } )*
        }
    };
}

on_both_stores!(
    a_write_passes_again_and_again_under_one_grant,
    an_older_grant_is_refused_once_a_newer_one_was_seen_anywhere_in_the_tree,
    compatible_modes_do_not_refuse_each_other,
    neighbours_in_text_order_are_not_below,
    a_newer_grant_is_seen_at_a_read,
    marks_of_a_refused_request_stay,
    a_write_that_returns_an_error_leaves_its_marks_and_nothing_else,
    a_write_that_panics_leaves_nothing_of_itself,
    tenants_and_clusters_do_not_share_marks,
    a_later_life_of_the_cluster_ends_all_grants_of_the_one_before,
    the_present_life_can_not_be_turned_back,
    a_grant_that_ran_out_is_refused_or_not_as_the_service_chose,
    a_proposal_writes_nothing,
);

fn a_write_passes_again_and_again_under_one_grant<S: Bench>() {
    let mut stage = Stage::<S>::new();
    let grant = stage.grant(5, &[("a/b", Mode::Exclusive), ("c/**", Mode::Shared)]);
    for value in 1..4 {
        assert_eq!(stage.write(&grant, "a/b", value), Ok(()));
        assert_eq!(stage.store.value(), value);
    }
    assert_eq!(stage.marks("a/b").exclusive, fence(5));
    assert_eq!(stage.marks("c/**").shared, fence(5));
}

fn an_older_grant_is_refused_once_a_newer_one_was_seen_anywhere_in_the_tree<S: Bench>() {
    for (old, new) in [
        ("a/b", "a/b"),
        ("a/b", "a/**"),
        ("a/b", "a/b/**"),
        ("a/**", "a/b"),
        ("a/**", "a/b/**"),
        ("a/**", "a/**"),
        ("a/b/**", "a/b"),
        ("a/b/**", "a/b/c/d/e"),
        ("a/b/c/d/e", "a/b/**"),
    ] {
        let mut stage = Stage::<S>::new();
        let older = stage.grant(5, &[(old, Mode::Exclusive)]);
        let newer = stage.grant(6, &[(new, Mode::Exclusive)]);
        let in_old = old.replace("**", "b");
        let in_new = new.replace("**", "b");
        assert_eq!(stage.write(&older, &in_old, 5), Ok(()), "{old} {new}");
        assert_eq!(stage.write(&newer, &in_new, 6), Ok(()), "{old} {new}");
        let late = stage.write(&older, &in_old, 7);
        assert_eq!(late, Err(ErrorCode::StaleFence), "{old} {new}");
        assert_eq!(stage.store.value(), 6, "{old} {new}");
        assert_eq!(stage.write(&newer, &in_new, 8), Ok(()), "{old} {new}");
    }
}

fn compatible_modes_do_not_refuse_each_other<S: Bench>() {
    for (held, newer, refused) in [
        (Mode::Optimistic, Mode::Optimistic, false),
        (Mode::Optimistic, Mode::Shared, true),
        (Mode::Optimistic, Mode::Exclusive, true),
        (Mode::Exclusive, Mode::Optimistic, true),
        (Mode::Exclusive, Mode::Shared, true),
    ] {
        let mut stage = Stage::<S>::new();
        let grant = stage.grant(5, &[("a/b", held)]);
        let other = stage.grant(6, &[("a/**", newer)]);
        stage.guard.observe(&mut stage.store, &other).unwrap();
        assert_eq!(stage.write(&grant, "a/b", 1).is_err(), refused, "{held} {newer}");
    }
    // What is relied on counts too, though it isn't written.
    for (newer, refused) in [(Mode::Shared, false), (Mode::Optimistic, true), (Mode::Exclusive, true)] {
        let mut stage = Stage::<S>::new();
        let grant = stage.grant(5, &[("a/b", Mode::Exclusive), ("c/d", Mode::Shared)]);
        let other = stage.grant(6, &[("c/d", newer)]);
        stage.guard.observe(&mut stage.store, &other).unwrap();
        assert_eq!(stage.write(&grant, "a/b", 1).is_err(), refused, "relied on {newer}");
    }
}

fn neighbours_in_text_order_are_not_below<S: Bench>() {
    let mut stage = Stage::<S>::new();
    let grant = stage.grant(5, &[("a/b/**", Mode::Exclusive)]);
    let around = ["a/b-c", "a/b.c", "a/b+", "a/b0", "a/bb", "a/b0/**", "a/B", "a/a", "a", "aa/b/**", "b/b"];
    for (number, neighbour) in around.iter().enumerate() {
        let newer = stage.grant(6 + number as u64, &[(neighbour, Mode::Exclusive)]);
        stage.guard.observe(&mut stage.store, &newer).unwrap();
        assert_eq!(stage.write(&grant, "a/b/c", 1), Ok(()), "{neighbour}");
    }
}

fn a_newer_grant_is_seen_at_a_read<S: Bench>() {
    let mut stage = Stage::<S>::new();
    let older = stage.grant(5, &[("a/b", Mode::Exclusive)]);
    let newer = stage.grant(6, &[("a/b", Mode::Exclusive)]);
    stage.guard.observe(&mut stage.store, &newer).unwrap();
    stage.guard.observe(&mut stage.store, &older).unwrap();
    assert_eq!(stage.marks("a/b").exclusive, fence(6), "an older grant lowers nothing");
    assert_eq!(stage.write(&older, "a/b", 1), Err(ErrorCode::StaleFence));
}

fn marks_of_a_refused_request_stay<S: Bench>() {
    let mut stage = Stage::<S>::new();
    let older = stage.grant(5, &[("a/b", Mode::Exclusive)]);
    let newer = stage.grant(6, &[("a/b", Mode::Exclusive)]);
    assert_eq!(stage.write(&newer, "z/z", 1), Err(ErrorCode::OutOfScope));
    assert_eq!(stage.write(&older, "a/b", 1), Err(ErrorCode::StaleFence));

    stage.clock.advance_ms(3_600_000);
    let expired = stage.grant(7, &[("a/b", Mode::Exclusive)]);
    assert_eq!(stage.write(&expired, "a/b", 1), Err(ErrorCode::GrantExpired));
    assert_eq!(stage.write(&newer, "a/b", 1), Err(ErrorCode::StaleFence), "order before expiry");
    assert_eq!(stage.store.value(), 0);
}

fn a_write_that_returns_an_error_leaves_its_marks_and_nothing_else<S: Bench>() {
    let mut stage = Stage::<S>::new();
    let older = stage.grant(5, &[("a/b", Mode::Exclusive)]);
    let newer = stage.grant(6, &[("a/b", Mode::Exclusive)]);
    let request = Request::parse("a/b", "update").unwrap();
    let outcome = stage.guard.write(&mut stage.store, &newer, &request, |handle, _| {
        S::set(handle, 9);
        Err::<(), _>(Problem::new(ErrorCode::InvariantViolated, "nine is too many").into())
    });
    let problem = outcome.unwrap_err().into_problem();
    assert_eq!(problem.error, ErrorCode::InvariantViolated);
    assert_eq!(problem.resource.as_deref(), Some("a/b"));
    assert_eq!(stage.store.value(), 0);
    assert_eq!(stage.write(&older, "a/b", 1), Err(ErrorCode::StaleFence));
}

fn a_write_that_panics_leaves_nothing_of_itself<S: Bench>() {
    let mut stage = Stage::<S>::new();
    let grant = stage.grant(5, &[("a/b", Mode::Exclusive)]);
    let request = Request::parse("a/b", "update").unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stage.guard.write(&mut stage.store, &grant, &request, |handle, _| {
            S::set(handle, 9);
            if grant.fence().get() == 5 {
                panic!("in the middle of a write");
            }
            Ok(())
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(stage.store.value(), 0);
    assert_eq!(stage.write(&grant, "a/b", 1), Ok(()), "the store goes on");
}

fn tenants_and_clusters_do_not_share_marks<S: Bench>() {
    let mut stage = Stage::<S>::new();
    let grant = stage.grant(5, &[("a/b", Mode::Exclusive)]);
    for tenant in ["other", "default-2"] {
        let realm = stage.realm(tenant);
        let high = ModeMarks::of(Mode::Exclusive, Fence::new(99).unwrap());
        let raise = |marks: &mut dyn ringfence_guard::Marks<Error = S::Error>| {
            marks.raise(&realm, &"a/b".parse().unwrap(), &high)
        };
        stage.store.observe(raise).unwrap();
    }
    assert_eq!(stage.write(&grant, "a/b", 1), Ok(()));

    // A grant that a verifier of another tenant took is none for this guard.
    let mut claims = stage.cluster.claims(200, &[("a/b", Mode::Exclusive)]);
    claims.tenant = "other".parse().unwrap();
    let token = stage.cluster.sign(&claims);
    assert!(stage.guard.authenticate_cached(&token).is_err());
    let keys = Keys::pinned(stage.cluster.id, &stage.cluster.jwks()).unwrap();
    let others = Verifier::new(Arc::new(keys), "other".parse().unwrap());
    let foreign = others.verify_cached(&token).unwrap();
    assert_eq!(stage.write(&foreign, "a/b", 2), Err(ErrorCode::Unauthenticated));
    assert!(stage.guard.observe(&mut stage.store, &foreign).is_err());
    assert_eq!(stage.store.value(), 1);
}

fn a_later_life_of_the_cluster_ends_all_grants_of_the_one_before<S: Bench>() {
    let mut stage = Stage::<S>::new();
    let before = stage.grant(5, &[("a/b", Mode::Exclusive)]);
    assert_eq!(stage.write(&before, "a/b", 1), Ok(()));
    stage.cluster.incarnation = Incarnation::from_bits(7);
    let after = stage.grant(1 << 40, &[("x/y", Mode::Exclusive)]);
    assert_eq!(stage.write(&after, "x/y", 2), Ok(()));
    assert_eq!(stage.write(&before, "a/b", 3), Err(ErrorCode::StaleFence));
    let elsewhere = stage.grant((1 << 40) + 1, &[("x/z", Mode::Exclusive)]);
    assert_eq!(stage.write(&elsewhere, "x/z", 4), Ok(()));
    assert_eq!(stage.write(&after, "x/y", 5), Ok(()));
}

fn the_present_life_can_not_be_turned_back<S: Bench>() {
    let mut stage = Stage::<S>::new();
    let before = stage.grant(5, &[("a/b", Mode::Exclusive)]);
    let before_too = stage.grant(9, &[("c/d", Mode::Exclusive)]);
    stage.cluster.incarnation = Incarnation::from_bits(7);
    let after = stage.grant(1 << 40, &[("x/y", Mode::Exclusive)]);
    stage.guard.observe(&mut stage.store, &after).unwrap();
    for late in [&before, &before_too] {
        stage.guard.observe(&mut stage.store, late).unwrap();
    }
    assert_eq!(stage.write(&after, "x/y", 1), Ok(()));
    assert_eq!(stage.write(&before_too, "c/d", 2), Err(ErrorCode::StaleFence));
}

fn a_grant_that_ran_out_is_refused_or_not_as_the_service_chose<S: Bench>() {
    let mut stage = Stage::<S>::new();
    let grant = stage.grant(5, &[("a/b", Mode::Exclusive)]);
    assert_eq!(grant.claims().exp, NOW_S + 10);
    stage.clock.advance_ms(14_999);
    assert_eq!(stage.write(&grant, "a/b", 1), Ok(()), "within 5 s of leeway");
    stage.clock.advance_ms(1);
    assert_eq!(stage.write(&grant, "a/b", 2), Err(ErrorCode::GrantExpired));
    stage.guard = stage.guard.clone().with_expiry(Expiry::OrderOnly);
    assert_eq!(stage.write(&grant, "a/b", 3), Ok(()));
    let newer = stage.grant(6, &[("a/**", Mode::Shared)]);
    stage.guard.observe(&mut stage.store, &newer).unwrap();
    assert_eq!(stage.write(&grant, "a/b", 4), Err(ErrorCode::StaleFence));
}

fn a_proposal_writes_nothing<S: Bench>() {
    let mut stage = Stage::<S>::new();
    let mut claims = stage.cluster.claims(5, &[("a/b", Mode::Exclusive)]);
    claims.authority = ringfence_guard::protocol::body::Authority::Propose;
    let grant = stage.guard.authenticate_cached(&stage.cluster.sign(&claims)).unwrap();
    assert_eq!(stage.write(&grant, "a/b", 1), Err(ErrorCode::ActionNotPermitted));
}

#[test]
fn a_grant_of_another_cluster_tenant_type_or_key_is_not_believed() {
    let cluster = Cluster::new();
    let (guard, _) = cluster.guard();
    let claims = cluster.claims(5, &[("a/b", Mode::Exclusive)]);
    let mut other_cluster = claims.clone();
    other_cluster.iss = ringfence_guard::protocol::id::ClusterId::from_bits(9);
    let mut other_tenant = claims.clone();
    other_tenant.tenant = "other".parse().unwrap();
    let stranger = ringfence_guard::protocol::jws::Signer25519::from_seed(&[9; 32]);
    for token in [
        cluster.sign(&other_cluster),
        cluster.sign(&other_tenant),
        cluster.signer.sign("ringfence-run+jwt", &claims).unwrap(),
        stranger.sign("ringfence-grant+jwt", &claims).unwrap(),
        "nonsense".to_owned(),
        String::new(),
    ] {
        let refusal = guard.authenticate_cached(&token).unwrap_err();
        assert!(matches!(refusal.reason, Reason::Unauthenticated(_)), "{token}");
        assert_eq!(Problem::from(refusal).status, 401);
    }
    assert!(guard.authenticate_cached(&cluster.sign(&claims)).is_ok());
}

#[test]
fn a_failure_of_the_store_shows_nothing_of_the_inside() {
    let secret = rusqlite::Error::InvalidColumnName("internal_table.secret".to_owned());
    let problem = GuardError::from(secret).into_problem();
    assert_eq!((problem.status, problem.error), (500, ErrorCode::Internal));
    assert!(!serde_json::to_string(&problem).unwrap().contains("secret"));
}
