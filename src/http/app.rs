//! What all requests of a node share.
use super::{
    auth::{OperatorToken, SecretHash},
    credentials::Credentials,
    openapi,
};
use crate::raft::{Consensus, ReadPoint, Unavailable};
use metrics_exporter_prometheus::PrometheusHandle;
use ringfence_protocol::{
    id::{ClusterId, Incarnation},
    jws::{Jwk, Jwks, KeySet, Signer25519},
};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{sync::Semaphore, time::timeout};
use tokio_util::sync::CancellationToken;

/// How long the newest state is waited for: longer than any election, and within what a request may take.
const CONFIRM_LIMIT: Duration = Duration::from_secs(4);

/// What a node's API is told.
#[derive(Debug)]
pub struct Settings {
    /// The keys of run credentials and grants: the first signs, all verify. Not empty.
    pub signers: Vec<Signer25519>,
    /// SHA-256 of the operator's token.
    pub operator_token: SecretHash,
    /// Whether `/metrics` wants the operator's token.
    pub metrics_need_token: bool,
    /// After how long without an answer to a heartbeat a member is called unreachable: the longest election.
    pub unreachable_after: Duration,
    /// Bounds of what is taken at once.
    pub limits: Limits,
}

/// Bounds of what is taken at once; beyond them a request is refused before it costs anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests of the API that are being worked on; more are answered with `503 overloaded`.
    pub requests: usize,
    /// Connections; more wait in the listener's backlog.
    pub connections: usize,
    /// Run credentials whose signatures are remembered as checked.
    pub remembered_credentials: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { requests: 4096, connections: 16_384, remembered_credentials: 100_000 }
    }
}

/// Why an API can't be served with these settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Nothing to sign with.
    #[error("there is no signing key: name at least one file in signing.key_files")]
    NoSigningKey,
    /// The description of the API can't be written.
    #[error("the OpenAPI document can't be written: {0}")]
    Document(String),
}

/// One life of one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) cluster: ClusterId,
    pub(super) incarnation: Incarnation,
}

/// What all requests of a node share: consensus, keys, limits. It holds no state of the cluster.
pub struct App {
    pub(super) consensus: Consensus,
    pub(super) operator: OperatorToken,
    pub(super) keys: KeySet,
    pub(super) credentials: Credentials,
    pub(super) metrics: PrometheusHandle,
    pub(super) metrics_need_token: bool,
    pub(super) unreachable_after: Duration,
    pub(super) slots: Semaphore,
    pub(super) limits: Limits,
    /// Cancelled when the node begins to stop.
    pub(super) draining: CancellationToken,
    /// The OpenAPI document, written once.
    pub(super) document: String,
    signer: Signer25519,
    public: Vec<Jwk>,
    life: OnceLock<Life>,
}

impl App {
    /// Puts together what requests share. `draining` tells them that the node is about to stop.
    ///
    /// # Errors
    /// [`SettingsError`]
    pub fn new(
        consensus: Consensus,
        metrics: PrometheusHandle,
        draining: CancellationToken,
        settings: Settings,
    ) -> Result<Arc<Self>, SettingsError> {
        let public: Vec<Jwk> = settings.signers.iter().map(Signer25519::verifier).collect();
        let keys = KeySet::new(&Jwks { keys: public.clone(), cluster: None });
        let signer = settings.signers.into_iter().next().ok_or(SettingsError::NoSigningKey)?;
        Ok(Arc::new(Self {
            consensus,
            operator: OperatorToken::new(settings.operator_token),
            keys,
            credentials: Credentials::new(settings.limits.remembered_credentials),
            metrics,
            metrics_need_token: settings.metrics_need_token,
            unreachable_after: settings.unreachable_after,
            slots: Semaphore::new(settings.limits.requests),
            limits: settings.limits,
            draining,
            document: openapi::document().map_err(|error| SettingsError::Document(error.to_string()))?,
            signer,
            public,
            life: OnceLock::new(),
        }))
    }

    /// The key that signs.
    pub(super) const fn signer(&self) -> &Signer25519 {
        &self.signer
    }

    /// The public halves of all keys, with the cluster whose they are, once it has begun.
    pub(super) fn jwks(&self) -> Jwks {
        Jwks { keys: self.public.clone(), cluster: self.life().map(|life| life.cluster) }
    }

    /// The cluster's present life; `None` before this node's state has it. It never changes within a process.
    pub(super) fn life(&self) -> Option<Life> {
        if let Some(life) = self.life.get() {
            return Some(*life);
        }
        let read = self.consensus.read(|state, _| {
            state
                .identity()
                .map(|genesis| Life { cluster: genesis.cluster, incarnation: genesis.incarnation })
        })?;
        Some(*self.life.get_or_init(|| read))
    }

    /// Waits until this node's state is as new as everything acknowledged before; not for longer than a caller would.
    ///
    /// A leader that has lost the others may wait for their confirmation for good.
    pub(super) async fn confirm(&self) -> Result<ReadPoint, Unavailable> {
        timeout(CONFIRM_LIMIT, self.consensus.read_point()).await.unwrap_or(Err(Unavailable::NoLeader))
    }

    /// The revision of the state at a log index; `None` before the cluster has begun.
    pub(super) fn revision(&self, index: u64) -> Option<String> {
        self.life().map(|life| format!("{}-{index}", life.incarnation))
    }
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("limits", &self.limits).finish_non_exhaustive()
    }
}
