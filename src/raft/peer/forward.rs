//! The connection on which a follower forwards what its clients ask for: many questions at once, one connection.
use super::{
    connection::{Connection, PeerError},
    frame,
    hello::Hello,
    message::{ForwardAnswer, ForwardCall, Numbered},
};
use crate::{
    raft::Unavailable,
    tasks::{AtEnd, Tasks},
};
use std::{collections::HashMap, io, sync::Arc, time::Duration};
use tokio::{
    io::AsyncWriteExt,
    sync::{Mutex, mpsc, oneshot},
};

/// How many questions wait to be written before the next asker is told that the node is overloaded.
const QUEUE: usize = 4096;
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

struct Question {
    call: ForwardCall,
    answer: oneshot::Sender<ForwardAnswer>,
}

/// The shared connection to whoever leads; made when first needed, and anew when the leader changes.
pub(crate) struct Forwarder {
    tasks: Tasks,
    current: Mutex<Option<(String, mpsc::Sender<Question>)>>,
}

impl Forwarder {
    pub(crate) fn new(tasks: Tasks) -> Arc<Self> {
        Arc::new(Self { tasks, current: Mutex::new(None) })
    }

    /// Asks the leader at `address`. Not bounded in time: the caller's deadline is.
    ///
    /// # Errors
    /// [`Unavailable::NoLeader`] where nothing was sent, [`Unavailable::Uncertain`] where the question was sent and
    /// the connection broke before the answer.
    pub(crate) async fn ask(
        &self,
        address: &str,
        hello: impl FnOnce() -> Hello,
        call: ForwardCall,
    ) -> Result<ForwardAnswer, Unavailable> {
        let queue = self.queue_to(address, hello).await?;
        let (answer, answered) = oneshot::channel();
        queue.try_send(Question { call, answer }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Unavailable::Overloaded,
            mpsc::error::TrySendError::Closed(_) => Unavailable::NoLeader,
        })?;
        answered.await.map_err(|_| Unavailable::Uncertain)
    }

    async fn queue_to(
        &self,
        address: &str,
        hello: impl FnOnce() -> Hello,
    ) -> Result<mpsc::Sender<Question>, Unavailable> {
        let mut current = self.current.lock().await;
        if let Some((connected, queue)) = current.as_ref()
            && connected == address
            && !queue.is_closed()
        {
            return Ok(queue.clone());
        }
        let (connection, _) = Connection::open(address, &hello(), CONNECT_LIMIT).await.map_err(|error| {
            tracing::warn!(%error, "can't forward to the leader");
            Unavailable::NoLeader
        })?;
        let (queue, questions) = mpsc::channel(QUEUE);
        self.tasks.spawn("forward", AtEnd::Fine, carry(connection, questions));
        *current = Some((address.to_owned(), queue.clone()));
        Ok(queue)
    }
}

/// Writes questions and hands out answers until either side of the connection ends. Whoever still waits then is told
/// by the drop of its channel.
async fn carry(connection: Connection, mut questions: mpsc::Receiver<Question>) {
    let address = connection.address.clone();
    if let Err(source) = carry_on(connection, &mut questions).await {
        let error = PeerError::Broken { address, source };
        tracing::warn!(%error, "forwarding ended");
    }
}

async fn carry_on(mut connection: Connection, questions: &mut mpsc::Receiver<Question>) -> io::Result<()> {
    let mut waiting = HashMap::new();
    let mut next_id = 0_u64;
    let mut batch = Vec::new();
    let mut out = Vec::new();
    let mut answers = AnswerReader { connection: connection.reader, buffer: Vec::new() };
    let (answered, mut incoming) = mpsc::channel(QUEUE);
    let read = answers.read_all(answered);
    tokio::pin!(read);
    loop {
        tokio::select! {
            // Cancel safe: `recv_many` takes nothing unless it returns.
            count = questions.recv_many(&mut batch, 256) => {
                if count == 0 {
                    return Ok(());
                }
                out.clear();
                for Question { call, answer } in batch.drain(..) {
                    frame::push(&mut out, &Numbered { id: next_id, body: call })?;
                    waiting.insert(next_id, answer);
                    next_id += 1;
                }
                connection.writer.write_all(&out).await?;
            }
            // Cancel safe: `recv` takes nothing unless it returns.
            Some(Numbered { id, body }) = incoming.recv() => {
                if let Some(answer) = waiting.remove(&id) {
                    // The asker may have run out of time: its request is then unknown to it, not lost.
                    answer.send(body).ok();
                }
            }
            // The same future on every turn: nothing read is lost.
            result = &mut read => return result,
        }
    }
}

struct AnswerReader<R> {
    connection: R,
    buffer: Vec<u8>,
}

impl<R: tokio::io::AsyncRead + Unpin> AnswerReader<R> {
    async fn read_all(&mut self, answers: mpsc::Sender<Numbered<ForwardAnswer>>) -> io::Result<()> {
        while let Some(answer) = frame::read(&mut self.connection, &mut self.buffer).await? {
            if answers.send(answer).await.is_err() {
                return Ok(());
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}
