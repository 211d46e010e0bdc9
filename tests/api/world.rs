//! A cluster with tokens and runs in it, and requests to it whose answers are held against the contract.
use crate::{
    contract::{self, Document},
    http::Connection,
    node::{Nodes, OPERATOR, eventually},
};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{HeaderMap, Method, Request, Response};
use ringfence_protocol::ErrorCode;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// A cluster and who may talk to it.
pub(crate) struct World {
    pub(crate) nodes: Nodes,
    pub(crate) document: Document,
    pub(crate) admin: String,
    pub(crate) orchestrator: String,
    pub(crate) target: String,
}

/// A run with its credential.
#[derive(Debug, Clone)]
pub(crate) struct TestRun {
    pub(crate) id: String,
    pub(crate) token: String,
}

impl World {
    /// One node that leads, with an admin, an orchestrator and a target of tenant `default`.
    pub(crate) async fn start() -> Self {
        Self::start_with(1).await
    }

    /// Several nodes.
    pub(crate) async fn start_with(nodes: u64) -> Self {
        let nodes = Nodes::start(nodes, true).await;
        let mut world = Self {
            document: Document::of(nodes.nodes[0].api).await,
            nodes,
            admin: String::new(),
            orchestrator: String::new(),
            target: String::new(),
        };
        for node in 0..world.nodes.nodes.len() {
            eventually("a node is ready", async || {
                let ready = world.get("/readyz").at(node).send().await;
                (ready.status == 200).then_some(())
            })
            .await;
        }
        world.admin = world.token(OPERATOR, "default", "admin", "root").await;
        world.orchestrator = world.token(&world.admin, "default", "orchestrator", "planner").await;
        world.target = world.token(&world.admin, "default", "target", "releases").await;
        world
    }

    pub(crate) fn address(&self, node: usize) -> SocketAddr {
        self.nodes.nodes[node].api
    }

    /// The secret of a new token.
    pub(crate) async fn token(&self, by: &str, tenant: &str, role: &str, name: &str) -> String {
        let body = json!({"name": name, "role": role, "tenant": tenant});
        let made = self.post("/v1/tokens", &body).by(by).send().await.done(201);
        made["secret"].as_str().unwrap().to_owned()
    }

    /// A new run of the orchestrator.
    pub(crate) async fn run(&self) -> TestRun {
        self.run_with(json!({"name": "test"})).await
    }

    pub(crate) async fn run_with(&self, body: Value) -> TestRun {
        let run = self.post("/v1/runs", &body).by(&self.orchestrator).send().await.done(201);
        let text = |field: &str| run[field].as_str().unwrap().to_owned();
        TestRun { id: text("id"), token: text("token") }
    }

    /// A lease of the run on one exclusive scope.
    pub(crate) async fn lease(&self, run: &TestRun, scope: &str) -> Value {
        self.acquire(scope).by(&run.token).send().await.done(201)
    }

    /// The request for a lease on one exclusive scope.
    pub(crate) fn acquire(&self, scope: &str) -> Ask<'_> {
        self.post("/v1/leases", &wish(scope))
    }

    pub(crate) fn get(&self, path: &str) -> Ask<'_> {
        self.ask(Method::GET, path)
    }

    pub(crate) fn delete(&self, path: &str) -> Ask<'_> {
        self.ask(Method::DELETE, path)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Ask<'_> {
        self.ask(Method::POST, path).body("application/json", body.to_string())
    }

    pub(crate) fn ask(&self, method: Method, path: &str) -> Ask<'_> {
        Ask { world: self, node: 0, method, path: path.to_owned(), headers: Vec::new(), body: Bytes::new() }
    }
}

/// The wish for one exclusive scope.
pub(crate) fn wish(scope: &str) -> Value {
    json!({"write_set": [{"scope": scope, "mode": "exclusive"}]})
}

/// One request.
#[derive(Clone)]
pub(crate) struct Ask<'a> {
    world: &'a World,
    node: usize,
    method: Method,
    path: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Bytes,
}

impl Ask<'_> {
    /// With a credential.
    pub(crate) fn by(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.as_bytes().to_vec()));
        self
    }

    pub(crate) fn body(mut self, content_type: &str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.header("content-type", content_type)
    }

    /// To another node than the first.
    pub(crate) fn at(mut self, node: usize) -> Self {
        self.node = node;
        self
    }

    /// Over a connection of its own.
    pub(crate) async fn send(self) -> Reply {
        let mut connection = Connection::open(self.world.address(self.node)).await;
        self.send_over(&mut connection).await
    }

    pub(crate) async fn send_over(self, connection: &mut Connection) -> Reply {
        let mut request =
            Request::builder().method(self.method.clone()).uri(&self.path).header("host", "ringfence");
        for (name, value) in &self.headers {
            request = request.header(name, value.as_slice());
        }
        let response = connection.send(request.body(Full::new(self.body)).unwrap()).await;
        let reply = Reply::read(&response);
        contract::check(&self.world.document, &self.method, &self.path, &reply);
        reply
    }
}

/// One answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// The body where it is JSON, else `null`.
    pub(crate) json: Value,
}

impl Reply {
    fn read(response: &Response<Bytes>) -> Self {
        let text = String::from_utf8(response.body().to_vec()).unwrap();
        Self {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            json: serde_json::from_str(&text).unwrap_or_default(),
            text,
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The body of a success.
    #[track_caller]
    pub(crate) fn done(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json
    }

    /// The problem of a refusal.
    #[track_caller]
    pub(crate) fn refused(self, code: ErrorCode) -> Value {
        assert_eq!(self.json["error"], code.as_str(), "{} {}", self.status, self.text);
        self.json
    }
}
