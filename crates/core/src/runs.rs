//! Runs: who acts.
use crate::{
    ask::{Ask, done, owner_of},
    limits,
    outcome::{Done, Event, Refusal, Reply},
    records::{Due, Made, Owner, RunRecord},
    state::State,
};
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    format,
    vec::Vec,
};
use ringfence_protocol::{
    Reason, RunId, Scope,
    body::{Authority, Run, RunState},
    name::LabelKey,
    problem::EndReason,
};

/// A run that is asked for.
pub(crate) struct RunWish {
    pub(crate) id: RunId,
    pub(crate) name: Reason,
    pub(crate) labels: BTreeMap<LabelKey, Reason>,
    pub(crate) allow: Option<Vec<Scope>>,
    pub(crate) authority: Authority,
    pub(crate) lifetime_ms: u64,
}

impl State {
    pub(crate) fn create_run(&mut self, ask: &Ask, wish: RunWish) -> Result<Done, Refusal> {
        let owner = owner_of(&ask.subject);
        if let Some(done) = self.replay(ask, &owner)? {
            return Ok(done);
        }
        let tenant = ask.subject.tenant()?.clone();
        let Some(created_by) = ask.subject.principal.clone() else {
            return Err(Refusal::Unauthenticated);
        };
        if self.runs.contains_key(&wish.id) {
            return Err(Refusal::IdTaken);
        }
        if self.tenants.get(&tenant).is_some_and(|tenant| tenant.active_runs >= limits::RUNS_PER_TENANT) {
            return Err(Refusal::LimitExceeded(format!(
                "{} active runs of one tenant",
                limits::RUNS_PER_TENANT
            )));
        }
        let deadline_ms = self.log_ms.saturating_add(wish.lifetime_ms);
        let record = self.tenant(&tenant);
        record.active_runs += 1;
        record.runs.insert(wish.id);
        self.deadlines.insert((deadline_ms, Due::EndRun(wish.id)));
        self.runs.insert(
            wish.id,
            RunRecord {
                tenant,
                name: wish.name,
                labels: wish.labels,
                allow: wish.allow.map(Vec::into_boxed_slice),
                authority: wish.authority,
                created_by,
                created_at: ask.wall,
                expires_at: ask.wall.plus_ms(wish.lifetime_ms),
                deadline_ms,
                state: RunState::Active,
                reason: None,
                leases: BTreeSet::new(),
                ended: BTreeSet::new(),
            },
        );
        self.note(ask, owner, Made::Run(wish.id));
        Ok(self.run_reply(wish.id).map(done).expect("the run was just made"))
    }

    /// Ends or revokes a run. One that is over stays as it ended: ending it again says how, revoking a run that was
    /// ended, or the other way round, is refused, as nothing can be changed any more.
    pub(crate) fn end_run(
        &mut self,
        ask: &Ask,
        run: RunId,
        revoke: bool,
        reason: &Reason,
        events: &mut Vec<Event>,
    ) -> Result<Done, Refusal> {
        let before = self.run_of(&ask.subject, run)?.state;
        if let Some(done) = self.replay(ask, &Owner::Run(run))? {
            return Ok(done);
        }
        let wanted = if revoke { RunState::Revoked } else { RunState::Ended };
        if before == RunState::Active {
            self.run_over(run, wanted, Some(reason), events);
        } else if before != wanted {
            return Err(Refusal::InvalidTransition(format!("{run} is {before} already")));
        }
        self.note(ask, Owner::Run(run), Made::Run(run));
        Ok(self.run_reply(run).map(done).expect("the run was just looked at"))
    }

    /// A run is over, and its leases with it, in the order of their ids.
    pub(crate) fn run_over(
        &mut self,
        run: RunId,
        state: RunState,
        reason: Option<&Reason>,
        events: &mut Vec<Event>,
    ) {
        let forget_ms = self.log_ms.saturating_add(limits::REMEMBER_MS);
        let Some(record) = self.runs.get_mut(&run) else {
            return;
        };
        self.deadlines.remove(&(record.deadline_ms, Due::EndRun(run)));
        record.state = state;
        record.reason = reason.cloned();
        let (tenant, leases) = (record.tenant.clone(), record.leases.clone());
        self.tenant(&tenant).active_runs -= 1;
        self.ended_runs.insert((forget_ms, run));
        for lease in leases {
            self.end_lease(lease, EndReason::RunEnded, events);
        }
        events.push(Event::RunOver { tenant, run, state });
    }

    pub(crate) fn run_view(&self, run: RunId, log_ms: u64) -> Option<Run> {
        let record = self.runs.get(&run)?;
        let active = record.state == RunState::Active;
        Some(Run {
            id: run,
            tenant: record.tenant.clone(),
            name: record.name.clone(),
            labels: record.labels.clone(),
            allow: record.allow.as_ref().map(|scopes| scopes.to_vec()),
            authority: record.authority,
            state: record.state,
            created_by: record.created_by.clone(),
            created_at: record.created_at,
            expires_at: record.expires_at,
            expires_in_ms: if active { record.deadline_ms.saturating_sub(log_ms) } else { 0 },
            reason: record.reason.clone(),
            leases: None,
            token: None,
        })
    }

    pub(crate) fn run_reply(&self, run: RunId) -> Option<Reply> {
        self.run_view(run, self.log_ms).map(|run| Reply::Run(Box::new(run)))
    }
}
