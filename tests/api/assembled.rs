//! An API put together by hand, with settings that a node does not have by default.
use crate::{http::Connection, node::eventually};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response};
use metrics_exporter_prometheus::PrometheusBuilder;
use ringfence::{
    http::{App, Limits, SecretHash, Settings, serve},
    raft::{Consensus, ConsensusConfig},
    tasks::Tasks,
};
use ringfence_protocol::jws::Signer25519;
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};
use tempfile::TempDir;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

struct Api {
    address: SocketAddr,
    draining: CancellationToken,
    serving: JoinSet<()>,
    _folder: TempDir,
}

impl Api {
    async fn start(metrics_need_token: bool, requests: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tasks = Tasks::new(CancellationToken::new());
        let peers = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = ConsensusConfig {
            node: 1,
            data_dir: folder.path().join("node"),
            name: "test".to_owned(),
            api: String::new(),
            heartbeat_ms: 75,
            election_ms: 250,
            snapshot_every: 200_000,
            grace_ms: 1000,
        };
        let initial = BTreeMap::from([(1, peers.local_addr().unwrap().to_string())]);
        let consensus = Consensus::start(config, peers, &tasks).await.unwrap();
        consensus.bootstrap(&initial).await.unwrap();
        let settings = Settings {
            signers: vec![Signer25519::from_seed(&[7; 32])],
            operator_token: SecretHash::of("operator"),
            metrics_need_token,
            unreachable_after: Duration::from_millis(350),
            limits: Limits { requests, ..Limits::default() },
        };
        let draining = CancellationToken::new();
        let metrics = PrometheusBuilder::new().build_recorder().handle();
        let app = App::new(consensus, metrics, draining.clone(), settings).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(async move { serve(listener, app, &tasks).await });
        Self { address, draining, serving, _folder: folder }
    }

    async fn get(&self, path: &str, token: &str) -> Response<Bytes> {
        get(&mut Connection::open(self.address).await, path, token).await
    }
}

async fn get(connection: &mut Connection, path: &str, token: &str) -> Response<Bytes> {
    let mut request = Request::builder().uri(path).header("host", "x");
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    connection.send(request.body(Full::default()).unwrap()).await
}

fn error(response: &Response<Bytes>) -> String {
    let problem: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    problem["error"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn beyond_the_bound_of_requests_a_node_says_so_and_still_lives() {
    let api = Api::start(false, 0).await;
    let refused = api.get("/v1/cluster", "operator").await;
    assert_eq!((refused.status().as_u16(), error(&refused)), (503, "overloaded".to_owned()));
    for open in ["/healthz", "/metrics", "/.well-known/jwks.json"] {
        assert_eq!(api.get(open, "").await.status(), 200, "{open}");
    }
}

#[tokio::test]
async fn metrics_ask_for_the_operators_token_where_the_node_says_so() {
    let api = Api::start(true, 10).await;
    eventually("the cluster has begun", async || {
        (api.get("/readyz", "").await.status() == 200).then_some(())
    })
    .await;
    assert_eq!(error(&api.get("/metrics", "").await), "unauthenticated");
    assert_eq!(api.get("/metrics", "operator").await.status(), 200);
    assert_eq!(error(&api.get("/metrics", "nonsense").await), "unauthenticated");
}

#[tokio::test]
async fn a_node_that_stops_says_so_on_connections_that_are_open_and_then_closes_them() {
    let mut api = Api::start(false, 10).await;
    let mut connection = Connection::open(api.address).await;
    assert_eq!(get(&mut connection, "/healthz", "").await.status(), 200);
    api.draining.cancel();
    api.serving.join_next().await.unwrap().unwrap();
    assert!(tokio::net::TcpStream::connect(api.address).await.is_err(), "it accepts nothing any more");
}
