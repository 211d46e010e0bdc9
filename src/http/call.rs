//! One authenticated request on its way: to the log as a write, or to the state as a read.
//!
//! A write is a checked operation with the credential it came with; what it may do is decided when it is applied. A
//! read is linearizable unless it asks for `consistency=stale`, and its credential is judged on the very state that it
//! is answered from.
use super::{
    answer::Failure,
    app::{App, Life},
    auth::Session,
    edge::Entry,
    metrics,
    query::Parameters,
};
use crate::clock;
use axum::{
    extract::FromRequestParts,
    http::{Method, request::Parts},
};
use ringfence_core::{Actor, ClientRequest, Now, Operation, Refusal, Reply, RequestKey, State, Subject};
use ringfence_protocol::{
    ErrorCode, LeaseId, RunId, Timestamp, TokenId,
    idempotency::{IDEMPOTENCY_KEY_HEADER, IdempotencyKey},
};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// How new the state has to be that a read is answered from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consistency {
    /// At least as new as everything that was acknowledged before the request arrived.
    Linearizable,
    /// This node's own, whatever it has.
    Stale,
}

/// One authenticated request.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) app: Arc<App>,
    session: Session,
    entry: Entry,
    method: Method,
    path: String,
    query: Option<String>,
    key: Option<IdempotencyKey>,
}

/// What came of a write.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) reply: Reply,
    /// The log index at which it was applied.
    pub(super) index: u64,
    /// Whether an earlier request with the same key did it; `None` where no key was sent.
    pub(super) replayed: Option<bool>,
}

impl FromRequestParts<Arc<App>> for Call {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let missing = |what| Failure::internal("the edge did not leave its mark on a request", what);
        let session = *parts.extensions.get::<Session>().ok_or_else(|| missing("session"))?;
        let entry = parts.extensions.get::<Entry>().ok_or_else(|| missing("entry"))?.clone();
        let key = if entry.route.keyed { key(parts)? } else { None };
        Ok(Self {
            app: Arc::clone(app),
            session,
            entry,
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().map(str::to_owned),
            key,
        })
    }
}

/// The `Idempotency-Key`, if there is one. Two of them are refused: nobody can say which one is meant.
fn key(parts: &Parts) -> Result<Option<IdempotencyKey>, Failure> {
    let invalid = |detail: String| Failure::new(ErrorCode::IdempotencyKeyInvalid, detail);
    let mut values = parts.headers.get_all(IDEMPOTENCY_KEY_HEADER).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(invalid("send one Idempotency-Key".to_owned()));
    }
    IdempotencyKey::from_header(value.as_bytes()).map(Some).map_err(|error| invalid(error.to_string()))
}

impl Call {
    /// When it arrived, by the wall clock.
    pub(super) const fn received(&self) -> Timestamp {
        self.entry.received
    }

    /// The life of the cluster that its credential is of.
    pub(super) const fn life(&self) -> Life {
        self.session.life
    }

    /// Its query parameters; only those that the route knows.
    pub(super) fn parameters(&self) -> Result<Parameters, Failure> {
        Parameters::parse(self.query.as_deref())
    }

    /// The run that an operation is for where the body names none: the caller's own.
    pub(super) const fn effective_run(&self, named: Option<RunId>) -> Option<RunId> {
        match (named, self.session.actor) {
            (None, Actor::Run(run)) => Some(run),
            (named, Actor::Run(_) | Actor::Token(_) | Actor::Operator) => named,
        }
    }

    /// Puts an operation into the log and waits for what it gave.
    ///
    /// From here on the request may take effect, even if nobody waits any more.
    pub(super) async fn write(&self, operation: Operation) -> Result<Written, Failure> {
        operation.check().map_err(Failure::refused)?;
        let key = self.key.as_ref().map(|key| RequestKey {
            key: key.as_str().to_owned(),
            fingerprint: self.fingerprint(&operation),
        });
        let is_keyed = key.is_some();
        let request = ClientRequest { actor: self.session.actor, key, operation };
        self.entry.progress.proposed();
        let (outcome, index) = self.app.consensus.propose(request).await?;
        let done = outcome.reply.map_err(|refusal| Failure::refused(refusal).at(index))?;
        if done.replayed {
            metrics::replay(self.entry.route.path);
        }
        Ok(Written { reply: done.reply, index, replayed: is_keyed.then_some(done.replayed) })
    }

    /// What a key is bound to: method, path, and the checked command with the run that it is for. What differs from
    /// one attempt to the next without the caller's doing, a drawn id or secret, is left out.
    fn fingerprint(&self, operation: &Operation) -> [u8; 32] {
        let meant = without_what_was_drawn(operation.clone(), |run| self.effective_run(run));
        let command = postcard::to_allocvec(&meant)
            .expect("an operation has no map with keys that postcard can't write");
        let mut hash = Sha256::new();
        for part in [b"ringfence/request/1", self.method.as_str().as_bytes(), self.path.as_bytes()] {
            hash.update(part);
            hash.update(b"\n");
        }
        hash.update(command);
        hash.finalize().into()
    }

    /// Reads the state with the caller's credential; gives back the index of the state too.
    pub(super) async fn read<T>(
        &self,
        consistency: Consistency,
        read: impl FnOnce(&State, &Subject, Now) -> Result<T, Refusal>,
    ) -> Result<(T, u64), Failure> {
        let confirmed_ms = match consistency {
            Consistency::Linearizable => Some(self.app.confirm().await?.log_ms),
            Consistency::Stale => None,
        };
        let wall = clock::wall();
        self.app.consensus.read(|state, index| {
            let log_ms = confirmed_ms.unwrap_or(0).max(state.log_ms());
            let read = state
                .subject(&self.session.actor)
                .and_then(|subject| read(state, &subject, Now { log_ms, wall }));
            read.map(|value| (value, index)).map_err(|refusal| Failure::refused(refusal).at(index))
        })
    }
}

fn without_what_was_drawn(
    mut operation: Operation,
    effective: impl Fn(Option<RunId>) -> Option<RunId>,
) -> Operation {
    match &mut operation {
        Operation::CreateRun { id, .. } => *id = RunId::from_bits(0),
        Operation::Acquire { id, run, .. } => {
            *id = LeaseId::from_bits(0);
            *run = effective(*run);
        }
        Operation::CreateToken { id, secret_hash, .. } => {
            *id = TokenId::from_bits(0);
            *secret_hash = [0; 32];
        }
        Operation::EndRun { .. }
        | Operation::Renew { .. }
        | Operation::Release { .. }
        | Operation::RevokeToken { .. } => {}
    }
    operation
}
