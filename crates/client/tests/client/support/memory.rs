//! A network within the process, for tokio's paused time: real sockets would let the clock run ahead of them.
use super::cluster::Cluster;
use bytes::Bytes;
use http::Request;
use ringfence_client::{Exchange, SendError, Transport};
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

#[derive(Debug)]
pub(crate) struct Memory {
    cluster: Arc<Cluster>,
    serving: TaskTracker,
}

impl Memory {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster, serving: TaskTracker::new() }
    }

    /// Requests that the cluster has not answered, asked for any more or not.
    pub(crate) fn being_served(&self) -> usize {
        self.serving.len()
    }
}

impl Transport for Memory {
    fn send(&self, request: Request<Bytes>) -> Exchange {
        let (cluster, serving) = (self.cluster.clone(), self.serving.clone());
        let host = request.uri().host().unwrap();
        let node: usize = host.strip_prefix("node-").unwrap().parse().unwrap();
        Box::pin(async move {
            if cluster.is_closed(node, &request) {
                return Err(SendError::NotSent("connection refused".to_owned()));
            }
            let (answer, answered) = oneshot::channel();
            // Whoever sent it may go away: what was sent is served all the same.
            drop(serving.spawn(async move {
                if let Some(response) = cluster.serve(node, request).await {
                    drop(answer.send(response));
                }
            }));
            answered.await.map_err(|_| SendError::NoAnswer("connection reset".to_owned()))
        })
    }
}
