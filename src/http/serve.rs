//! The listener: accepts connections, serves HTTP/1.1 on them, and drains them when the node stops.
use super::app::App;
use crate::tasks::Tasks;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::{sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// How long the head of a request may take to arrive; an idle connection is closed after it too.
const HEAD_LIMIT: Duration = Duration::from_secs(75);
/// How long requests under way may take once the node stops: as long as any request is promised to take.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);
/// Between two attempts to accept where there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves the API until `app` is told that the node drains; returns when all connections are closed, or were given
/// as long as any request may take.
///
/// One request is worked on at a time on one connection, each with its own credential: nothing is kept from one to
/// the next. More than 100 headers, or a head of more than about 400 KiB, never reach a route: hyper answers them with
/// a bare `431`.
pub async fn serve(listener: TcpListener, app: Arc<App>, tasks: &Tasks) {
    let router = super::router(&app);
    let slots = Arc::new(Semaphore::new(app.limits.connections));
    while let Some((stream, slot)) = next(&listener, &slots, &app.draining).await {
        let connection = connection(stream, router.clone(), app.draining.clone(), slot);
        tasks.spawn_draining(connection);
    }
    drop(listener);
    let all = u32::try_from(app.limits.connections).unwrap_or(u32::MAX);
    if timeout(DRAIN_LIMIT + ACCEPT_PAUSE, slots.acquire_many(all)).await.is_err() {
        tracing::warn!("some connections did not end in time");
    }
}

/// The next connection and its slot; `None` once the node drains.
async fn next(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
    draining: &CancellationToken,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let accept = async {
        let slot = Arc::clone(slots).acquire_owned().await.ok()?;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return Some((stream, slot)),
                Err(error) => {
                    tracing::error!(%error, "can't accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        // Cancel safe: a connection that was accepted is given back at once.
        accepted = accept => accepted,
        () = draining.cancelled() => None,
    }
}

async fn connection(
    stream: TcpStream,
    router: Router,
    draining: CancellationToken,
    slot: OwnedSemaphorePermit,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection closed at once");
    }
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT);
    let served = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut served = std::pin::pin!(served);
    let ended = tokio::select! {
        // Cancel safe: the connection is polled on below.
        ended = served.as_mut() => ended,
        () = draining.cancelled() => {
            served.as_mut().graceful_shutdown();
            timeout(DRAIN_LIMIT, served).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
    drop(slot);
}
