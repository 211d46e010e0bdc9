//! Answers: the body with what the headers say, and the reading of problems.
use crate::{clock::BootInstant, error::Error};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use ringfence_protocol::{ErrorCode, Problem, REPLAYED_HEADER, REVISION_HEADER};
use serde::de::DeserializeOwned;

/// What a node answered, with what its headers say.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer<T> {
    /// The body.
    pub body: T,
    /// The body as it came, also what `T` has no place for.
    pub raw: Bytes,
    /// The HTTP status, 200 to 299.
    pub status: u16,
    /// Whether it repeats the outcome of an earlier request with the same key.
    pub replayed: bool,
    /// The revision of the state it was given from: opaque.
    pub revision: Option<String>,
    /// The id of the request in the node's log.
    pub request_id: Option<String>,
}

impl<T> Answer<T> {
    /// The same answer with another body.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Answer<U> {
        Answer {
            body: change(self.body),
            raw: self.raw,
            status: self.status,
            replayed: self.replayed,
            revision: self.revision,
            request_id: self.request_id,
        }
    }
}

/// An answer with the moment that the request it answers was sent at.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) answer: Answer<Bytes>,
    /// When the request that this answers was sent.
    pub(crate) sent: BootInstant,
    /// When the first request with this meaning was sent.
    pub(crate) first_sent: BootInstant,
}

/// What an HTTP answer comes to.
#[derive(Debug)]
pub(crate) enum Reading {
    Success(Answer<Bytes>),
    Problem(Box<Problem>),
    /// Neither, such as a page of a proxy.
    Foreign {
        status: u16,
        detail: String,
    },
}

pub(crate) fn read(response: http::Response<Bytes>) -> Reading {
    let (head, body) = response.into_parts();
    if head.status.is_success() {
        return Reading::Success(Answer {
            raw: body.clone(),
            body,
            status: head.status.as_u16(),
            replayed: header(&head.headers, REPLAYED_HEADER).as_deref() == Some("true"),
            revision: header(&head.headers, REVISION_HEADER),
            request_id: header(&head.headers, "x-request-id"),
        });
    }
    match read_problem(head.status, &body) {
        Some(mut problem) => {
            if problem.request_id.is_none() {
                problem.request_id = header(&head.headers, "x-request-id");
            }
            Reading::Problem(Box::new(problem))
        }
        None => Reading::Foreign { status: head.status.as_u16(), detail: excerpt(&body) },
    }
}

/// Reads a body as `T`.
pub(crate) fn decode<T: DeserializeOwned>(answer: Answer<Bytes>) -> Result<Answer<T>, Error> {
    match serde_json::from_slice(&answer.body) {
        Ok(body) => Ok(answer.map(|_| body)),
        Err(error) => Err(Error::Unreadable { status: answer.status, detail: error.to_string() }),
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

/// A problem of this API has a code that is known here and the status that belongs to it: a page of a proxy with
/// status 404 must not be taken for the word of the cluster.
fn read_problem(status: StatusCode, body: &[u8]) -> Option<Problem> {
    let read = serde_json::from_slice(body).ok().or_else(|| read_newer(body))?;
    let problem: Problem = read;
    (problem.status == status.as_u16() && problem.error.status() == problem.status).then_some(problem)
}

/// A newer node may end leases for reasons that have no word here. That the lease is over must not get lost.
fn read_newer(body: &[u8]) -> Option<Problem> {
    let mut value: serde_json::Value = serde_json::from_slice(body).ok()?;
    let members = value.as_object_mut()?;
    if members.get("error")?.as_str()? != ErrorCode::LeaseEnded.as_str() {
        return None;
    }
    members.remove("reason");
    serde_json::from_value(value).ok()
}

fn excerpt(body: &[u8]) -> String {
    const MOST_CHARS: usize = 200;
    let text = String::from_utf8_lossy(body);
    let line = text.chars().filter(|character| !character.is_control());
    line.take(MOST_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_protocol::problem::EndReason;

    fn problem_answer(status: u16, problem: &serde_json::Value) -> Reading {
        let body = Bytes::from(serde_json::to_vec(problem).unwrap());
        read(http::Response::builder().status(status).body(body).unwrap())
    }

    #[test]
    fn an_end_for_a_reason_unknown_here_is_still_an_end() {
        let mut ended = Problem::new(ErrorCode::LeaseEnded, "over");
        ended.reason = Some(EndReason::Revoked);
        let mut value = serde_json::to_value(&ended).unwrap();
        assert!(
            matches!(problem_answer(410, &value), Reading::Problem(p) if p.reason == Some(EndReason::Revoked))
        );
        value["reason"] = "of_tomorrow".into();
        assert!(matches!(problem_answer(410, &value), Reading::Problem(p) if p.reason.is_none()));
    }

    #[test]
    fn a_page_of_a_proxy_is_no_problem_of_the_cluster() {
        let page = Bytes::from_static(b"<html>\nnot found</html>");
        let read_page = read(http::Response::builder().status(404).body(page).unwrap());
        assert!(
            matches!(read_page, Reading::Foreign { status: 404, detail } if detail == "<html>not found</html>")
        );
        let value = serde_json::to_value(Problem::new(ErrorCode::NotFound, "x")).unwrap();
        assert!(matches!(problem_answer(502, &value), Reading::Foreign { status: 502, .. }));
    }
}
