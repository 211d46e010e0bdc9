//! The listener for peers.
use super::{
    frame,
    hello::{Admission, Greeting, Hello, Purpose},
    message::{ForwardAnswer, ForwardCall, Numbered, RaftAnswer, RaftCall},
};
use crate::tasks::{AtEnd, Tasks};
use std::{future::Future, io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncWriteExt, BufReader},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    time::timeout,
};
use tokio_util::task::TaskTracker;

/// How long a peer may take to say hello.
const HELLO_LIMIT: Duration = Duration::from_secs(5);
/// How many forwarded questions of one connection are worked on at once; more wait in the peer's socket.
const FORWARDS: usize = 8192;
/// The most bytes of a snapshot on its way in.
const MAX_SNAPSHOT_BYTES: usize = 4 << 30;

/// What a node does for its peers.
pub(crate) trait PeerService: Send + Sync + 'static {
    /// Judges a handshake; where the node joins a cluster by it, that is durable before this returns.
    fn admit(&self, hello: &Hello) -> impl Future<Output = io::Result<Admission>> + Send;
    /// Answers Raft; `parts` is what came of a snapshot on this connection.
    fn raft(&self, call: RaftCall, parts: &mut Vec<u8>) -> impl Future<Output = RaftAnswer> + Send;
    /// Answers what a follower forwarded.
    fn forward(&self, call: ForwardCall) -> impl Future<Output = ForwardAnswer> + Send;
}

/// Accepts peers until the node stops.
pub(crate) async fn serve<S: PeerService>(listener: TcpListener, service: Arc<S>, tasks: Tasks) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let service = Arc::clone(&service);
                tasks.spawn("peer", AtEnd::Fine, async move {
                    if let Err(error) = converse(stream, &*service, &service).await {
                        tracing::debug!(%address, %error, "a peer's connection ended");
                    }
                });
            }
            Err(error) => {
                // Out of file descriptors, for one: waiting lets some be closed.
                tracing::error!(%error, "can't accept a peer");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn converse<S: PeerService>(stream: TcpStream, service: &S, shared: &Arc<S>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::with_capacity(64 << 10, reader);
    let mut buffer = Vec::new();
    let hello = timeout(HELLO_LIMIT, frame::read::<Hello>(&mut reader, &mut buffer)).await??;
    let Some(hello) = hello else { return Ok(()) };
    let greeting = match service.admit(&hello).await? {
        Admission::Enter(welcome) | Admission::Join(_, welcome) => Greeting::Welcome(welcome),
        Admission::Refuse(refusal) => {
            tracing::warn!(from = hello.from, %refusal, "refused a peer");
            Greeting::Refused(refusal)
        }
    };
    buffer.clear();
    frame::push(&mut buffer, &greeting)?;
    writer.write_all(&buffer).await?;
    match (greeting, hello.purpose) {
        (Greeting::Refused(_), _) | (_, Purpose::Probe) => Ok(()),
        (_, Purpose::Raft) => answer_raft(reader, writer, service).await,
        (_, Purpose::Forward) => answer_forwards(reader, writer, shared).await,
    }
}

async fn answer_raft<S: PeerService>(
    mut reader: BufReader<OwnedReadHalf>,
    mut writer: OwnedWriteHalf,
    service: &S,
) -> io::Result<()> {
    let (mut buffer, mut parts) = (Vec::new(), Vec::new());
    while let Some(call) = frame::read::<RaftCall>(&mut reader, &mut buffer).await? {
        if parts.len() > MAX_SNAPSHOT_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a snapshot is larger than any state can be",
            ));
        }
        let answer = service.raft(call, &mut parts).await;
        buffer.clear();
        frame::push(&mut buffer, &answer)?;
        writer.write_all(&buffer).await?;
    }
    Ok(())
}

async fn answer_forwards<S: PeerService>(
    mut reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    service: &Arc<S>,
) -> io::Result<()> {
    let (answers, outgoing) = mpsc::channel(FORWARDS);
    let questions = TaskTracker::new();
    let write = write_answers(writer, outgoing);
    tokio::pin!(write);
    let mut buffer = Vec::new();
    let read = async {
        while let Some(Numbered { id, body }) = frame::read(&mut reader, &mut buffer).await? {
            // A place for the answer is taken before the question is worked on: that bounds how many there are.
            let Ok(place) = answers.clone().reserve_owned().await else {
                break;
            };
            let service = Arc::clone(service);
            questions.spawn(async move {
                let body = service.forward(body).await;
                place.send(Numbered { id, body });
            });
        }
        io::Result::Ok(())
    };
    tokio::select! {
        // Neither is polled again after the other has ended: the connection is over then.
        result = read => result,
        result = &mut write => result,
    }
}

async fn write_answers(
    mut writer: OwnedWriteHalf,
    mut outgoing: mpsc::Receiver<Numbered<ForwardAnswer>>,
) -> io::Result<()> {
    let (mut batch, mut buffer) = (Vec::new(), Vec::new());
    while outgoing.recv_many(&mut batch, 256).await > 0 {
        buffer.clear();
        for answer in batch.drain(..) {
            frame::push(&mut buffer, &answer)?;
        }
        writer.write_all(&buffer).await?;
    }
    Ok(())
}
