//! The fake cluster on real sockets.
use super::cluster::Cluster;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{io, sync::Arc};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// Nodes that serve until dropped.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) urls: Vec<String>,
    tasks: JoinSet<()>,
}

impl Sockets {
    pub(crate) fn new() -> Self {
        Self { urls: Vec::new(), tasks: JoinSet::new() }
    }

    /// A node that serves as the cluster's script says.
    pub(crate) async fn node(mut self, cluster: &Arc<Cluster>) -> Self {
        let listener = self.listener().await;
        let (cluster, node) = (cluster.clone(), self.urls.len() - 1);
        self.tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(connection(stream, cluster.clone(), node));
            }
        });
        self
    }

    /// A node that takes connections and never reads from them: half-open, no reset.
    pub(crate) async fn black_hole(mut self) -> Self {
        let listener = self.listener().await;
        self.tasks.spawn(async move {
            let mut kept = Vec::new();
            loop {
                kept.push(listener.accept().await.unwrap());
            }
        });
        self
    }

    /// A node whose port refuses connections.
    pub(crate) async fn closed(mut self) -> Self {
        drop(self.listener().await);
        self
    }

    async fn listener(&mut self) -> TcpListener {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        self.urls.push(format!("http://{}", listener.local_addr().unwrap()));
        listener
    }
}

async fn connection(stream: TcpStream, cluster: Arc<Cluster>, node: usize) {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let cluster = cluster.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            let request = http::Request::from_parts(head, body);
            let answer: Option<http::Response<Bytes>> = cluster.serve(node, request).await;
            answer.map(|answer| answer.map(Full::new)).ok_or_else(|| io::Error::other("broken on purpose"))
        }
    });
    // How a broken connection is told here is nobody's concern.
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}
