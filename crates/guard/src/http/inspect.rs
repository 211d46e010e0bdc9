//! What the headers of a request say, read once.
use crate::{
    guard::Guard,
    precondition::{Expected, Preconditions},
    refusal::{Lack, Reason, Refusal, Unauthenticated},
    verifier::VerifiedGrant,
};
use http::{
    HeaderMap, HeaderName, Method,
    header::{IF_MATCH, IF_NONE_MATCH},
};
use ringfence_protocol::GRANT_HEADER;

/// The grant, verified, and the preconditions, read.
#[derive(Debug, Clone)]
pub(super) struct Inspected {
    pub(super) grant: Option<VerifiedGrant>,
    pub(super) preconditions: Preconditions,
}

impl Inspected {
    /// Who asks is judged first, then how the rest is written.
    pub(super) async fn of(headers: &HeaderMap, guard: &Guard) -> Result<Self, Refusal> {
        let grant = match grant_token(headers)? {
            Some(token) => Some(guard.authenticate(token).await?),
            None => None,
        };
        let lines = |name| joined(headers, name);
        let (if_match, if_none_match) = (lines(IF_MATCH), lines(IF_NONE_MATCH));
        let preconditions = Preconditions::parse(if_match.as_deref(), if_none_match.as_deref())?;
        Ok(Self { grant, preconditions })
    }

    /// What a write needs, or all that it lacks at once.
    pub(super) fn for_write(&self) -> Result<(VerifiedGrant, Expected), Refusal> {
        match (&self.grant, self.preconditions.for_write()) {
            (Some(grant), Ok(expected)) => Ok((grant.clone(), expected)),
            (grant, version) => {
                Err(Reason::PreconditionRequired(Lack { grant: grant.is_none(), version: version.err() })
                    .into())
            }
        }
    }
}

/// The methods that are refused before their handler where they lack something.
pub(super) fn is_write(method: &Method) -> bool {
    matches!(*method, Method::PUT | Method::PATCH | Method::DELETE)
}

fn grant_token(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut lines = headers.get_all(GRANT_HEADER).iter();
    match (lines.next(), lines.next()) {
        (None, _) => Ok(None),
        (Some(value), None) if value.to_str().is_ok_and(|token| !token.is_empty()) => Ok(value.to_str().ok()),
        (Some(_), _) => Err(Reason::Unauthenticated(Unauthenticated::Header).into()),
    }
}

/// Several lines of a list header are one list (RFC 9110 §5.3).
fn joined(headers: &HeaderMap, name: HeaderName) -> Option<Vec<u8>> {
    let lines: Vec<_> = headers.get_all(name).iter().map(|value| value.as_bytes()).collect();
    (!lines.is_empty()).then(|| lines.join(b", ".as_slice()))
}
