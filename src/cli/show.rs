//! Tables for people, JSON for programs.
use super::{failure::Failure, output};
use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets::NOTHING};
use ringfence_client::Answer;
use ringfence_protocol::body::{ClusterStatus, Lease, Page, Resource, Run, Token, WriteSetEntry};
use std::process::ExitCode;

/// How answers are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Columns for people.
    Table,
    /// The API's own body as it came: one JSON document.
    Json,
}

/// What has columns.
pub(crate) trait Rows {
    fn header() -> &'static [&'static str];
    fn rows(&self) -> Vec<Vec<String>>;
    /// What a table has no room for.
    fn below(&self) -> Option<String> {
        None
    }
}

/// Shows an answer.
///
/// # Errors
/// Where nobody reads any more.
pub(crate) fn show<T: Rows>(how: Output, answer: &Answer<T>) -> Result<ExitCode, Failure> {
    let text = match how {
        Output::Json => String::from_utf8_lossy(&answer.raw).into_owned(),
        Output::Table => table(&answer.body),
    };
    output::line(&text).map_err(|error| Failure::local("can't be shown", error))?;
    if answer.replayed && how == Output::Table {
        output::note("(this repeats an earlier outcome: the Idempotency-Key was used before)");
    }
    Ok(ExitCode::SUCCESS)
}

/// Columns without lines, which `awk` reads too.
pub(crate) fn columns(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table.add_rows(rows);
    let text = table.trim_fmt();
    let lines: Vec<&str> = text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    lines.join("\n")
}

fn table<T: Rows>(body: &T) -> String {
    let mut text = columns(T::header(), body.rows());
    if let Some(below) = body.below() {
        text.push('\n');
        text.push_str(&below);
    }
    text
}

pub(crate) fn optional<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(|| "-".to_owned(), ToString::to_string)
}

fn write_set(entries: &[WriteSetEntry]) -> String {
    let texts: Vec<String> = entries.iter().map(|entry| format!("{}:{}", entry.scope, entry.mode)).collect();
    texts.join(" ")
}

fn run_row(run: &Run) -> Vec<String> {
    let allow = run.allow.as_ref().map_or_else(
        || "any".to_owned(),
        |scopes| scopes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
    );
    vec![
        run.id.to_string(),
        run.name.to_string(),
        run.state.to_string(),
        run.created_by.to_string(),
        run.expires_in_ms.to_string(),
        allow,
    ]
}

impl Rows for Run {
    fn header() -> &'static [&'static str] {
        &["RUN", "NAME", "STATE", "CREATED BY", "EXPIRES IN MS", "ALLOW"]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        vec![run_row(self)]
    }

    fn below(&self) -> Option<String> {
        let token = self.token.as_ref().map(|token| format!("credential: {token}"));
        let leases = self.leases.as_ref().map(|leases| {
            let rows: Vec<String> = leases.iter().map(|lease| lease_row(lease).join("  ")).collect();
            format!("live leases: {}\n{}", leases.len(), rows.join("\n")).trim_end().to_owned()
        });
        token.or(leases)
    }
}

fn lease_row(lease: &Lease) -> Vec<String> {
    vec![
        lease.id.to_string(),
        lease.run.to_string(),
        lease.reason.map_or_else(|| lease.state.to_string(), |reason| reason.to_string()),
        lease.fence.to_string(),
        lease.expires_in_ms.to_string(),
        write_set(&lease.write_set),
        optional(lease.purpose.as_ref()),
    ]
}

impl Rows for Lease {
    fn header() -> &'static [&'static str] {
        &["LEASE", "RUN", "STATE", "FENCE", "EXPIRES IN MS", "WRITE SET", "PURPOSE"]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        vec![lease_row(self)]
    }

    fn below(&self) -> Option<String> {
        let previous = self.previous.iter().map(|previous| {
            let (scope, lease, run, ended) = (&previous.scope, previous.lease, previous.run, previous.ended);
            format!("note: {scope} was held before by {run} under {lease}, which did not release it: {ended}")
        });
        let lines: Vec<String> =
            previous.chain(self.grant.iter().map(|grant| format!("grant: {grant}"))).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

impl<T: Rows> Rows for Page<T> {
    fn header() -> &'static [&'static str] {
        T::header()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        self.items.iter().flat_map(Rows::rows).collect()
    }

    fn below(&self) -> Option<String> {
        self.next_cursor.as_ref().map(|cursor| format!("more: --cursor {cursor}"))
    }
}

impl Rows for Token {
    fn header() -> &'static [&'static str] {
        &["TOKEN", "TENANT", "PRINCIPAL", "CREATED AT"]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let (id, at) = (self.id.to_string(), self.created_at.to_string());
        vec![vec![id, self.tenant.to_string(), self.principal.to_string(), at]]
    }

    fn below(&self) -> Option<String> {
        self.secret.as_ref().map(|secret| format!("secret (shown this once): {secret}"))
    }
}

impl Rows for Resource {
    fn header() -> &'static [&'static str] {
        &["SCOPE", "MODE", "RUN", "LEASE", "FENCE", "EXPIRES IN MS", "PURPOSE"]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |holder: &ringfence_protocol::body::Holder| {
            vec![
                holder.scope.to_string(),
                holder.mode.to_string(),
                holder.run.to_string(),
                holder.lease.to_string(),
                holder.fence.to_string(),
                holder.expires_in_ms.to_string(),
                optional(holder.purpose.as_ref()),
            ]
        };
        self.holders.iter().map(row).collect()
    }

    fn below(&self) -> Option<String> {
        let holders = if self.holders.is_empty() { "nobody holds it; " } else { "" };
        Some(format!("{holders}highest fence remembered: {}", optional(self.highest_fence.as_ref())))
    }
}

impl Rows for ClusterStatus {
    fn header() -> &'static [&'static str] {
        &["NODE", "STATE", "VOTER", "LAG", "API", "PEER"]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |node: &ringfence_protocol::body::NodeStatus| {
            let state = serde_json::to_value(node.state).ok();
            let state = state.and_then(|state| state.as_str().map(str::to_owned)).unwrap_or_default();
            let voter = if node.voter { "yes" } else { "no" };
            vec![
                node.id.to_string(),
                state,
                voter.to_owned(),
                optional(node.lag.as_ref()),
                node.api.clone(),
                node.peer.clone(),
            ]
        };
        self.nodes.iter().map(row).collect()
    }

    fn below(&self) -> Option<String> {
        let leader = self.leader.map_or_else(|| "none".to_owned(), |leader| format!("node {leader}"));
        Some(format!(
            "cluster {}, leader {leader}, term {}, revision {}",
            self.cluster, self.term, self.revision
        ))
    }
}
