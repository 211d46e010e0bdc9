//! Who asks: the credential of a request, and whether its kind has the right to a route.
//!
//! There are three credentials: the operator's token (of the node, not replicated), role tokens (`rft_…`, only their
//! hash is in the state), and the credentials of runs (signed). The tenant, the principal and the run come from them
//! alone. Whether a run or a token may still act is judged on the replicated state: by log time, never by `exp`.
use super::{
    answer::Failure,
    app::{App, Life},
    credentials::Checked,
    routes::Access,
};
use axum::http::{HeaderMap, header::AUTHORIZATION};
use ringfence_core::{Actor, Caller, Refusal, Right};
use ringfence_protocol::{
    ErrorCode, TokenId,
    claims::{RUN_TYPE, RunClaims},
};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What the secret of a role token begins with.
pub const TOKEN_PREFIX: &str = "rft_";
/// The characters of a role token: the prefix and 32 bytes as base64url.
pub(super) const TOKEN_LENGTH: usize = TOKEN_PREFIX.len() + 43;

/// The SHA-256 of a secret: all that is kept of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// Hashes a secret.
    #[must_use]
    pub fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretHash(…)")
    }
}

/// The operator's token, as its hash.
#[derive(Debug)]
pub(super) struct OperatorToken(SecretHash);

impl OperatorToken {
    pub(super) const fn new(hash: SecretHash) -> Self {
        Self(hash)
    }

    /// Compares in constant time: how long it takes says nothing of how much was right.
    fn is(&self, other: &SecretHash) -> bool {
        self.0.0.ct_eq(&other.0).into()
    }
}

/// Whose credential a request came with, and the life of the cluster that it was judged in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Session {
    pub(super) actor: Actor,
    pub(super) life: Life,
}

/// Judges a request's credential and its right to a route; `None` where the route asks for none.
pub(super) async fn enter(
    app: &App,
    headers: &HeaderMap,
    access: Access,
) -> Result<Option<Session>, Failure> {
    match access {
        Access::Open => Ok(None),
        Access::Metrics if !app.metrics_need_token => Ok(None),
        Access::Metrics => {
            // The operator's token needs no state: metrics are there when nothing else is.
            let bearer = bearer(headers)?;
            if app.operator.is(&SecretHash::of(bearer)) {
                return Ok(None);
            }
            judge(app, bearer, Right::ReadMetrics).await.map(Some)
        }
        Access::Right(right) => judge(app, bearer(headers)?, right).await.map(Some),
    }
}

async fn judge(app: &App, bearer: &str, right: Right) -> Result<Session, Failure> {
    let life = life(app).await?;
    let actor = actor(app, bearer, life).await?;
    let caller = caller(app, &actor).await?;
    if right.is_of(caller) {
        Ok(Session { actor, life })
    } else {
        let detail = format!("a credential of kind `{}` may not do this", caller.as_str());
        Err(Failure::new(ErrorCode::Forbidden, detail))
    }
}

/// The cluster's life, waiting once for a node that has only just joined.
async fn life(app: &App) -> Result<Life, Failure> {
    if let Some(life) = app.life() {
        return Ok(life);
    }
    app.confirm().await?;
    app.life().ok_or_else(|| Failure::refused(Refusal::NotReady))
}

async fn actor(app: &App, bearer: &str, life: Life) -> Result<Actor, Failure> {
    let hash = SecretHash::of(bearer);
    if app.operator.is(&hash) {
        Ok(Actor::Operator)
    } else if bearer.starts_with(TOKEN_PREFIX) {
        token(app, bearer, &hash).await.map(Actor::Token)
    } else {
        run(app, bearer, &hash, life)
    }
}

/// A token that isn't in this node's state may have been made through another node: look again, as new as can be.
async fn token(app: &App, bearer: &str, hash: &SecretHash) -> Result<TokenId, Failure> {
    let find = || app.consensus.read(|state, _| state.token_by_hash(hash.bytes()));
    if bearer.len() != TOKEN_LENGTH {
        return Err(unknown());
    }
    if let Some(token) = find() {
        return Ok(token);
    }
    app.confirm().await?;
    find().ok_or_else(unknown)
}

fn run(app: &App, bearer: &str, hash: &SecretHash, life: Life) -> Result<Actor, Failure> {
    let checked = match app.credentials.get(hash.bytes()) {
        Some(checked) => checked,
        None => {
            let checked = check_signature(app, bearer)?;
            app.credentials.insert(*hash.bytes(), checked);
            checked
        }
    };
    if checked.life == life {
        Ok(Actor::Run(checked.run))
    } else {
        let detail = "this credential is of another cluster, or of one before a restore";
        Err(Failure::new(ErrorCode::Unauthenticated, detail))
    }
}

fn check_signature(app: &App, bearer: &str) -> Result<Checked, Failure> {
    let claims: RunClaims = app.keys.verify(RUN_TYPE, bearer).map_err(|_| unknown())?;
    let life = Life { cluster: claims.iss, incarnation: claims.inc };
    Ok(Checked { run: claims.sub, life })
}

/// The kind of caller, from this node's state; where that knows no such run or token, from the newest.
async fn caller(app: &App, actor: &Actor) -> Result<Caller, Failure> {
    let judge = || app.consensus.read(|state, _| state.subject(actor).map(|subject| subject.caller));
    match judge() {
        Err(Refusal::Unauthenticated) => {
            app.confirm().await?;
            judge().map_err(Failure::refused)
        }
        other => other.map_err(Failure::refused),
    }
}

/// The token in `Authorization: Bearer …` (RFC 6750 §2.1), the only place where a credential is looked for.
fn bearer(headers: &HeaderMap) -> Result<&str, Failure> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or_else(missing)?;
    if values.next().is_some() {
        return Err(Failure::new(ErrorCode::Unauthenticated, "send one Authorization header"));
    }
    let (scheme, token) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(missing)?;
    let token = token.trim_matches(' ');
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
        return Err(missing());
    }
    Ok(token)
}

fn missing() -> Failure {
    Failure::new(ErrorCode::Unauthenticated, "send a credential as `Authorization: Bearer …`")
}

fn unknown() -> Failure {
    Failure::new(ErrorCode::Unauthenticated, "this cluster knows no such credential")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_bearer_token_is_taken_whatever_the_case_of_its_scheme() {
        for good in ["Bearer abc", "bearer abc", "BEARER  abc"] {
            assert_eq!(bearer(&headers(&[good])).unwrap(), "abc");
        }
    }

    #[test]
    fn anything_but_one_bearer_token_is_unauthenticated() {
        for bad in [&[][..], &["Basic abc"], &["Bearer"], &["Bearer "], &["abc"], &["Bearer a", "Bearer b"]] {
            assert_eq!(bearer(&headers(bad)).unwrap_err().code(), ErrorCode::Unauthenticated, "{bad:?}");
        }
    }

    #[test]
    fn the_operators_token_is_recognised_by_its_hash_and_hashes_stay_out_of_logs() {
        let token = OperatorToken::new(SecretHash::of("secret"));
        assert!(token.is(&SecretHash::of("secret")));
        assert!(!token.is(&SecretHash::of("secret ")));
        assert_eq!(format!("{token:?}"), "OperatorToken(SecretHash(…))");
    }
}
