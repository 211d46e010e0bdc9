//! The leases of the fake cluster, by its own clock: exclusive scopes only, equal text is overlap.
use ringfence_protocol::{
    ErrorCode, Fence, LeaseId, Problem, RunId, Timestamp,
    body::{AcquireLease, Lease, LeaseState},
    problem::EndReason,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::time::Instant;

#[derive(Debug)]
struct Entry {
    lease: Lease,
    ends: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: BTreeMap<LeaseId, Entry>,
    keys: BTreeMap<String, LeaseId>,
    live: BTreeSet<LeaseId>,
    fence: u64,
    grants: u64,
}

type Outcome = Result<(Lease, bool), Problem>;

impl Table {
    pub(crate) fn acquire(&mut self, key: &str, wish: &AcquireLease, waited: Duration) -> Outcome {
        self.expire();
        if let Some(entry) = self.keys.get(key).and_then(|id| self.entries.get(id)) {
            return over(&entry.lease).map_or_else(|| Ok((entry.now(), true)), Err);
        }
        let taken = |id: &&LeaseId| self.entries[id].lease.write_set == wish.write_set;
        if let Some(holder) = self.live.iter().find(taken) {
            let mut problem = Problem::new(ErrorCode::WriteSetConflict, "held");
            problem.lease = Some(*holder);
            return Err(problem);
        }
        let ttl_ms = wish.ttl_ms.unwrap();
        self.fence += 1;
        let mut lease = granted(self.fence, wish);
        lease.waited_ms = u64::try_from(waited.as_millis()).unwrap();
        let ends = Instant::now() + Duration::from_millis(ttl_ms);
        let (id, entry) = (lease.id, Entry { lease, ends });
        let answer = entry.now();
        self.entries.insert(id, entry);
        self.keys.insert(key.to_owned(), id);
        self.live.insert(id);
        Ok((answer, false))
    }

    pub(crate) fn renew(&mut self, id: LeaseId) -> Outcome {
        self.expire();
        let grant = self.grants + 1;
        let entry = self.entry(id)?;
        if let Some(problem) = over(&entry.lease) {
            return Err(problem);
        }
        entry.ends = Instant::now() + Duration::from_millis(entry.lease.ttl_ms);
        entry.lease.grant = Some(format!("grant-{id}-{grant}"));
        let answer = entry.now();
        self.grants = grant;
        Ok((answer, false))
    }

    pub(crate) fn end(&mut self, id: LeaseId, reason: EndReason) -> Outcome {
        self.expire();
        let held = self.live.remove(&id);
        let entry = self.entry(id)?;
        if held {
            entry.end(reason);
        }
        Ok((entry.now(), false))
    }

    pub(crate) fn forget(&mut self, id: LeaseId) {
        self.live.remove(&id);
        self.entries.remove(&id);
    }

    pub(crate) fn held(&mut self) -> Vec<LeaseId> {
        self.expire();
        self.live.iter().copied().collect()
    }

    pub(crate) fn granted(&self) -> usize {
        self.entries.len()
    }

    fn expire(&mut self) {
        let entries = &mut self.entries;
        self.live.retain(|id| {
            let entry = entries.get_mut(id).unwrap();
            let due = entry.ends <= Instant::now();
            if due {
                entry.end(EndReason::Expired);
            }
            !due
        });
    }

    fn entry(&mut self, id: LeaseId) -> Result<&mut Entry, Problem> {
        self.entries.get_mut(&id).ok_or_else(|| Problem::new(ErrorCode::NotFound, "no such lease"))
    }
}

impl Entry {
    fn end(&mut self, reason: EndReason) {
        self.lease.state = LeaseState::Ended;
        self.lease.reason = Some(reason);
    }

    /// As it is at the moment of answering.
    fn now(&self) -> Lease {
        let left = self.ends.saturating_duration_since(Instant::now());
        let expires_in_ms = u64::try_from(left.as_millis()).unwrap();
        Lease { expires_in_ms, ..self.lease.clone() }
    }
}

fn over(lease: &Lease) -> Option<Problem> {
    let reason = lease.reason?;
    let mut problem = Problem::new(ErrorCode::LeaseEnded, "over");
    problem.reason = Some(reason);
    problem.lease = Some(lease.id);
    Some(problem)
}

fn granted(fence: u64, wish: &AcquireLease) -> Lease {
    let id = LeaseId::from_bits(u128::from(fence));
    Lease {
        id,
        run: RunId::from_bits(1),
        state: LeaseState::Held,
        reason: None,
        fence: Fence::new(fence).unwrap(),
        end_fence: None,
        write_set: wish.write_set.clone(),
        ttl_ms: wish.ttl_ms.unwrap(),
        waited_ms: 0,
        expires_in_ms: 0,
        expires_at: Timestamp::default(),
        granted_at: Timestamp::default(),
        purpose: None,
        grant: Some(format!("grant-{id}-0")),
        previous: Vec::new(),
    }
}
