//! Keys that are fetched: when the cluster is asked, and when it isn't.
use crate::cluster::Cluster;
use ringfence_guard::{
    Guard, Keys, Verifier,
    clock::ManualClock,
    keys::{FetchError, KeysError, REFETCH_INTERVAL},
    protocol::{
        Mode,
        id::ClusterId,
        jws::{Jwks, Signer25519},
    },
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// What the cluster publishes at the moment (nothing: it can't be reached), and how often it was asked.
#[derive(Clone, Default)]
struct Published {
    jwks: Arc<Mutex<Option<Jwks>>>,
    asked: Arc<AtomicUsize>,
}

impl Published {
    fn set(&self, jwks: Option<Jwks>) {
        *self.jwks.lock().unwrap() = jwks;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    async fn fetch(self) -> Result<Jwks, FetchError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        let published = self.jwks.lock().unwrap().clone();
        published.ok_or_else(|| FetchError::new("connection refused"))
    }
}

struct Stage {
    cluster: Cluster,
    published: Published,
    clock: Arc<ManualClock>,
    keys: Arc<Keys>,
    guard: Guard,
}

impl Stage {
    async fn new() -> Self {
        let cluster = Cluster::new();
        let published = Published::default();
        published.set(Some(cluster.jwks()));
        let clock = Arc::new(ManualClock::at_unix_s(crate::cluster::NOW_S));
        let source = published.clone();
        let keys = Keys::from_source(move || source.clone().fetch()).await.unwrap();
        let keys = Arc::new(keys.with_clock(clock.clone()));
        let guard = Guard::new(Verifier::new(keys.clone(), "default".parse().unwrap()));
        Self { cluster, published, clock, keys, guard }
    }

    /// The cluster takes another key to sign with.
    fn rotate(&mut self, seed: u8) {
        self.cluster.signer = Signer25519::from_seed(&[seed; 32]);
    }

    fn token(&self) -> String {
        self.cluster.token(5, &[("a/b", Mode::Exclusive)])
    }
}

#[tokio::test]
async fn a_known_key_is_never_asked_for_again() {
    let stage = Stage::new().await;
    assert_eq!(stage.keys.cluster(), stage.cluster.id);
    for _ in 0..10 {
        assert!(stage.guard.authenticate(&stage.token()).await.is_ok());
    }
    assert_eq!(stage.published.asked(), 1);
}

#[tokio::test]
async fn a_new_key_is_fetched_when_a_grant_first_names_it() {
    let mut stage = Stage::new().await;
    stage.rotate(8);
    stage.published.set(Some(stage.cluster.jwks()));
    assert!(stage.guard.authenticate_cached(&stage.token()).is_err());
    assert!(stage.guard.authenticate(&stage.token()).await.is_ok());
    assert_eq!(stage.published.asked(), 2);
}

#[tokio::test]
async fn requests_that_need_the_same_new_key_wait_for_one_fetch() {
    let mut stage = Stage::new().await;
    stage.rotate(8);
    stage.published.set(Some(stage.cluster.jwks()));
    let token = stage.token();
    let (a, b) = (stage.guard.authenticate(&token), stage.guard.authenticate(&token));
    let (a, b) = tokio::join!(a, b);
    assert!(a.is_ok() && b.is_ok());
    assert_eq!(stage.published.asked(), 2);
}

#[tokio::test]
async fn made_up_keys_do_not_make_the_service_ask_more_than_once_an_interval() {
    let mut stage = Stage::new().await;
    let good = stage.token();
    for seed in 20..40 {
        stage.rotate(seed);
        assert!(stage.guard.authenticate(&stage.token()).await.is_err());
    }
    assert_eq!(stage.published.asked(), 2);
    stage.clock.advance_ms(u64::try_from(REFETCH_INTERVAL.as_millis()).unwrap());
    assert!(stage.guard.authenticate(&stage.token()).await.is_err());
    assert_eq!(stage.published.asked(), 3);
    assert!(stage.guard.authenticate(&good).await.is_ok());
}

#[tokio::test]
async fn the_last_good_keys_stay_when_the_cluster_is_gone_or_answers_nonsense() {
    let mut stage = Stage::new().await;
    let good = stage.token();
    let foreign = Jwks { cluster: Some(ClusterId::from_bits(99)), ..stage.cluster.jwks() };
    for answer in [None, Some(Jwks::default()), Some(foreign)] {
        stage.published.set(answer);
        assert!(stage.keys.refresh().await.is_err());
        stage.clock.advance_ms(60_000);
        stage.rotate(8);
        assert!(stage.guard.authenticate(&stage.token()).await.is_err());
        assert!(stage.guard.authenticate(&good).await.is_ok());
    }
}

#[tokio::test]
async fn a_key_that_was_taken_out_is_forgotten_at_the_next_refresh() {
    let mut stage = Stage::new().await;
    let good = stage.token();
    stage.rotate(8);
    stage.published.set(Some(stage.cluster.jwks()));
    stage.keys.refresh().await.unwrap();
    assert!(stage.guard.authenticate_cached(&good).is_err());
}

#[tokio::test]
async fn a_key_set_that_does_not_name_its_cluster_pins_nothing() {
    let unnamed = Jwks { cluster: None, ..Cluster::new().jwks() };
    let source = move || std::future::ready(Ok(unnamed.clone()));
    assert!(matches!(Keys::from_source(source).await, Err(KeysError::NoCluster)));
}
