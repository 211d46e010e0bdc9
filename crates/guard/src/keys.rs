//! The keys that grants are checked with: a cached JWKS, pinned to one cluster.
//!
//! Verification is offline: the cluster is asked for its keys only when a token names one that isn't known, at
//! most once every [`REFETCH_INTERVAL`], and what is known stays in use for as long as that fails. This crate
//! has no HTTP client; the service brings the fetch as a [`KeySource`].
use crate::clock::{Clock, SystemClock};
use ringfence_protocol::{
    claims::{GRANT_TYPE, GrantClaims},
    id::ClusterId,
    jws::{Jwks, JwsError, KeySet},
};
use std::{
    error::Error,
    fmt,
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

/// The least time between the starts of two fetches that unknown keys cause: whoever sends made-up tokens does
/// not make this service flood the cluster.
pub const REFETCH_INTERVAL: Duration = Duration::from_secs(5);

/// A fetch under way.
pub type Fetch<'a> = Pin<Box<dyn Future<Output = Result<Jwks, FetchError>> + Send + 'a>>;

/// Where the keys come from: `GET /.well-known/jwks.json` of any node. Any `Fn() -> Future` is one.
pub trait KeySource: Send + Sync {
    /// Fetches the cluster's keys. Must end in bounded time: requests wait for it.
    fn fetch(&self) -> Fetch<'_>;
}

impl<F, Fetching> KeySource for F
where
    F: Fn() -> Fetching + Send + Sync,
    Fetching: Future<Output = Result<Jwks, FetchError>> + Send + 'static,
{
    fn fetch(&self) -> Fetch<'_> {
        Box::pin(self())
    }
}

/// Why the keys could not be fetched.
#[derive(Debug, thiserror::Error)]
#[error("the cluster's keys could not be fetched")]
pub struct FetchError(#[source] Box<dyn Error + Send + Sync>);

impl FetchError {
    /// Takes whatever went wrong.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(source.into())
    }
}

/// Why a key set is not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// It has no key that can verify a grant.
    #[error("the key set has no Ed25519 key")]
    NoKeys,
    /// It names another cluster than the pinned one.
    #[error("the key set is of {found}, not of {pinned}")]
    OtherCluster {
        /// The cluster that this service trusts.
        pinned: ClusterId,
        /// The cluster that the key set names.
        found: ClusterId,
    },
    /// It does not say which cluster it is of, and nobody else did.
    #[error("the key set does not name its cluster")]
    NoCluster,
    /// It could not be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

/// The keys of one cluster, shared by all verifiers of a service.
pub struct Keys {
    cluster: ClusterId,
    set: RwLock<Arc<KeySet>>,
    source: Option<Box<dyn KeySource>>,
    clock: Arc<dyn Clock>,
    /// When the last fetch for an unknown key began. Held while one runs, so that all who need it wait for one.
    last_fetch: tokio::sync::Mutex<Option<Duration>>,
}

impl Keys {
    /// These keys of this cluster and no others.
    ///
    /// # Errors
    /// [`KeysError::NoKeys`], or [`KeysError::OtherCluster`] where the set names another one.
    pub fn pinned(cluster: ClusterId, jwks: &Jwks) -> Result<Self, KeysError> {
        Ok(Self {
            cluster,
            set: RwLock::new(Arc::new(checked(cluster, jwks)?)),
            source: None,
            clock: Arc::new(SystemClock::default()),
            last_fetch: tokio::sync::Mutex::default(),
        })
    }

    /// Fetches the keys once and pins the cluster that they name. What is trusted here for good is the first
    /// answer: where the way to the cluster isn't safe, use [`Keys::pinned`] with an id from the deployment.
    ///
    /// # Errors
    /// [`KeysError`] where the fetch fails or the set can't be used.
    pub async fn from_source(source: impl KeySource + 'static) -> Result<Self, KeysError> {
        let jwks = source.fetch().await?;
        let cluster = jwks.cluster.ok_or(KeysError::NoCluster)?;
        Ok(Self::pinned(cluster, &jwks)?.fetched_from(source))
    }

    /// Asks `source` when a token names a key that isn't known.
    #[must_use]
    pub fn fetched_from(mut self, source: impl KeySource + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// Takes the time between fetches from this clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The cluster that is trusted.
    #[must_use]
    pub const fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Fetches the keys now, whenever the last fetch was. A service that calls it every few minutes learns of
    /// new keys before they sign, and forgets those that were taken out.
    ///
    /// # Errors
    /// [`KeysError`]; the keys stay as they were.
    pub async fn refresh(&self) -> Result<(), KeysError> {
        let Some(source) = &self.source else {
            return Ok(());
        };
        let set = checked(self.cluster, &source.fetch().await?)?;
        *self.set.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
        Ok(())
    }

    /// Checks a grant's signature, fetching the keys where it names an unknown one.
    pub(crate) async fn verify(&self, token: &str) -> Result<GrantClaims, JwsError> {
        let tried = self.current();
        match tried.verify(GRANT_TYPE, token) {
            Err(JwsError::UnknownKey) if self.refetch_after(&tried).await => self.verify_cached(token),
            outcome => outcome,
        }
    }

    /// Checks a grant's signature with the keys at hand.
    pub(crate) fn verify_cached(&self, token: &str) -> Result<GrantClaims, JwsError> {
        self.current().verify(GRANT_TYPE, token)
    }

    fn current(&self) -> Arc<KeySet> {
        self.set.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether there may be other keys now than those that were tried.
    async fn refetch_after(&self, tried: &Arc<KeySet>) -> bool {
        let mut last_fetch = self.last_fetch.lock().await;
        if !Arc::ptr_eq(tried, &self.current()) {
            return true;
        }
        let now = self.clock.elapsed();
        if last_fetch.is_some_and(|last| now.saturating_sub(last) < REFETCH_INTERVAL) {
            return false;
        }
        // Noted before the fetch: a caller that goes away in the middle of it does not make the next one free.
        *last_fetch = Some(now);
        self.source.is_some() && self.refresh().await.is_ok()
    }
}

fn checked(pinned: ClusterId, jwks: &Jwks) -> Result<KeySet, KeysError> {
    if let Some(found) = jwks.cluster.filter(|found| *found != pinned) {
        return Err(KeysError::OtherCluster { pinned, found });
    }
    let set = KeySet::new(jwks);
    if set.is_empty() { Err(KeysError::NoKeys) } else { Ok(set) }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("cluster", &self.cluster)
            .field("keys", &self.current())
            .finish_non_exhaustive()
    }
}
