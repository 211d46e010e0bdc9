//! The calls of the API, typed. Each is one request; what repeating means is [`Call`]'s.
use crate::{
    answer::Answer,
    call::Call,
    client::Client,
    error::Error,
    query::{LeaseFilter, PageOf, Query, RunFilter},
};
use ringfence_protocol::{
    LeaseId, Reason, ResourceId, RunId, TokenId,
    body::{
        AcquireLease, ClusterStatus, CreateRun, CreateToken, EndRun, Lease, Page, RenewLease, Resource, Run,
        Token, Verdict, Verify,
    },
    idempotency::IdempotencyKey,
};

/// What a call gives.
type Result<T> = std::result::Result<Answer<T>, Error>;

fn keyed(call: Call, key: Option<IdempotencyKey>) -> Call {
    match key {
        Some(key) => call.key(key),
        None => call,
    }
}

/// All of these fail as [`Client::send`] does. Where a key can be given, `None` means a fresh one for this call; one of
/// the caller's own lets it repeat the call later, in another process even, and get the first outcome.
impl Client {
    /// Creates a run. Its credential is in `token`.
    pub async fn create_run(&self, run: &CreateRun, key: Option<IdempotencyKey>) -> Result<Run> {
        self.ask(keyed(Call::post("/v1/runs", run), key)).await
    }

    /// A run, with its live leases.
    pub async fn run(&self, run: RunId) -> Result<Run> {
        self.ask(self.read(&format!("/v1/runs/{run}"))).await
    }

    /// A page of runs.
    pub async fn runs(&self, filter: &RunFilter) -> Result<Page<Run>> {
        let query =
            Query::new("/v1/runs").with("state", filter.state.map(|state| state.as_str())).page(&filter.page);
        self.ask(Call::get(query.stale(self.stale_reads).build())).await
    }

    /// Ends a run and its leases.
    pub async fn end_run(&self, run: RunId, reason: Reason, key: Option<IdempotencyKey>) -> Result<Run> {
        let call = Call::post(format!("/v1/runs/{run}/end"), &EndRun { reason });
        self.ask(keyed(call, key)).await
    }

    /// Revokes a run's credential and ends its leases.
    pub async fn revoke_run(&self, run: RunId, reason: Reason, key: Option<IdempotencyKey>) -> Result<Run> {
        let call = Call::post(format!("/v1/runs/{run}/revoke"), &EndRun { reason });
        self.ask(keyed(call, key)).await
    }

    /// Acquires a lease and does nothing to keep it alive: see [`hold`](Self::hold) for that.
    ///
    /// A conflict is an answer (`409 write_set_conflict`) and isn't tried again. Whoever measures the lease's life
    /// by itself counts from before this call, never from its return.
    pub async fn acquire(&self, lease: &AcquireLease, key: Option<IdempotencyKey>) -> Result<Lease> {
        let call = keyed(Call::post("/v1/leases", lease), key);
        let waiting = std::time::Duration::from_millis(lease.wait_ms.unwrap_or(0));
        self.ask(call.within(self.deadline.saturating_add(waiting))).await
    }

    /// A lease; one that is over is shown with its reason for ten minutes.
    pub async fn lease(&self, lease: LeaseId) -> Result<Lease> {
        self.ask(self.read(&format!("/v1/leases/{lease}"))).await
    }

    /// A page of leases.
    pub async fn leases(&self, filter: &LeaseFilter) -> Result<Page<Lease>> {
        let run = filter.run.map(|run| run.to_string());
        let query = Query::new("/v1/leases")
            .with("run", run.as_deref())
            .with("scope", filter.scope.as_ref().map(|scope| scope.as_str()))
            .with("state", filter.state.map(|state| state.as_str()))
            .page(&filter.page);
        self.ask(Call::get(query.stale(self.stale_reads).build())).await
    }

    /// Renews a lease once. Renewing never creates: `410 lease_ended` where it is over.
    pub async fn renew(&self, lease: LeaseId, renewal: &RenewLease) -> Result<Lease> {
        self.ask(Call::renewal(format!("/v1/leases/{lease}/renew"), renewal)).await
    }

    /// Gives a lease back. Repeating it answers the same; it never touches a successor.
    pub async fn release(&self, lease: LeaseId) -> Result<Lease> {
        self.ask(Call::delete(format!("/v1/leases/{lease}"))).await
    }

    /// Who holds a resource and who waits for it.
    pub async fn resource(&self, resource: &ResourceId) -> Result<Resource> {
        // All characters of a resource id stand for themselves in a path (RFC 3986 §3.3).
        self.ask(self.read(&format!("/v1/resources/{resource}"))).await
    }

    /// Asks whether a grant is good for an action on a resource at this moment. A refusal is [`Error::Refused`].
    pub async fn verify(&self, question: &Verify) -> Result<Verdict> {
        self.ask(Call::question("/v1/verify", question)).await
    }

    /// Makes a token. Its secret is shown once: a replay has none.
    pub async fn create_token(&self, token: &CreateToken, key: Option<IdempotencyKey>) -> Result<Token> {
        self.ask(keyed(Call::post("/v1/tokens", token), key)).await
    }

    /// A page of tokens, without secrets.
    pub async fn tokens(&self, page: &PageOf) -> Result<Page<Token>> {
        let query = Query::new("/v1/tokens").page(page);
        self.ask(Call::get(query.stale(self.stale_reads).build())).await
    }

    /// Makes a token void.
    pub async fn delete_token(&self, token: TokenId) -> Result<()> {
        let answer = self.send(Call::delete(format!("/v1/tokens/{token}"))).await?;
        Ok(answer.map(drop))
    }

    /// The cluster's members and leader, as the node that answers knows them.
    pub async fn cluster(&self) -> Result<ClusterStatus> {
        self.ask(self.read("/v1/cluster")).await
    }

    /// The public keys that verify grants and run credentials (RFC 7517), as JSON.
    pub async fn jwks(&self) -> Result<serde_json::Value> {
        self.ask(Call::get("/.well-known/jwks.json")).await
    }

    /// Whether a node's process lives.
    pub async fn healthz(&self) -> Result<()> {
        Ok(self.send(Call::get("/healthz")).await?.map(drop))
    }

    /// Waits until a node knows a leader and is caught up, at most the client's deadline.
    pub async fn readyz(&self) -> Result<()> {
        Ok(self.send(Call::get("/readyz")).await?.map(drop))
    }

    fn read(&self, path: &str) -> Call {
        Call::get(Query::new(path).stale(self.stale_reads).build())
    }
}
