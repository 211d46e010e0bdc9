//! A connection that asks and waits for the answer, one question at a time.
use super::{
    frame,
    hello::{Greeting, Hello, HelloRefusal, Welcome},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{io, time::Duration};
use tokio::{
    io::{AsyncWriteExt, BufReader},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};

/// Why a peer can't be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    /// No connection could be made.
    #[error("can't reach {address}: {source}")]
    Unreachable { address: String, source: io::Error },
    /// The peer does not take this node.
    #[error("{address} refuses this node: {refusal}")]
    Refused { address: String, refusal: HelloRefusal },
    /// The connection broke, or no answer came in time.
    #[error("the connection to {address} broke: {source}")]
    Broken { address: String, source: io::Error },
}

/// An open connection, the handshake done.
pub(crate) struct Connection {
    pub(crate) address: String,
    pub(crate) reader: BufReader<OwnedReadHalf>,
    pub(crate) writer: OwnedWriteHalf,
    pub(crate) buffer: Vec<u8>,
}

impl Connection {
    /// Connects and says hello, all within `limit`.
    pub(crate) async fn open(
        address: &str,
        hello: &Hello,
        limit: Duration,
    ) -> Result<(Self, Welcome), PeerError> {
        let unreachable = |source| PeerError::Unreachable { address: address.to_owned(), source };
        match timeout(limit, Self::shake_hands(address, hello)).await {
            Err(_) => Err(unreachable(io::ErrorKind::TimedOut.into())),
            Ok(Err(source)) => Err(unreachable(source)),
            Ok(Ok((_, Greeting::Refused(refusal)))) => {
                Err(PeerError::Refused { address: address.to_owned(), refusal })
            }
            Ok(Ok((connection, Greeting::Welcome(welcome)))) => Ok((connection, welcome)),
        }
    }

    async fn shake_hands(address: &str, hello: &Hello) -> io::Result<(Self, Greeting)> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        let reader = BufReader::with_capacity(64 << 10, reader);
        let mut connection = Self { address: address.to_owned(), reader, writer, buffer: Vec::new() };
        let greeting = connection.exchange(hello).await?;
        Ok((connection, greeting))
    }

    async fn exchange<Q: Serialize, A: DeserializeOwned>(&mut self, question: &Q) -> io::Result<A> {
        self.buffer.clear();
        frame::push(&mut self.buffer, question)?;
        self.writer.write_all(&self.buffer).await?;
        let answer = frame::read(&mut self.reader, &mut self.buffer).await?;
        answer.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Asks and waits for the answer. After an error the connection is of no more use: an answer may still be on
    /// its way, and would be taken for that to the next question.
    pub(crate) async fn ask<Q: Serialize, A: DeserializeOwned>(
        &mut self,
        question: &Q,
        limit: Duration,
    ) -> Result<A, PeerError> {
        let answer = match timeout(limit, self.exchange(question)).await {
            Ok(answer) => answer,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        answer.map_err(|source| PeerError::Broken { address: self.address.clone(), source })
    }
}
