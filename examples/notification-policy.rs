//! A target service: notification policies that nobody changes without a grant that is still in force and the
//! version that was read. Everything that refuses is in the guard; what is here is the service itself.
//!
//! `cargo run --example notification-policy -- --cluster http://127.0.0.1:7101 --db policies.sqlite`
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode, header::CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::get};
use clap::Parser;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use ringfence_guard::http::{
    Answer, GuardLayer, GuardedRead, GuardedWrite, NotModified, StrictJson, Versioned,
};
use ringfence_guard::protocol::{ErrorCode, Problem, Tenant, json, jws::Jwks};
use ringfence_guard::{Expected, Freshness, Guard, GuardError, Keys, Request, Verifier, Version};
use ringfence_guard::{http::run_to_end, keys::FetchError, sqlite};
use rusqlite::{Connection, OptionalExtension, Row, types::FromSql};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::{error::Error, io::Write, net::SocketAddr, path::PathBuf, time::Duration};

#[derive(Parser)]
struct Options {
    /// Where to listen; port 0 lets the system choose.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Nodes of the cluster whose grants are taken.
    #[arg(long, value_delimiter = ',', required = true)]
    cluster: Vec<String>,
    /// The tenant whose grants are taken.
    #[arg(long, default_value = "default")]
    tenant: Tenant,
    /// The SQLite file with the policies and the guard's marks.
    #[arg(long)]
    db: PathBuf,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let keys = Keys::from_source(move || fetch_keys(options.cluster.clone())).await?;
    let guard = Guard::new(Verifier::new(Arc::new(keys), options.tenant));
    let service = router(guard, sqlite::open(options.db)?)?;
    let listener = tokio::net::TcpListener::bind(options.listen).await?;
    writeln!(std::io::stdout(), "listening http://{}", listener.local_addr()?)?;
    Ok(axum::serve(listener, service).await?)
}

/// The keys from the first node that answers.
async fn fetch_keys(nodes: Vec<String>) -> Result<Jwks, FetchError> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<&[u8]>>();
    let fetch = async |node: &str| {
        let uri = format!("{node}/.well-known/jwks.json").parse()?;
        let answer = client.get(uri).await?;
        let body = Limited::new(answer, 1 << 20).collect().await?.to_bytes();
        Ok::<Jwks, Box<dyn Error + Send + Sync>>(json::from_slice(&body)?)
    };
    for node in &nodes {
        if let Ok(Ok(keys)) = tokio::time::timeout(Duration::from_secs(2), fetch(node)).await {
            return Ok(keys);
        }
    }
    Err(FetchError::new(format!("no node of {nodes:?} gave its keys")))
}

/// One policy; its id is in the path.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Policy {
    destinations: Vec<String>,
    severity: String,
}

// ?1 is the id, ?2 the body, ?3 the versions that may be replaced. A deleted policy keeps its row: one of the
// same id goes on counting, and no tag ever comes back.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS policies (id TEXT PRIMARY KEY, version INTEGER, body TEXT)";
const READ: &str = "SELECT version, body FROM policies WHERE id = ?1 AND body IS NOT NULL";
const CREATE: &str =
    "INSERT INTO policies VALUES (?1, 1, ?2) ON CONFLICT (id) DO UPDATE SET version = version + 1,
    body = excluded.body WHERE body IS NULL AND ?3 = '[]' RETURNING version, body";
const REPLACE: &str =
    "UPDATE policies SET version = version + 1, body = ?2 WHERE id = ?1 AND body IS NOT NULL
    AND version IN (SELECT value FROM json_each(?3)) RETURNING version, body";
const MERGE: &str = "UPDATE policies SET version = version + 1, body = json_patch(body, ?2) WHERE id = ?1
    AND body IS NOT NULL AND version IN (SELECT value FROM json_each(?3)) RETURNING version, body";

const JSON: [(HeaderName, &str); 1] = [(CONTENT_TYPE, "application/json")];

#[derive(Clone)]
struct Service {
    guard: Guard,
    db: Arc<Mutex<Connection>>,
}

type Id = Path<String>;
type Outcome = Result<Response, Answer>;
type Failure = GuardError<rusqlite::Error>;

pub(crate) fn router(guard: Guard, db: Connection) -> rusqlite::Result<Router> {
    db.execute(TABLE, [])?;
    let layer = GuardLayer::new(guard.clone());
    let methods = get(read).put(put).patch(patch).delete(delete).layer(layer);
    let routes = Router::new().route("/v1/notification-policies/{id}", methods);
    let db = Arc::new(Mutex::new(db));
    Ok(routes.with_state(Service { guard, db }))
}

async fn read(service: State<Service>, Path(id): Id, read: GuardedRead) -> Outcome {
    let found = run_to_end(move || {
        let mut db = service.db.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(grant) = read.grant {
            service.guard.observe(&mut *db, &grant)?;
        }
        Ok::<_, Failure>(db.query_row(READ, [&id], row::<String>).optional()?)
    });
    let absent = || Problem::new(ErrorCode::NotFound, "there is no such policy");
    let (version, body) = found.await?.ok_or_else(absent)?;
    Ok(match read.preconditions.for_read(version)? {
        Freshness::NotModified => Versioned(version, NotModified).into_response(),
        Freshness::Send => Versioned(version, (JSON, body)).into_response(),
    })
}

async fn put(service: State<Service>, id: Id, write: GuardedWrite, policy: StrictJson<Policy>) -> Outcome {
    let body = Some(json!(policy.0).to_string());
    if write.expected != Expected::Absent {
        return service.change("update", id, write, REPLACE, body).await;
    }
    let created = service.change("create", id, write, CREATE, body).await?;
    Ok((StatusCode::CREATED, created).into_response())
}

/// RFC 7396: members that are sent replace, `null` takes out; the outcome has to be a policy again.
async fn patch(service: State<Service>, id: Id, write: GuardedWrite, patch: StrictJson<Value>) -> Outcome {
    let body = Some(patch.0.to_string());
    service.change("update", id, write, MERGE, body).await
}

async fn delete(service: State<Service>, id: Id, write: GuardedWrite) -> Outcome {
    service.change("delete", id, write, REPLACE, None).await
}

impl Service {
    /// One statement in the guard's transaction: marks, version and policy, all of it or nothing.
    async fn change(
        &self,
        action: &str,
        id: Id,
        write: GuardedWrite,
        sql: &'static str,
        body: Option<String>,
    ) -> Outcome {
        let Self { guard, db } = self.clone();
        let request = Request::parse(&format!("notification-policy/{}", *id), action)?;
        let changed = run_to_end(move || {
            let mut db = db.lock().unwrap_or_else(PoisonError::into_inner);
            guard.write(&mut *db, &write.grant, &request, |tx, _permit| {
                let params = (&*id, body, &write.expected);
                let current = |db: &Connection| db.query_row(READ, [&*id], |row| row.get(0)).optional();
                let changed = tx.fenced_update(&write.expected, sql, params, row, current)?;
                let (version, body): (_, Option<String>) = changed;
                // What a merge made of it has to be a policy too; where not, nothing was changed.
                let valid = |body: &String| json::from_slice::<Policy>(body.as_bytes());
                body.as_ref().map(valid).transpose()?;
                Ok::<_, Failure>((version, body))
            })
        });
        Ok(match changed.await? {
            (version, Some(body)) => Versioned(version, (JSON, body)).into_response(),
            (_, None) => StatusCode::NO_CONTENT.into_response(),
        })
    }
}

fn row<Body: FromSql>(row: &Row<'_>) -> rusqlite::Result<(Version, Body)> {
    Ok((row.get(0)?, row.get(1)?))
}
