//! A small HTTP/1.1 client over real TCP: one connection that is kept, and raw bytes for what no client would send.
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, client::conn::http1::SendRequest};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

/// One TCP connection.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Drives the connection as long as this lives.
    _driver: JoinSet<()>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let mut driver = JoinSet::new();
        driver.spawn(async move { drop(connection.await) });
        Self { sender, _driver: driver }
    }

    /// Sends a request and waits for its whole answer; the next one goes over the same connection.
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Response<Bytes> {
        self.sender.ready().await.unwrap();
        let (head, body) = self.sender.send_request(request).await.unwrap().into_parts();
        Response::from_parts(head, body.collect().await.unwrap().to_bytes())
    }
}

/// Sends bytes as they are on a connection of their own, and gives back all that comes until the node closes it.
pub(crate) async fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}
