//! The state, and the one way to change it.
use crate::{
    command::{Command, Genesis, Operation, Request},
    index::ScopeIndex,
    outcome::{Done, Event, Outcome, Refusal, Reply},
    records::{Due, KeyId, LeaseRecord, RequestRecord, RunRecord, TenantRecord, TokenRecord},
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};
use ringfence_protocol::{Fence, LeaseId, RunId, Tenant, Timestamp, TokenId};
use serde::{Deserialize, Serialize};

/// All that the cluster knows. Two that have applied the same commands are equal, byte for byte.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub(crate) genesis: Option<Genesis>,
    pub(crate) log_ms: u64,
    pub(crate) term: u64,
    pub(crate) last_fence: u64,
    pub(crate) live_leases: u64,
    pub(crate) tenants: BTreeMap<Tenant, TenantRecord>,
    pub(crate) runs: BTreeMap<RunId, RunRecord>,
    pub(crate) leases: BTreeMap<LeaseId, LeaseRecord>,
    pub(crate) tokens: BTreeMap<TokenId, TokenRecord>,
    pub(crate) secrets: BTreeMap<[u8; 32], TokenId>,
    pub(crate) keys: BTreeMap<Arc<KeyId>, RequestRecord>,
    pub(crate) deadlines: BTreeSet<(u64, Due)>,
    /// Ended leases and runs that are still remembered, and until when: in the order in which they ended.
    pub(crate) ended_leases: BTreeSet<(u64, LeaseId)>,
    pub(crate) ended_runs: BTreeSet<(u64, RunId)>,
    /// The entries of the write sets of all ended leases.
    pub(crate) ended_entries: u64,
}

/// How much there is of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Leases that are held.
    pub live_leases: u64,
    /// Leases that are over and still remembered.
    pub ended_leases: usize,
    /// Runs that may act.
    pub active_runs: u64,
    /// Tokens, revoked ones that are still remembered included.
    pub tokens: usize,
    /// Remembered idempotency keys.
    pub request_records: usize,
    /// The last fence that was taken.
    pub last_fence: u64,
}

impl State {
    /// The state before the first command.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies one entry of the log.
    ///
    /// Time moves first, and what is due ends; then the request is judged. A refused one changes nothing else.
    pub fn apply(&mut self, command: Command) -> Outcome {
        let mut events = Vec::new();
        self.advance(command.log_ms, &mut events);
        let reply = match command.request {
            Request::Tick => Ok(nothing()),
            Request::Genesis(genesis) => self.begin(genesis),
            Request::Client(request) => self.serve(request, command.wall, &mut events),
        };
        Outcome { reply, events }
    }

    fn begin(&mut self, genesis: Genesis) -> Result<Done, Refusal> {
        if self.genesis.is_some() {
            return Err(Refusal::AlreadyBegun);
        }
        self.genesis = Some(genesis);
        Ok(nothing())
    }

    fn serve(
        &mut self,
        request: crate::command::ClientRequest,
        wall: Timestamp,
        events: &mut Vec<Event>,
    ) -> Result<Done, Refusal> {
        if self.genesis.is_none() {
            return Err(Refusal::NotReady);
        }
        let subject = self.subject(&request.actor)?;
        subject.need(request.operation.right())?;
        request.operation.check()?;
        let ask = crate::ask::Ask { subject, wall, key: request.key };
        match request.operation {
            Operation::CreateRun { id, name, labels, allow, authority, lifetime_ms } => {
                let wish = crate::runs::RunWish { id, name, labels, allow, authority, lifetime_ms };
                self.create_run(&ask, wish)
            }
            Operation::EndRun { run, revoke, reason } => self.end_run(&ask, run, revoke, &reason, events),
            Operation::Acquire { id, run, write_set, ttl_ms, purpose } => {
                let wish = crate::leases::LeaseWish { id, write_set, ttl_ms, purpose };
                self.acquire(&ask, run, wish, events)
            }
            Operation::Renew { lease } => self.renew(&ask, lease),
            Operation::Release { lease } => self.release(&ask, lease, events),
            Operation::CreateToken { id, tenant, role, name, secret_hash } => {
                let wish = crate::tokens::TokenWish { id, tenant, role, name, secret_hash };
                self.create_token(&ask, wish)
            }
            Operation::RevokeToken { id } => self.revoke_token(&ask, id),
        }
    }

    /// Takes the next fence.
    pub(crate) fn take_fence(&mut self) -> Fence {
        self.last_fence += 1;
        Fence::new(self.last_fence)
            .expect("grants stop 2^32 fences before the greatest, and ends are fewer than that")
    }

    pub(crate) fn tenant(&mut self, tenant: &Tenant) -> &mut TenantRecord {
        self.tenants.entry(tenant.clone()).or_default()
    }

    pub(crate) fn index(&self, tenant: &Tenant) -> Option<&ScopeIndex> {
        self.tenants.get(tenant).map(|tenant| &tenant.index)
    }

    /// How the cluster began; `None` before its first command.
    #[must_use]
    pub const fn identity(&self) -> Option<&Genesis> {
        self.genesis.as_ref()
    }

    /// The greatest log time that an entry has carried, in milliseconds.
    #[must_use]
    pub const fn log_ms(&self) -> u64 {
        self.log_ms
    }

    /// The term of the leader whose entries are being applied.
    #[must_use]
    pub const fn term(&self) -> u64 {
        self.term
    }

    /// When something is due next, in log time.
    #[must_use]
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let ends = self.deadlines.first().map(|(at, _)| *at);
        let leases = self.ended_leases.first().map(|(at, _)| *at);
        let runs = self.ended_runs.first().map(|(at, _)| *at);
        ends.into_iter().chain(leases).chain(runs).min()
    }

    /// How much there is of everything.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            live_leases: self.live_leases,
            ended_leases: self.ended_leases.len(),
            active_runs: self.tenants.values().map(|tenant| tenant.active_runs).sum(),
            tokens: self.tokens.len(),
            request_records: self.keys.len(),
            last_fence: self.last_fence,
        }
    }
}

pub(crate) const fn nothing() -> Done {
    Done { reply: Reply::Nothing, replayed: false }
}
