//! What must hold after every command, checked by a full scan. For tests; `apply` itself never runs it.
use crate::{
    records::{Due, TenantRecord},
    state::State,
};
use alloc::{collections::BTreeMap, format, string::String};
use ringfence_protocol::body::RunState;

impl State {
    /// Checks that the indexes say what the records say, that no two incompatible leases overlap, and that every
    /// deadline is in the order of deadlines.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.check_overlaps()?;
        self.check_index()?;
        self.check_owners()?;
        self.check_deadlines()?;
        self.check_counts()
    }

    fn check_overlaps(&self) -> Result<(), String> {
        let held: alloc::vec::Vec<_> =
            self.leases.iter().filter(|(_, record)| record.end.is_none()).collect();
        for (at, (a, first)) in held.iter().enumerate() {
            for (b, second) in &held[at + 1..] {
                let clash = first.tenant == second.tenant
                    && first.write_set.iter().any(|x| {
                        let clashes = |y: &&ringfence_protocol::body::WriteSetEntry| {
                            x.scope.overlaps(&y.scope) && !x.mode.is_compatible(y.mode)
                        };
                        second.write_set.iter().any(|y| clashes(&y))
                    });
                if clash {
                    return Err(format!("{a} and {b} are incompatible, and both held"));
                }
            }
        }
        Ok(())
    }

    fn check_index(&self) -> Result<(), String> {
        let (mut held, mut ended) = (0, 0);
        for (lease, record) in &self.leases {
            for entry in &*record.write_set {
                let node = self.index(&record.tenant).and_then(|index| index.nodes().get(&entry.scope));
                let listed = node.is_some_and(|node| {
                    if record.end.is_some() {
                        ended += 1;
                        return node.ended().contains(lease);
                    }
                    held += 1;
                    node.holders().mode() == Some(entry.mode)
                        && node.holders().iter().any(|holder| holder == (record.run, *lease))
                });
                if !listed {
                    return Err(format!("{lease} has {} and isn't in the index", entry.scope));
                }
            }
        }
        self.check_nodes(held, ended)
    }

    /// The index has no more than what the leases say.
    fn check_nodes(&self, held: usize, ended: usize) -> Result<(), String> {
        let nodes = || self.tenants.values().flat_map(|tenant| tenant.index.nodes());
        if let Some((scope, _)) = nodes().find(|(_, node)| node.is_forgotten()) {
            return Err(format!("{scope} is in the index, and nobody has it"));
        }
        let indexed = nodes().map(|(_, node)| node.holders().iter().count()).sum::<usize>();
        let remembered = nodes().map(|(_, node)| node.ended().len()).sum::<usize>();
        if (indexed, remembered, self.ended_entries) == (held, ended, ended as u64) {
            Ok(())
        } else {
            Err(format!("the index has {indexed} holds and {remembered} ends, the leases {held} and {ended}"))
        }
    }

    fn check_owners(&self) -> Result<(), String> {
        for (lease, record) in &self.leases {
            let of_run = self.runs.get(&record.run).is_none_or(|run| {
                (run.leases.contains(lease), run.ended.contains(lease))
                    == (record.end.is_none(), record.end.is_some())
            });
            let of_tenant = self.tenants.get(&record.tenant).is_some_and(|of| of.leases.contains(lease));
            if !(of_run && of_tenant) {
                return Err(format!("{lease} isn't listed with its run or its tenant"));
            }
        }
        let of_runs: usize = self.runs.values().map(|run| run.leases.len() + run.ended.len()).sum();
        let of_tenants = |count: fn(&TenantRecord) -> usize| self.tenants.values().map(count).sum::<usize>();
        let sets = [
            (of_tenants(|tenant| tenant.leases.len()), self.leases.len()),
            (of_tenants(|tenant| tenant.runs.len()), self.runs.len()),
            (of_tenants(|tenant| tenant.tokens.len()), self.tokens.len()),
            (self.secrets.len(), self.tokens.len()),
        ];
        if of_runs > self.leases.len() || sets.iter().any(|(listed, there)| listed != there) {
            return Err(format!("{of_runs} leases are listed with runs; tenants' lists: {sets:?}"));
        }
        Ok(())
    }

    fn check_deadlines(&self) -> Result<(), String> {
        for (lease, record) in &self.leases {
            let listed = self.deadlines.contains(&(record.deadline_ms, Due::EndLease(*lease)));
            if listed != record.end.is_none() {
                return Err(format!(
                    "{lease} ends at {}, and its deadline says otherwise",
                    record.deadline_ms
                ));
            }
            if record.end.is_none() && record.deadline_ms <= self.log_ms {
                return Err(format!(
                    "{lease} is held at {} though it was due at {}",
                    self.log_ms, record.deadline_ms
                ));
            }
        }
        for (run, record) in &self.runs {
            let listed = self.deadlines.contains(&(record.deadline_ms, Due::EndRun(*run)));
            if listed != (record.state == RunState::Active) {
                return Err(format!("{run} is {}, and its deadline says otherwise", record.state));
            }
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<(), String> {
        let live = self.leases.values().filter(|record| record.end.is_none()).count() as u64;
        if live != self.live_leases {
            return Err(format!("{live} leases are held, {} are counted", self.live_leases));
        }
        let mut active: BTreeMap<_, u64> = BTreeMap::new();
        for record in self.runs.values().filter(|record| record.state == RunState::Active) {
            *active.entry(&record.tenant).or_default() += 1;
        }
        for (tenant, record) in &self.tenants {
            if record.active_runs != active.get(tenant).copied().unwrap_or(0) {
                return Err(format!("{tenant} counts {} active runs", record.active_runs));
            }
        }
        let ended = self.leases.len() - usize::try_from(live).unwrap_or(usize::MAX);
        if ended != self.ended_leases.len() {
            return Err(format!(
                "{ended} leases are over, {} are remembered as such",
                self.ended_leases.len()
            ));
        }
        Ok(())
    }
}
