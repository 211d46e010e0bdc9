//! Log time: what is due ends when an entry moves time past it, in order of deadline, kind and id.
//!
//! Nothing is taken off a list before it has ended: what is due follows from the state, so an expiry can't be lost
//! (etcd once popped a lease from its queue before the revocation had succeeded, and it lived for ever).
use crate::{
    limits,
    outcome::Event,
    records::{Due, KeyId, Made},
    state::State,
};
use alloc::vec::Vec;
use ringfence_protocol::{LeaseId, RunId, TokenId, body::RunState, problem::EndReason};

impl State {
    /// Moves time, never back, and ends what is due.
    pub(crate) fn advance(&mut self, log_ms: u64, events: &mut Vec<Event>) {
        self.log_ms = self.log_ms.max(log_ms);
        while self.deadlines.first().is_some_and(|(at, _)| *at <= self.log_ms)
            && let Some((_, due)) = self.deadlines.pop_first()
        {
            match due {
                Due::EndRun(run) => self.run_over(run, RunState::Expired, None, events),
                Due::EndLease(lease) => self.end_lease(lease, EndReason::Expired, events),
                Due::ForgetToken(token) => self.forget_token(token),
                Due::ForgetKey(key) => self.forget_key(&key),
            }
        }
        self.forget_ended();
    }

    /// Forgets ended leases and runs after their time, and early where more are remembered than may be.
    fn forget_ended(&mut self) {
        while (self.ended_leases.first().is_some_and(|(at, _)| *at <= self.log_ms)
            || self.ended_leases.len() > limits::ENDED_LEASES
            || self.ended_entries > limits::ENDED_ENTRIES)
            && let Some((_, lease)) = self.ended_leases.pop_first()
        {
            self.forget_lease(lease);
        }
        while (self.ended_runs.first().is_some_and(|(at, _)| *at <= self.log_ms)
            || self.ended_runs.len() > limits::ENDED_RUNS)
            && let Some((_, run)) = self.ended_runs.pop_first()
        {
            self.forget_run(run);
        }
    }

    /// A new leader's first entry: nobody could renew during the election, so every lease gets at least
    /// `min(ttl, grace_ms)` from here, but never more than its run has.
    ///
    /// Called before the first entry of a newer term is applied, on every node alike. That entry is Raft's own and
    /// carries no time: log time stands where the old leader left it, and goes on when the new one has applied it.
    pub fn begin_term(&mut self, term: u64) {
        if term <= self.term {
            return;
        }
        self.term = term;
        let grace_ms = self.genesis.as_ref().map_or(0, |genesis| genesis.grace_ms);
        let until = self.log_ms.saturating_add(grace_ms);
        let short: Vec<LeaseId> = self
            .deadlines
            .iter()
            .take_while(|(at, _)| *at < until)
            .filter_map(|(_, due)| if let Due::EndLease(lease) = due { Some(*lease) } else { None })
            .collect();
        for lease in short {
            let Some(record) = self.leases.get(&lease) else {
                continue;
            };
            let (ttl_ms, run) = (record.ttl_ms, record.run);
            self.prolong(lease, run, ttl_ms.min(grace_ms));
        }
    }

    /// Sets a live lease's deadline to `ms` from now, but not before where it is, and not beyond its run's end.
    pub(crate) fn prolong(&mut self, lease: LeaseId, run: RunId, ms: u64) {
        let Some(run_end) = self.runs.get(&run).map(|run| run.deadline_ms) else {
            return;
        };
        let now = self.log_ms;
        let Some(record) = self.leases.get_mut(&lease) else {
            return;
        };
        let old = record.deadline_ms;
        record.deadline_ms = now.saturating_add(ms).max(old).min(run_end);
        let new = record.deadline_ms;
        if new != old {
            self.deadlines.remove(&(old, Due::EndLease(lease)));
            self.deadlines.insert((new, Due::EndLease(lease)));
        }
    }

    fn forget_lease(&mut self, lease: LeaseId) {
        let Some(record) = self.leases.remove(&lease) else {
            return;
        };
        if let Some(tenant) = self.tenants.get_mut(&record.tenant) {
            tenant.leases.remove(&lease);
            for entry in &*record.write_set {
                tenant.index.forget(&entry.scope, lease);
            }
        }
        if let Some(run) = self.runs.get_mut(&record.run) {
            run.ended.remove(&lease);
        }
        self.ended_entries -= record.write_set.len() as u64;
        if let (Some(key), Some(end)) = (record.key, record.end)
            && let Some(request) = self.keys.get_mut(&key)
        {
            request.made = Made::LeaseOver(lease, end.reason);
        }
    }

    fn forget_run(&mut self, run: RunId) {
        if let Some(record) = self.runs.remove(&run)
            && let Some(tenant) = self.tenants.get_mut(&record.tenant)
        {
            tenant.runs.remove(&run);
        }
    }

    fn forget_token(&mut self, token: TokenId) {
        if let Some(record) = self.tokens.remove(&token) {
            self.secrets.remove(&record.secret_hash);
            if let Some(tenant) = self.tenants.get_mut(&record.tenant) {
                tenant.tokens.remove(&token);
            }
        }
    }

    fn forget_key(&mut self, key: &KeyId) {
        self.keys.remove(key);
    }
}
