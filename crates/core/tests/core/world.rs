//! Small worlds to test in: names, tokens, and short ways to say what is asked for.
use ringfence_core::{
    Actor, ClientRequest, Command, Genesis, Operation, Outcome, Refusal, Reply, Request, RequestKey, State,
};
use ringfence_protocol::{
    LeaseId, Mode, RunId, Timestamp, TokenId,
    body::{Actions, Authority, Lease, WriteSetEntry},
    id::{ClusterId, Incarnation},
};
use std::collections::BTreeMap;

pub(crate) const GRACE_MS: u64 = 1000;

/// A state with clocks that a test turns by hand, and numbers for new ids.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) state: State,
    pub(crate) log_ms: u64,
    pub(crate) wall_ms: u64,
    pub(crate) next: u128,
}

pub(crate) fn entry(scope: &str, mode: Mode) -> WriteSetEntry {
    WriteSetEntry { scope: scope.parse().unwrap(), mode, actions: Actions::ANY }
}

pub(crate) fn key(text: &str, fingerprint: u8) -> RequestKey {
    RequestKey { key: text.to_owned(), fingerprint: [fingerprint; 32] }
}

impl World {
    /// A cluster that has begun.
    pub(crate) fn new() -> Self {
        let mut world = Self { state: State::new(), log_ms: 0, wall_ms: 1_700_000_000_000, next: 1 };
        let genesis = Genesis {
            cluster: ClusterId::from_bits(1),
            incarnation: Incarnation::from_bits(1),
            grace_ms: GRACE_MS,
        };
        world.apply(Request::Genesis(genesis)).reply.unwrap();
        world
    }

    pub(crate) fn id(&mut self) -> u128 {
        self.next += 1;
        self.next
    }

    pub(crate) fn apply(&mut self, request: Request) -> Outcome {
        let wall = Timestamp::from_unix_ms(self.wall_ms);
        let command = Command { log_ms: self.log_ms, wall, request };
        let command = Command::from_bytes(&command.to_bytes()).unwrap();
        self.state.apply(command)
    }

    pub(crate) fn ask(&mut self, actor: Actor, key: Option<RequestKey>, operation: Operation) -> Outcome {
        self.apply(Request::Client(ClientRequest { actor, key, operation }))
    }

    pub(crate) fn tick(&mut self, ms: u64) -> Outcome {
        self.log_ms += ms;
        self.apply(Request::Tick)
    }

    /// A token of a role in a tenant.
    pub(crate) fn token(&mut self, tenant: &str, role: &str, name: &str) -> Actor {
        let id = TokenId::from_bits(self.id());
        let mut secret_hash = [0; 32];
        secret_hash[..16].copy_from_slice(&id.bits().to_be_bytes());
        let operation = Operation::CreateToken {
            id,
            tenant: Some(tenant.parse().unwrap()),
            role: role.parse().unwrap(),
            name: name.parse().unwrap(),
            secret_hash,
        };
        self.ask(Actor::Operator, None, operation).reply.unwrap();
        Actor::Token(id)
    }

    pub(crate) fn create_run(&mut self, by: Actor, lifetime_ms: u64) -> RunId {
        let id = RunId::from_bits(self.id());
        self.ask(by, None, run_operation(id, None, lifetime_ms)).reply.unwrap();
        id
    }

    pub(crate) fn acquire(
        &mut self,
        run: RunId,
        entries: &[WriteSetEntry],
        ttl_ms: u64,
    ) -> Result<Lease, Refusal> {
        let id = LeaseId::from_bits(self.id());
        self.ask(Actor::Run(run), None, acquire_operation(id, None, entries, ttl_ms))
            .reply
            .map(|done| lease_of(done.reply))
    }

    pub(crate) fn exclusive(&mut self, run: RunId, scope: &str, ttl_ms: u64) -> Result<Lease, Refusal> {
        self.acquire(run, &[entry(scope, Mode::Exclusive)], ttl_ms)
    }

    pub(crate) fn renew(&mut self, actor: Actor, lease: LeaseId) -> Result<Lease, Refusal> {
        self.ask(actor, None, Operation::Renew { lease }).reply.map(|done| lease_of(done.reply))
    }

    pub(crate) fn release(&mut self, actor: Actor, lease: LeaseId) -> Result<Lease, Refusal> {
        self.ask(actor, None, Operation::Release { lease }).reply.map(|done| lease_of(done.reply))
    }
}

pub(crate) fn run_operation(id: RunId, allow: Option<&[&str]>, lifetime_ms: u64) -> Operation {
    Operation::CreateRun {
        id,
        name: "test".parse().unwrap(),
        labels: BTreeMap::new(),
        allow: allow.map(|scopes| scopes.iter().map(|scope| scope.parse().unwrap()).collect()),
        authority: Authority::Write,
        lifetime_ms,
    }
}

pub(crate) fn acquire_operation(
    id: LeaseId,
    run: Option<RunId>,
    entries: &[WriteSetEntry],
    ttl_ms: u64,
) -> Operation {
    Operation::Acquire { id, run, write_set: entries.to_vec(), ttl_ms, purpose: None }
}

pub(crate) fn lease_of(reply: Reply) -> Lease {
    let Reply::Lease(granted) = reply else { panic!("no lease: {reply:?}") };
    granted.lease
}
