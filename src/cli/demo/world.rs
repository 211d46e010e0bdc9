//! Who plays: runs with their credentials, the leases they get, and the policy that they write.
use super::wire::{Request, Response, say};
use crate::cli::{
    failure::Failure,
    local::{ClusterFile, LocalNode},
};
use crate::ids;
use ringfence_protocol::Role;
use serde_json::json;

/// The policy that is played with.
pub(super) const POLICY: &str = "prod-alerts";
/// Longer than any scene takes, so that no lease ends but by what is played.
pub(super) const LONG_TTL_MS: u64 = 60_000;

/// The cluster and the target.
#[derive(Debug)]
pub(super) struct World {
    /// The nodes that live.
    pub(super) nodes: Vec<LocalNode>,
    orchestrator: String,
    /// The target's address.
    pub(super) target: String,
}

/// One run.
#[derive(Debug)]
pub(super) struct Actor {
    pub(super) name: &'static str,
    pub(super) run: String,
    pub(super) token: String,
}

/// A lease that a run was granted.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) lease: String,
    pub(super) fence: u64,
    pub(super) grant: String,
}

impl World {
    pub(super) fn new(file: &ClusterFile, target: String) -> Result<Self, Failure> {
        let missing = || Failure::Local("cluster.json has no orchestrator's token".to_owned());
        let orchestrator = file.token(Role::Orchestrator).ok_or_else(missing)?;
        Ok(Self { nodes: file.nodes.clone(), orchestrator, target })
    }

    /// A path at the first node that lives.
    pub(super) fn api(&self, path: &str) -> String {
        let node = self.nodes.first().map(|node| node.api.as_str()).unwrap_or_default();
        format!("{node}{path}")
    }

    /// The policy at the target.
    pub(super) fn policy(&self) -> String {
        format!("{}/v1/notification-policies/{POLICY}", self.target)
    }

    /// A request of the orchestrator.
    pub(super) fn orchestrated(&self, method: &'static str, path: &str) -> Request {
        Request::new(method, self.api(path)).bearer(&self.orchestrator)
    }

    /// Creates a run.
    ///
    /// # Errors
    /// Where it was not created.
    pub(super) async fn actor(&self, name: &'static str, task: &str) -> Result<Actor, Failure> {
        let create = self.orchestrated("POST", "/v1/runs").json(json!({"name": task}));
        let run = expect(create.send().await?, 201, "creating a run")?;
        say(&format!("   {name} is {}, \"{task}\"", run.text("id")))?;
        Ok(Actor { name, run: run.text("id").to_owned(), token: run.text("token").to_owned() })
    }

    /// Asks for a lease and shows what comes of it.
    ///
    /// # Errors
    /// Where there is no answer.
    pub(super) async fn acquire(
        &self,
        actor: &Actor,
        scope: &str,
        mode: &str,
        ttl_ms: u64,
    ) -> Result<Response, Failure> {
        self.wish(actor, scope, mode, ttl_ms).show_when_served(actor.name).await
    }

    /// The request for a lease, with a key of its own.
    pub(super) fn wish(&self, actor: &Actor, scope: &str, mode: &str, ttl_ms: u64) -> Request {
        let body = json!({"write_set": [{"scope": scope, "mode": mode}], "ttl_ms": ttl_ms});
        Request::new("POST", self.api("/v1/leases"))
            .bearer(&actor.token)
            .with("Idempotency-Key", fresh_key())
            .json(body)
    }

    /// Asks for a lease that nobody else holds.
    ///
    /// # Errors
    /// Where it isn't granted.
    pub(super) async fn hold(&self, actor: &Actor, scope: &str, mode: &str) -> Result<Held, Failure> {
        Held::from(&expect(self.acquire(actor, scope, mode, LONG_TTL_MS).await?, 201, "acquiring")?)
    }

    /// Gives a lease back, so that the next scene begins afresh.
    ///
    /// # Errors
    /// Where that is refused.
    pub(super) async fn release(&self, actor: &Actor, held: &Held) -> Result<(), Failure> {
        let url = self.api(&format!("/v1/leases/{}", held.lease));
        let answer = Request::new("DELETE", url).bearer(&actor.token).send().await?;
        expect(answer, 200, "releasing").map(drop)
    }

    /// A write of the policy under a grant, if it is still at the version that was read.
    pub(super) fn patch(&self, held: &Held, read: &str, body: serde_json::Value) -> Request {
        write("PATCH", self.policy(), &held.grant).with("If-Match", read).json(body)
    }
}

/// A write under a grant, with a key of its own.
pub(super) fn write(method: &'static str, url: String, grant: &str) -> Request {
    Request::new(method, url).with("Ringfence-Grant", grant).with("Idempotency-Key", fresh_key())
}

/// A new Idempotency-Key, as the header is written.
pub(super) fn fresh_key() -> String {
    format!("\"demo-{:032x}\"", ids::ulid_bits())
}

impl Held {
    /// Reads the answer that granted a lease.
    ///
    /// # Errors
    /// Where there is no grant in it.
    pub(super) fn from(answer: &Response) -> Result<Self, Failure> {
        let fence = answer.body["fence"].as_u64();
        let fence = fence.ok_or_else(|| Failure::Local("a lease came without a fence".to_owned()))?;
        Ok(Self { lease: answer.text("id").to_owned(), fence, grant: answer.text("grant").to_owned() })
    }
}

/// Takes an answer that must have this status for the scene to go on.
///
/// # Errors
/// Where it hasn't.
pub(super) fn expect(answer: Response, status: u16, what: &str) -> Result<Response, Failure> {
    if answer.status == status {
        Ok(answer)
    } else {
        Err(Failure::Local(format!("{what} came to {} ({})", answer.verdict(), answer.text("detail"))))
    }
}
