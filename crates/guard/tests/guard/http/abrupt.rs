//! Handlers that break and clients that leave in the middle of a write.
use super::target::Served;
use crate::cluster::Cluster;
use axum::{
    Router,
    extract::State,
    http::StatusCode,
    routing::{any, put},
};
use ringfence_guard::{
    GuardError, MemoryStore, Request,
    http::{Answer, GuardLayer, GuardedWrite, run_to_end},
    protocol::Mode,
};
use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    time::Duration,
};
use tokio::{io::AsyncWriteExt, net::TcpStream};

type Store = Arc<Mutex<MemoryStore<u64>>>;

#[derive(Clone)]
struct Service {
    guard: ringfence_guard::Guard,
    store: Store,
    entered: Sender<()>,
    go_on: Arc<Mutex<Receiver<Then>>>,
    left: Sender<u64>,
    dropped: Sender<()>,
}

/// Says when the request that holds it is dropped.
struct Dropped(Sender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        // Nobody listens any more where the test is over.
        self.0.send(()).unwrap_or_default();
    }
}

/// What a write that is under way does next.
enum Then {
    Finish,
    Panic,
}

async fn write(State(service): State<Service>, write: GuardedWrite) -> Result<StatusCode, Answer> {
    let GuardedWrite { grant, .. } = write;
    let _dropped = Dropped(service.dropped.clone());
    run_to_end(move || {
        let request = Request::parse("thing/one", "update")?;
        let mut store = service.store.lock().unwrap_or_else(PoisonError::into_inner);
        service.guard.write(&mut *store, &grant, &request, |value, _| {
            *value += 1;
            service.entered.send(()).unwrap();
            match service.go_on.lock().unwrap_or_else(PoisonError::into_inner).recv().unwrap() {
                Then::Finish => {}
                Then::Panic => panic!("the service's own code"),
            }
            Ok(())
        })?;
        service.left.send(*store.data()).unwrap();
        Ok::<_, GuardError<Infallible>>(StatusCode::OK)
    })
    .await
}

struct Stage {
    cluster: Cluster,
    served: Arc<Served>,
    store: Store,
    entered: Receiver<()>,
    go_on: Sender<Then>,
    left: Receiver<u64>,
    dropped: Receiver<()>,
}

async fn stage() -> Stage {
    let cluster = Cluster::new();
    let (guard, _clock) = cluster.guard();
    let store: Store = Arc::new(Mutex::new(MemoryStore::new(0)));
    let ((entered_in, entered), (go_on, go_on_out), (left_in, left)) = (channel(), channel(), channel());
    let (dropped_in, dropped) = channel();
    let layer = GuardLayer::new(guard.clone());
    let service = Service {
        guard,
        store: store.clone(),
        entered: entered_in,
        go_on: Arc::new(Mutex::new(go_on_out)),
        left: left_in,
        dropped: dropped_in,
    };
    let router = Router::new()
        .route("/thing", put(write).post(write))
        .route("/forgetful", any(async || StatusCode::OK))
        .route_layer(layer)
        .route("/open", put(write))
        .with_state(service);
    let served = Arc::new(Served::start(router).await);
    Stage { cluster, served, store, entered, go_on, left, dropped }
}

const DEADLINE: Duration = Duration::from_secs(10);
const TAG: (&str, &str) = ("if-match", "\"1\"");

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_client_goes_away_in_the_middle_is_done_as_a_whole() {
    let stage = stage().await;
    let grant = stage.cluster.token(5, &[("thing/one", Mode::Exclusive)]);
    let mut client = TcpStream::connect(stage.served.address).await.unwrap();
    let request = format!(
        "PUT /thing HTTP/1.1\r\nhost: x\r\nringfence-grant: {grant}\r\nif-match: \"1\"\r\ncontent-length: 0\r\n\r\n"
    );
    client.write_all(request.as_bytes()).await.unwrap();
    stage.entered.recv_timeout(DEADLINE).expect("the write begins");
    drop(client);
    stage.dropped.recv_timeout(DEADLINE).expect("the server notices that the client is gone");
    stage.go_on.send(Then::Finish).unwrap();
    assert_eq!(stage.left.recv_timeout(DEADLINE).unwrap(), 1);
    assert_eq!(*stage.store.lock().unwrap().data(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_panics_has_written_nothing_and_the_service_goes_on() {
    let stage = stage().await;
    let grant = stage.cluster.token(5, &[("thing/one", Mode::Exclusive)]);
    let headers = [TAG, ("ringfence-grant", &*grant)];
    stage.go_on.send(Then::Panic).unwrap();
    let reply = stage.served.send("PUT", "/thing", &headers, "").await;
    assert_eq!((reply.status, reply.error()), (500, "internal"));
    assert!(!reply.body.to_string().contains("own code"));
    stage.go_on.send(Then::Finish).unwrap();
    assert_eq!(stage.served.send("PUT", "/thing", &headers, "").await.status, 200);
    assert_eq!(stage.left.recv_timeout(DEADLINE).unwrap(), 1);
}

#[tokio::test]
async fn a_guarded_handler_on_a_route_without_the_layer_is_closed() {
    let stage = stage().await;
    let grant = stage.cluster.token(5, &[("thing/one", Mode::Exclusive)]);
    let headers = [TAG, ("ringfence-grant", &*grant)];
    let reply = stage.served.send("PUT", "/open", &headers, "").await;
    assert_eq!((reply.status, reply.error()), (500, "internal"));
    assert_eq!(*stage.store.lock().unwrap().data(), 0);
}

#[tokio::test]
async fn a_post_that_asks_for_a_guarded_write_is_refused_like_the_other_methods() {
    let stage = stage().await;
    let reply = stage.served.send("POST", "/thing", &[], "").await;
    assert_eq!((reply.status, reply.error()), (428, "precondition_required"));
    let unknown = stage.served.send("PUT", "/elsewhere", &[], "").await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test]
async fn a_handler_that_asks_for_nothing_is_not_reached_by_a_write_that_lacks_something() {
    let stage = stage().await;
    let grant = stage.cluster.token(5, &[("thing/one", Mode::Exclusive)]);
    for method in ["PUT", "PATCH", "DELETE"] {
        for headers in [vec![], vec![TAG], vec![("ringfence-grant", &*grant)]] {
            let reply = stage.served.send(method, "/forgetful", &headers, "").await;
            assert_eq!(reply.status, 428, "{method} {}", headers.len());
        }
    }
    assert_eq!(stage.served.send("GET", "/forgetful", &[], "").await.status, 200);
}
