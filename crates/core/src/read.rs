//! Reading the state: nothing here changes it.
//!
//! Whoever reads gives log time as the leader tells it at that moment: it may be ahead of the last entry, and what is
//! said to be left of a lease must not be more than there is.
use crate::{
    ask::Subject,
    outcome::{Refusal, Thing},
    permission::Right,
    records::TenantRecord,
    state::State,
};
use alloc::{collections::BTreeSet, format, vec::Vec};
use core::ops::Bound;
use ringfence_protocol::{
    Action, Fence, LeaseId, ResourceId, RunId, Scope, Tenant, Timestamp, TokenId,
    body::{Holder, Lease, LeaseState, Resource, Run, RunState, Token, Verdict},
    problem::EndReason,
};

/// When a reader reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Log time, as the leader tells it.
    pub log_ms: u64,
    /// Wall time, for what people read.
    pub wall: Timestamp,
}

/// Which leases are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaseFilter {
    /// Of this run only.
    pub run: Option<RunId>,
    /// That overlap this scope only.
    pub scope: Option<Scope>,
    /// In this state only.
    pub state: Option<LeaseState>,
}

/// What a grant is asked to be good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantQuestion {
    /// The tenant in the grant.
    pub tenant: Tenant,
    /// The lease in the grant.
    pub lease: LeaseId,
    /// The fence in the grant.
    pub fence: Fence,
    /// What is to be written.
    pub resource: ResourceId,
    /// What is to be done to it.
    pub action: Action,
}

impl State {
    fn record_of<'a>(
        &'a self,
        subject: &'a Subject,
        right: Right,
    ) -> Result<(&'a Tenant, Option<&'a TenantRecord>), Refusal> {
        subject.need(right)?;
        let tenant = subject.tenant()?;
        Ok((tenant, self.tenants.get(tenant)))
    }

    /// One run, with its live leases.
    ///
    /// # Errors
    /// [`Refusal::NotFound`], also for what another tenant has; [`Refusal::Forbidden`].
    pub fn read_run(&self, subject: &Subject, run: RunId, now: Now) -> Result<Run, Refusal> {
        let (tenant, _) = self.record_of(subject, Right::ReadTenant)?;
        let record = self.runs.get(&run).filter(|record| record.tenant == *tenant);
        let record = record.ok_or(Refusal::NotFound(Thing::Run))?;
        let mut view = self.run_view(run, now.log_ms).ok_or(Refusal::NotFound(Thing::Run))?;
        view.leases = Some(record.leases.iter().filter_map(|lease| self.read_view(*lease, now)).collect());
        Ok(view)
    }

    /// Runs of the tenant in the order of their ids, from behind `after` on.
    ///
    /// # Errors
    /// [`Refusal::Forbidden`].
    pub fn read_runs(
        &self,
        subject: &Subject,
        state: Option<RunState>,
        after: Option<RunId>,
        limit: usize,
        now: Now,
    ) -> Result<Vec<Run>, Refusal> {
        let (_, record) = self.record_of(subject, Right::ReadTenant)?;
        let Some(record) = record else {
            return Ok(Vec::new());
        };
        let wanted = |run: &&RunId| {
            state.is_none_or(|state| self.runs.get(*run).is_some_and(|run| run.state == state))
        };
        let runs = record.runs.range((behind(after), Bound::Unbounded)).filter(wanted).take(limit);
        Ok(runs.filter_map(|run| self.run_view(*run, now.log_ms)).collect())
    }

    /// One lease, also one that is over and still remembered.
    ///
    /// # Errors
    /// [`Refusal::NotFound`], also for what another tenant has; [`Refusal::Forbidden`].
    pub fn read_lease(&self, subject: &Subject, lease: LeaseId, now: Now) -> Result<Lease, Refusal> {
        let (tenant, _) = self.record_of(subject, Right::ReadTenant)?;
        let ours = self.leases.get(&lease).is_some_and(|record| record.tenant == *tenant);
        self.read_view(lease, now).filter(|_| ours).ok_or(Refusal::NotFound(Thing::Lease))
    }

    /// Leases of the tenant in the order of their ids, from behind `after` on.
    ///
    /// # Errors
    /// [`Refusal::Forbidden`].
    pub fn read_leases(
        &self,
        subject: &Subject,
        filter: &LeaseFilter,
        after: Option<LeaseId>,
        limit: usize,
        now: Now,
    ) -> Result<Vec<Lease>, Refusal> {
        let (_, record) = self.record_of(subject, Right::ReadTenant)?;
        let Some(record) = record else {
            return Ok(Vec::new());
        };
        let narrowed = self.narrowed(record, filter);
        let candidates = narrowed.as_ref().unwrap_or(&record.leases);
        let wanted = |lease: &&LeaseId| self.matches(**lease, filter);
        let leases = candidates.range((behind(after), Bound::Unbounded)).filter(wanted).take(limit);
        Ok(leases.filter_map(|lease| self.read_view(*lease, now)).collect())
    }

    /// A small set that has all the leases that are asked for, where a run or a scope leads to one.
    fn narrowed(&self, record: &TenantRecord, filter: &LeaseFilter) -> Option<BTreeSet<LeaseId>> {
        let held = filter.state != Some(LeaseState::Ended);
        let ended = filter.state != Some(LeaseState::Held);
        let mut found = BTreeSet::new();
        if let Some(run) = filter.run {
            // What another tenant's run holds is not there.
            if let Some(run) = self.runs.get(&run).filter(|_| record.runs.contains(&run)) {
                found.extend(run.leases.iter().filter(|_| held));
                found.extend(run.ended.iter().filter(|_| ended));
            }
            return Some(found);
        }
        for (_, node) in record.index.overlapping(filter.scope.as_ref()?) {
            found.extend(node.holders().iter().map(|(_, lease)| lease).filter(|_| held));
            found.extend(node.ended().iter().filter(|_| ended));
        }
        Some(found)
    }

    fn matches(&self, lease: LeaseId, filter: &LeaseFilter) -> bool {
        let Some(record) = self.leases.get(&lease) else {
            return false;
        };
        let state = if record.end.is_none() { LeaseState::Held } else { LeaseState::Ended };
        filter.run.is_none_or(|run| record.run == run)
            && filter.state.is_none_or(|wanted| wanted == state)
            && filter
                .scope
                .as_ref()
                .is_none_or(|scope| record.write_set.iter().any(|entry| entry.scope.overlaps(scope)))
    }

    fn read_view(&self, lease: LeaseId, now: Now) -> Option<Lease> {
        self.lease_view(lease, now.log_ms, now.wall)
    }

    /// Who holds a resource.
    ///
    /// # Errors
    /// [`Refusal::Forbidden`].
    pub fn read_resource(
        &self,
        subject: &Subject,
        resource: &ResourceId,
        now: Now,
    ) -> Result<Resource, Refusal> {
        let (_, record) = self.record_of(subject, Right::ReadTenant)?;
        let mut answer = Resource {
            resource: resource.clone(),
            highest_fence: None,
            holders: Vec::new(),
            waiting: Vec::new(),
        };
        let Some(record) = record else { return Ok(answer) };
        for (scope, node) in record.index.overlapping(&resource.scope()) {
            answer.highest_fence = answer.highest_fence.max(node.highest());
            answer
                .holders
                .extend(node.holders().iter().filter_map(|(_, lease)| self.holder(scope, lease, now)));
        }
        Ok(answer)
    }

    fn holder(&self, scope: &Scope, lease: LeaseId, now: Now) -> Option<Holder> {
        let record = self.leases.get(&lease)?;
        let entry = record.write_set.iter().find(|entry| entry.scope == *scope)?;
        Some(Holder {
            lease,
            run: record.run,
            fence: record.fence,
            scope: scope.clone(),
            mode: entry.mode,
            actions: entry.actions.clone(),
            purpose: record.purpose.clone(),
            expires_in_ms: record.deadline_ms.saturating_sub(now.log_ms),
        })
    }

    /// Tokens in the order of their ids: an admin's tenant's, or, for the operator, those of `tenant` or all.
    ///
    /// # Errors
    /// [`Refusal::Forbidden`].
    pub fn read_tokens(
        &self,
        subject: &Subject,
        tenant: Option<&Tenant>,
        after: Option<TokenId>,
        limit: usize,
    ) -> Result<Vec<Token>, Refusal> {
        subject.need(Right::ManageTokens)?;
        if let (Some(own), Some(named)) = (&subject.tenant, tenant)
            && own != named
        {
            return Err(Refusal::Forbidden(format!("an admin sees the tokens of {own} only")));
        }
        let of = subject.tenant.as_ref().or(tenant);
        let tokens = self.tokens.range((behind(after), Bound::Unbounded));
        let live = tokens.filter(|(_, token)| !token.revoked && of.is_none_or(|of| token.tenant == *of));
        Ok(live.take(limit).filter_map(|(id, _)| self.token_view(*id)).collect())
    }

    /// Whether a grant, its signature checked before, is good at this moment.
    ///
    /// # Errors
    /// [`Refusal::LeaseEnded`], [`Refusal::StaleFence`], [`Refusal::OutOfScope`], [`Refusal::ActionNotPermitted`];
    /// [`Refusal::NotFound`] for a lease of another tenant, or one that ended long ago.
    pub fn verify(&self, subject: &Subject, question: &GrantQuestion, now: Now) -> Result<Verdict, Refusal> {
        let (tenant, _) = self.record_of(subject, Right::Verify)?;
        let lease = question.lease;
        let record =
            self.leases.get(&lease).filter(|record| record.tenant == *tenant && question.tenant == *tenant);
        let record = record.ok_or(Refusal::NotFound(Thing::Lease))?;
        if let Some(end) = record.end {
            return Err(Refusal::LeaseEnded { lease, reason: end.reason });
        }
        if record.fence != question.fence {
            return Err(Refusal::StaleFence { fence: question.fence, current: Some(record.fence) });
        }
        let expires_in_ms = record.deadline_ms.saturating_sub(now.log_ms);
        if expires_in_ms == 0 {
            // The next entry, whatever it is, ends it: nothing can be written under it any more.
            return Err(Refusal::LeaseEnded { lease, reason: EndReason::Expired });
        }
        let entry = record.write_set.iter().find(|entry| entry.scope.covers(&question.resource));
        let entry = entry.ok_or_else(|| Refusal::OutOfScope(question.resource.clone()))?;
        let authority = self.runs.get(&record.run).map(|run| run.authority);
        let writes = authority == Some(ringfence_protocol::body::Authority::Write);
        if !(writes && entry.mode.may_write() && entry.actions.allows(&question.action)) {
            return Err(Refusal::ActionNotPermitted {
                resource: question.resource.clone(),
                action: question.action.clone(),
            });
        }
        Ok(Verdict {
            allowed: true,
            run: record.run,
            lease,
            fence: record.fence,
            mode: entry.mode,
            expires_in_ms,
        })
    }
}

fn behind<T>(after: Option<T>) -> Bound<T> {
    after.map_or(Bound::Unbounded, Bound::Excluded)
}
