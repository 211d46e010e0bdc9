//! What can be said of a request without looking at the state.
use crate::{command::Operation, limits, outcome::Refusal};
use alloc::{collections::BTreeMap, format, string::ToString, vec::Vec};
use core::ops::RangeInclusive;
use ringfence_protocol::{
    Role, Scope,
    body::{MAX_LABELS, MAX_WRITE_SET, WriteSetEntry},
};

impl Operation {
    /// Checks the rules that hold whatever the state: ranges, numbers of things, and a write set whose entries do not
    /// overlap.
    ///
    /// # Errors
    /// [`Refusal::InvalidField`] naming the field, or [`Refusal::ScopeTooBroad`].
    pub fn check(&self) -> Result<(), Refusal> {
        match self {
            Self::CreateRun { labels, allow, lifetime_ms, .. } => {
                within("lifetime_ms", *lifetime_ms, &limits::LIFETIME_MS)?;
                count("labels", labels.len(), 0..=MAX_LABELS)?;
                allow.as_ref().map_or(Ok(()), |scopes| check_allow(scopes))
            }
            Self::Acquire { write_set, ttl_ms, .. } => {
                within("ttl_ms", *ttl_ms, &limits::TTL_MS)?;
                check_write_set(write_set)
            }
            Self::CreateToken { role: Role::Operator, .. } => Err(invalid(
                "role",
                "the operator's token is a file of the nodes, not one of a tenant".to_string(),
            )),
            Self::EndRun { .. }
            | Self::Renew { .. }
            | Self::Release { .. }
            | Self::CreateToken { .. }
            | Self::RevokeToken { .. } => Ok(()),
        }
    }
}

fn invalid(field: &str, detail: alloc::string::String) -> Refusal {
    Refusal::InvalidField { field: field.to_string(), detail }
}

fn within(field: &str, value: u64, range: &RangeInclusive<u64>) -> Result<(), Refusal> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(invalid(field, format!("{value} is not within {} to {}", range.start(), range.end())))
}

fn count(field: &str, number: usize, range: RangeInclusive<usize>) -> Result<(), Refusal> {
    if range.contains(&number) {
        return Ok(());
    }
    Err(invalid(field, format!("{number} of them; {} to {} are taken", range.start(), range.end())))
}

fn narrow(scope: &Scope) -> Result<(), Refusal> {
    if scope.segments() < limits::MIN_SEGMENTS { Err(Refusal::ScopeTooBroad(scope.clone())) } else { Ok(()) }
}

fn check_allow(scopes: &[Scope]) -> Result<(), Refusal> {
    count("allow", scopes.len(), 0..=limits::MAX_ALLOW)?;
    scopes.iter().try_for_each(narrow)
}

fn check_write_set(entries: &[WriteSetEntry]) -> Result<(), Refusal> {
    count("write_set", entries.len(), 1..=MAX_WRITE_SET)?;
    entries.iter().try_for_each(|entry| narrow(&entry.scope))?;
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, entry) in entries.iter().enumerate() {
        if let Some(other) = seen.insert(entry.scope.as_str(), at) {
            return Err(overlap(entries, other, at));
        }
    }
    // Two scopes overlap where one is, or lies below, what another's `/**` takes in: each asks for those above it.
    for (at, entry) in entries.iter().enumerate() {
        let above: Vec<_> =
            entry.scope.covering_subtrees().filter(|text| text != entry.scope.as_str()).collect();
        if let Some(other) = above.iter().find_map(|text| seen.get(text.as_str())) {
            return Err(overlap(entries, *other, at));
        }
    }
    Ok(())
}

fn overlap(entries: &[WriteSetEntry], a: usize, b: usize) -> Refusal {
    let (first, second) = (a.min(b), a.max(b));
    let detail = format!(
        "{} overlaps write_set[{first}], which is {}: leave one of them out",
        entries[second].scope, entries[first].scope
    );
    invalid(&format!("write_set[{second}].scope"), detail)
}
