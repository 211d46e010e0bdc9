//! A running target, and a client that says exactly what it is told to.
#[path = "../../../../../examples/notification-policy.rs"]
#[expect(dead_code, reason = "its `main` and what only that needs are not called here")]
mod example;

use crate::cluster::Cluster;
use axum::Router;
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use ringfence_guard::{Expiry, clock::ManualClock, protocol::Mode, sqlite};
use serde_json::Value;
use std::{net::SocketAddr, sync::Arc};
use tokio::{net::TcpListener, task::JoinSet};

/// A service on a port of its own, until it is dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    client: Client<HttpConnector, Full<axum::body::Bytes>>,
    _task: JoinSet<()>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Value,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn error(&self) -> &str {
        self.body["error"].as_str().unwrap_or_default()
    }
}

impl Served {
    pub(crate) async fn start(service: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, service).await.unwrap() });
        Self { address, client: Client::builder(TokioExecutor::new()).build_http(), _task: task }
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut request =
            http::Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = Full::from(body.to_owned());
        let answer = self.client.request(request.body(body).unwrap()).await.unwrap();
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Reply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        }
    }
}

/// The example, its cluster and its clock.
pub(crate) struct Target {
    pub(crate) cluster: Cluster,
    pub(crate) clock: Arc<ManualClock>,
    served: Served,
}

pub(crate) const HIGH: &str = r#"{"destinations":["ops"],"severity":"high"}"#;
pub(crate) const LOW: &str = r#"{"destinations":["ops"],"severity":"low"}"#;
const JSON: (&str, &str) = ("content-type", "application/json");

impl Target {
    pub(crate) async fn start(expiry: Expiry) -> Self {
        let cluster = Cluster::new();
        let (guard, clock) = cluster.guard();
        let mut db = rusqlite::Connection::open_in_memory().unwrap();
        sqlite::migrate(&mut db).unwrap();
        let service = example::router(guard.with_expiry(expiry), db).unwrap();
        let served = Served::start(service).await;
        Self { cluster, clock, served }
    }

    /// A target that has `notification-policy/{id}` at version 1, severity high.
    pub(crate) async fn with_policy(id: &str) -> Self {
        let target = Self::start(Expiry::default()).await;
        target.create(id).await;
        target
    }

    pub(crate) async fn create(&self, id: &str) {
        let grant = self.grant(1, id, Mode::Optimistic);
        let headers = [("ringfence-grant", &*grant), ("if-none-match", "*")];
        let reply = self.send("PUT", id, &headers, HIGH).await;
        assert_eq!((reply.status, reply.header("etag")), (201, "\"1\""), "{reply:?}");
    }

    pub(crate) fn grant(&self, fence: u64, id: &str, mode: Mode) -> String {
        self.cluster.token(fence, &[(&format!("notification-policy/{id}"), mode)])
    }

    /// Sends a body as JSON, with these headers beside.
    pub(crate) async fn send(&self, method: &str, id: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut headers = headers.to_vec();
        if !body.is_empty() {
            headers.push(JSON);
        }
        self.raw(method, id, &headers, body).await
    }

    pub(crate) async fn raw(&self, method: &str, id: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let path = format!("/v1/notification-policies/{id}");
        self.served.send(method, &path, headers, body).await
    }

    pub(crate) async fn read(&self, id: &str) -> Reply {
        self.send("GET", id, &[], "").await
    }

    /// The tag and severity that are there.
    pub(crate) async fn state(&self, id: &str) -> (String, String) {
        let reply = self.read(id).await;
        let severity = reply.body["severity"].as_str().unwrap_or_default();
        (reply.header("etag").to_owned(), severity.to_owned())
    }
}
