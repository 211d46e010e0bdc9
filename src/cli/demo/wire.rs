//! Requests and answers as they travel, shown as they are; but tokens and grants never in full.
//!
//! Plain HTTP/1.1, a connection a request: what the demo shows is what `curl` would show.
use crate::cli::{failure::Failure, output};
use serde_json::Value;
use std::{fmt::Write as _, io, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

const LIMIT: Duration = Duration::from_secs(15);
/// How much of a body is shown.
const SHOWN_CHARS: usize = 300;
/// The headers that tell something here.
const TELLING: [&str; 7] = [
    "authorization",
    "idempotency-key",
    "if-match",
    "if-none-match",
    "ringfence-grant",
    "etag",
    "idempotency-replayed",
];
/// Members that hold a secret.
const SECRET: [&str; 3] = ["grant", "token", "secret"];
/// Members of answers that tell nothing here.
const DULL: [&str; 14] = [
    "type",
    "title",
    "category",
    "retryable",
    "resolver",
    "status",
    "tenant",
    "labels",
    "authority",
    "waited_ms",
    "expires_at",
    "granted_at",
    "created_at",
    "held_since",
];

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Request {
    method: &'static str,
    url: String,
    headers: Vec<(&'static str, String)>,
    body: Option<Value>,
}

/// Its answer.
#[derive(Debug, Clone)]
pub(super) struct Response {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: Value,
}

impl Request {
    pub(super) fn new(method: &'static str, url: impl Into<String>) -> Self {
        Self { method, url: url.into(), headers: Vec::new(), body: None }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn bearer(self, token: &str) -> Self {
        self.with("Authorization", format!("Bearer {token}"))
    }

    pub(super) fn json(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// Sends it, shows both, and gives the answer.
    ///
    /// # Errors
    /// Where there is none.
    pub(super) async fn show(&self, who: &str) -> Result<Response, Failure> {
        self.tell(who)?;
        let response = self.send().await?;
        response.tell()?;
        Ok(response)
    }

    /// Sends it until the answer isn't a 503, at one address after another, and shows the last exchange.
    ///
    /// # Errors
    /// Where no such answer comes in time.
    pub(super) async fn show_when_served(&self, who: &str) -> Result<Response, Failure> {
        let answered = async {
            loop {
                match self.send().await {
                    Ok(response) if response.status != 503 => return response,
                    Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        };
        let response = timeout(LIMIT, answered)
            .await
            .map_err(|_| Failure::Local(format!("{} {} is not served", self.method, self.url)))?;
        self.tell(who)?;
        response.tell()?;
        Ok(response)
    }

    /// Sends it and gives the answer.
    ///
    /// # Errors
    /// Where there is none.
    pub(super) async fn send(&self) -> Result<Response, Failure> {
        let failed = |error: io::Error| Failure::local(&format!("{} {}", self.method, self.url), error);
        let exchange = async {
            let mut stream = self.start().await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            Response::parse(&answer).ok_or_else(|| io::Error::other("the answer is no HTTP with JSON"))
        };
        timeout(LIMIT, exchange).await.map_err(|_| failed(io::ErrorKind::TimedOut.into()))?.map_err(failed)
    }

    /// Sends it and leaves the answer unread.
    ///
    /// # Errors
    /// Where it can't be sent.
    pub(super) async fn start(&self) -> io::Result<TcpStream> {
        let address = self.url.trim_start_matches("http://").split('/').next().unwrap_or_default();
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(self.text(address).as_bytes()).await?;
        Ok(stream)
    }

    fn text(&self, host: &str) -> String {
        let path = self.url.trim_start_matches("http://").trim_start_matches(host);
        let body = self.body.as_ref().map(ToString::to_string).unwrap_or_default();
        let mut text = format!("{} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n", self.method);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if self.body.is_some() {
            text.push_str("content-type: application/json\r\n");
        }
        text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
        text
    }

    /// Shows the request.
    ///
    /// # Errors
    /// Where nobody reads any more.
    pub(super) fn tell(&self, who: &str) -> Result<(), Failure> {
        let mut text = format!("\n   {who}: {} {}", self.method, self.url);
        for (name, value) in &self.headers {
            text.push_str(&shown_header(name, value));
        }
        if let Some(body) = &self.body {
            text.push_str(&format!("\n      {}", shortened(&body.to_string())));
        }
        say(&text)
    }
}

impl Response {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let body = &bytes[end + 4..];
        let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(body).ok()? };
        Some(Self { status, headers: lines.filter_map(header).collect(), body })
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(this, _)| this == name).map(|(_, value)| value.as_str())
    }

    /// A member that is a text, or nothing.
    pub(super) fn text(&self, member: &str) -> &str {
        self.body[member].as_str().unwrap_or_default()
    }

    /// Status and code, as a judge says it.
    pub(super) fn verdict(&self) -> String {
        format!("{} {}", self.status, self.text("error")).trim_end().to_owned()
    }

    fn tell(&self) -> Result<(), Failure> {
        let mut text = format!("   -> {}", self.status);
        for (name, value) in &self.headers {
            text.push_str(&shown_header(name, value));
        }
        if !self.body.is_null() {
            text.push_str(&format!("\n      {}", shortened(&telling(&self.body).to_string())));
        }
        say(&text)
    }
}

/// Says a line.
///
/// # Errors
/// Where nobody reads any more.
pub(super) fn say(text: &str) -> Result<(), Failure> {
    output::line(text).map_err(|error| Failure::local("nobody reads any more", error))
}

fn shown_header(name: &str, value: &str) -> String {
    let mut text = String::new();
    if TELLING.contains(&name.to_ascii_lowercase().as_str()) {
        let secret = matches!(name, "Authorization" | "Ringfence-Grant");
        let value = if secret { begun(value) } else { value.to_owned() };
        // Writing to a text can't fail.
        write!(text, "\n      {name}: {value}").ok();
    }
    text
}

/// The beginning of a secret: enough to see that there is one.
fn begun(value: &str) -> String {
    let (kind, secret) = value.split_once(' ').map_or(("", value), |(kind, secret)| (kind, secret));
    let begin: String = secret.chars().take(4).collect();
    format!("{kind} {begin}…").trim_start().to_owned()
}

/// A body without secrets, empty members and what tells nothing here.
fn telling(body: &Value) -> Value {
    match body {
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, value)| {
                !DULL.contains(&name.as_str()) && !value.is_null() && **value != Value::Array(Vec::new())
            });
            let shown = kept.map(|(name, value)| {
                let secret = SECRET.contains(&name.as_str());
                (name.clone(), if secret { Value::from("…") } else { telling(value) })
            });
            Value::Object(shown.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(telling).collect()),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other.clone(),
    }
}

fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_never_shown_in_full() {
        let body =
            json!({"grant": "eyJhbGci", "lease": {"token": "eyJhbGci"}, "list": [{"secret": "rft_hunter2"}]});
        let shown = telling(&body).to_string();
        assert!(!shown.contains("hbGci") && !shown.contains("hunter2"), "{shown}");
        for (name, value) in [("Authorization", "Bearer rft_hunter2"), ("Ringfence-Grant", "eyJhbGci")] {
            let shown = shown_header(name, value);
            assert!(shown.contains('…') && !shown.contains("hunter2") && !shown.contains("hbGci"), "{shown}");
        }
    }

    #[test]
    fn an_answer_is_read_with_its_headers() {
        let answer = b"HTTP/1.1 412 Precondition Failed\r\nETag: \"42\"\r\n\r\n{\"error\":\"stale_version\"}";
        let response = Response::parse(answer).unwrap();
        assert_eq!(response.verdict(), "412 stale_version");
        assert_eq!(response.header("etag"), Some("\"42\""));
        assert!(Response::parse(b"HTTP/1.1 200 OK\r\n").is_none());
    }
}
