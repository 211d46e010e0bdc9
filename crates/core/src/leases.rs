//! Leases: what a run may write, and until when.
use crate::{
    ask::{Ask, done},
    limits,
    outcome::{Done, Event, Granted, MAX_CONFLICTS, Refusal, Reply, Thing},
    records::{Due, End, LeaseRecord, Made, Owner},
    state::State,
};
use alloc::{boxed::Box, format, string::ToString, vec::Vec};
use ringfence_protocol::{
    Fence, LeaseId, Mode, Reason, RunId, Scope, Timestamp,
    body::{Conflict, Lease, LeaseState, Previous, RunState, WriteSetEntry},
    problem::EndReason,
};

/// The most earlier holders that one answer lists.
const MAX_PREVIOUS: usize = 100;

/// A lease that is asked for.
pub(crate) struct LeaseWish {
    pub(crate) id: LeaseId,
    pub(crate) write_set: Vec<WriteSetEntry>,
    pub(crate) ttl_ms: u64,
    pub(crate) purpose: Option<Reason>,
}

impl State {
    /// Grants the whole write set under one fence, or changes nothing.
    pub(crate) fn acquire(
        &mut self,
        ask: &Ask,
        run: Option<RunId>,
        wish: LeaseWish,
        events: &mut Vec<Event>,
    ) -> Result<Done, Refusal> {
        let run = run.or(ask.subject.run).ok_or_else(|| Refusal::InvalidField {
            field: "run".to_string(),
            detail: "name the run that will hold the lease".to_string(),
        })?;
        self.run_of(&ask.subject, run)?;
        if let Some(done) = self.replay(ask, &Owner::Run(run))? {
            return Ok(done);
        }
        self.may_lease(run, &wish)?;
        self.find_conflicts(run, &wish.write_set)?;
        let previous = self.previous(run, &wish.write_set);
        let lease = self.grant(ask, run, wish, events);
        let mut granted = self.granted(lease, ask.wall).expect("the lease was just granted");
        granted.lease.previous = previous;
        Ok(done(Reply::Lease(Box::new(granted))))
    }

    fn may_lease(&self, run: RunId, wish: &LeaseWish) -> Result<(), Refusal> {
        let record = self.runs.get(&run).ok_or(Refusal::NotFound(Thing::Run))?;
        if record.state != RunState::Active {
            return Err(Refusal::RunEnded(run));
        }
        if let Some(allow) = &record.allow {
            let outside = |entry: &&WriteSetEntry| !allow.iter().any(|bound| bound.contains(&entry.scope));
            if let Some(entry) = wish.write_set.iter().find(outside) {
                return Err(Refusal::OutsideAllowance(entry.scope.clone()));
            }
        }
        if self.leases.contains_key(&wish.id) {
            return Err(Refusal::IdTaken);
        }
        if record.leases.len() >= limits::LEASES_PER_RUN {
            return Err(Refusal::LimitExceeded(format!("{} live leases of one run", limits::LEASES_PER_RUN)));
        }
        if self.live_leases >= limits::LIVE_LEASES {
            return Err(Refusal::LimitExceeded(format!("{} live leases in all", limits::LIVE_LEASES)));
        }
        if self.last_fence >= Fence::MAX - limits::RESERVED_FENCES {
            return Err(Refusal::LimitExceeded("the fences of this cluster are used up".to_string()));
        }
        Ok(())
    }

    /// Refuses what the run itself holds, and what others hold in a mode that doesn't go with it.
    fn find_conflicts(&self, run: RunId, write_set: &[WriteSetEntry]) -> Result<(), Refusal> {
        let Some(index) = self.runs.get(&run).and_then(|run| self.index(&run.tenant)) else {
            return Ok(());
        };
        let mut conflicts = Vec::new();
        let mut truncated = false;
        for entry in write_set {
            for (held_scope, node) in index.overlapping(&entry.scope) {
                if let Some(lease) = node.held_by(run) {
                    return Err(Refusal::AlreadyHeld { lease, scope: held_scope.clone() });
                }
                for (held_mode, (_, lease)) in node.incompatible(entry.mode) {
                    if conflicts.len() == MAX_CONFLICTS {
                        truncated = true;
                        break;
                    }
                    conflicts.extend(self.conflict(entry, held_scope, held_mode, lease));
                }
            }
        }
        if conflicts.is_empty() { Ok(()) } else { Err(Refusal::Conflict { conflicts, truncated }) }
    }

    fn conflict(
        &self,
        entry: &WriteSetEntry,
        held_scope: &Scope,
        held_mode: Mode,
        lease: LeaseId,
    ) -> Option<Conflict> {
        let record = self.leases.get(&lease)?;
        Some(Conflict {
            scope: entry.scope.clone(),
            mode: entry.mode,
            held_scope: held_scope.clone(),
            held_mode,
            lease,
            run: record.run,
            fence: record.fence,
            purpose: record.purpose.clone(),
            held_since: record.granted_at,
            expires_in_ms: record.deadline_ms.saturating_sub(self.log_ms),
        })
    }

    /// Who held overlapping scopes last and did not release them cleanly.
    fn previous(&self, run: RunId, write_set: &[WriteSetEntry]) -> Vec<Previous> {
        let Some(index) = self.runs.get(&run).and_then(|run| self.index(&run.tenant)) else {
            return Vec::new();
        };
        let nodes = write_set.iter().flat_map(|entry| index.overlapping(&entry.scope));
        nodes
            .filter_map(|(scope, node)| {
                let lease = node.last_ended()?;
                let record = self.leases.get(&lease)?;
                let end = record.end.filter(|end| !end.reason.is_clean())?;
                Some(Previous { scope: scope.clone(), lease, run: record.run, ended: end.reason })
            })
            .take(MAX_PREVIOUS)
            .collect()
    }

    fn grant(&mut self, ask: &Ask, run: RunId, wish: LeaseWish, events: &mut Vec<Event>) -> LeaseId {
        let fence = self.take_fence();
        let LeaseWish { id, write_set, ttl_ms, purpose } = wish;
        let key = self.note(ask, Owner::Run(run), Made::Lease(id));
        let record = self.runs.get_mut(&run).expect("the run was judged before");
        record.leases.insert(id);
        let tenant = record.tenant.clone();
        let deadline_ms = self.log_ms.saturating_add(ttl_ms).min(record.deadline_ms);
        let of_tenant = self.tenant(&tenant);
        of_tenant.leases.insert(id);
        for entry in &write_set {
            of_tenant.index.insert(&entry.scope, entry.mode, (run, id), fence);
        }
        self.live_leases += 1;
        self.deadlines.insert((deadline_ms, Due::EndLease(id)));
        events.push(Event::Granted { tenant: tenant.clone(), lease: id, run, fence });
        self.leases.insert(
            id,
            LeaseRecord {
                tenant,
                run,
                fence,
                write_set: write_set.into(),
                ttl_ms,
                deadline_ms,
                granted_at: ask.wall,
                purpose,
                end: None,
                key,
            },
        );
        id
    }

    /// Prolongs a live lease. Never creates one.
    pub(crate) fn renew(&mut self, ask: &Ask, lease: LeaseId) -> Result<Done, Refusal> {
        let record = self.lease_of(ask, lease)?;
        if let Some(end) = record.end {
            return Err(Refusal::LeaseEnded { lease, reason: end.reason });
        }
        let (run, ttl_ms) = (record.run, record.ttl_ms);
        self.prolong(lease, run, ttl_ms);
        Ok(self.lease_reply(lease, ask.wall).map(done).expect("the lease was just looked at"))
    }

    /// Gives a lease back, or says how it ended. Never touches a successor: a lease is named by its id.
    pub(crate) fn release(
        &mut self,
        ask: &Ask,
        lease: LeaseId,
        events: &mut Vec<Event>,
    ) -> Result<Done, Refusal> {
        if self.lease_of(ask, lease)?.end.is_none() {
            self.end_lease(lease, EndReason::Released, events);
        }
        Ok(self.lease_reply(lease, ask.wall).map(done).expect("the lease was just looked at"))
    }

    /// A lease of a run that the subject may act for.
    fn lease_of(&self, ask: &Ask, lease: LeaseId) -> Result<&LeaseRecord, Refusal> {
        let tenant = ask.subject.tenant()?;
        let record = self.leases.get(&lease).filter(|record| record.tenant == *tenant);
        let record = record.ok_or(Refusal::NotFound(Thing::Lease))?;
        match self.run_of(&ask.subject, record.run) {
            // A run that ended long ago is forgotten before its last lease only where nobody can act for it.
            Ok(_) => Ok(record),
            Err(Refusal::Forbidden(_)) => Err(Refusal::Forbidden(format!("{lease} belongs to another run"))),
            Err(other) => Err(other),
        }
    }

    /// A live lease is over. Every end but a clean release takes a fence of its own, before the grants that it makes
    /// possible: a target that hears of it refuses the late holder before any new one has written.
    pub(crate) fn end_lease(&mut self, lease: LeaseId, reason: EndReason, events: &mut Vec<Event>) {
        if self.leases.get(&lease).is_none_or(|record| record.end.is_some()) {
            return;
        }
        let end_fence = (!reason.is_clean()).then(|| self.take_fence());
        let remember_until = self.log_ms.saturating_add(limits::REMEMBER_LEASE_MS);
        let Some(record) = self.leases.get_mut(&lease) else {
            return;
        };
        record.end = Some(End { reason, fence: end_fence });
        self.deadlines.remove(&(record.deadline_ms, Due::EndLease(lease)));
        if let Some(key) = &record.key {
            self.deadlines.insert((remember_until, Due::ForgetKey(key.clone())));
        }
        self.ended_leases.insert((remember_until, lease));
        let (run, fence, tenant) = (record.run, record.fence, record.tenant.clone());
        let entries = record.write_set.len() as u64;
        if let Some(of_tenant) = self.tenants.get_mut(&tenant) {
            for entry in &*record.write_set {
                of_tenant.index.end(&entry.scope, (run, lease), end_fence);
            }
        }
        if let Some(run) = self.runs.get_mut(&run) {
            run.leases.remove(&lease);
            run.ended.insert(lease);
        }
        self.live_leases -= 1;
        self.ended_entries += entries;
        events.push(Event::Ended { tenant, lease, run, fence, reason, end_fence });
    }

    pub(crate) fn lease_view(&self, lease: LeaseId, log_ms: u64, wall: Timestamp) -> Option<Lease> {
        let record = self.leases.get(&lease)?;
        let expires_in_ms = if record.end.is_none() { record.deadline_ms.saturating_sub(log_ms) } else { 0 };
        Some(Lease {
            id: lease,
            run: record.run,
            state: if record.end.is_none() { LeaseState::Held } else { LeaseState::Ended },
            reason: record.end.map(|end| end.reason),
            fence: record.fence,
            end_fence: record.end.and_then(|end| end.fence),
            write_set: record.write_set.to_vec(),
            ttl_ms: record.ttl_ms,
            waited_ms: 0,
            expires_in_ms,
            expires_at: wall.plus_ms(expires_in_ms),
            granted_at: record.granted_at,
            purpose: record.purpose.clone(),
            grant: None,
            previous: Vec::new(),
        })
    }

    fn granted(&self, lease: LeaseId, wall: Timestamp) -> Option<Granted> {
        let lease = self.lease_view(lease, self.log_ms, wall)?;
        let run = self.runs.get(&lease.run)?;
        Some(Granted {
            tenant: run.tenant.clone(),
            principal: run.created_by.clone(),
            authority: run.authority,
            lease,
        })
    }

    pub(crate) fn lease_reply(&self, lease: LeaseId, wall: Timestamp) -> Option<Reply> {
        self.granted(lease, wall).map(|granted| Reply::Lease(Box::new(granted)))
    }
}
