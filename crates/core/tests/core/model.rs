//! What should happen, said a second time and as simply as can be: lists and full scans, no index, nothing shared with
//! the code that is judged.
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Exclusive,
    Shared,
    Optimistic,
}

/// Whether two uses of one thing can be made at once.
fn together(a: Mode, b: Mode) -> bool {
    a == b && a != Mode::Exclusive
}

/// Whether two scopes, cut into segments, have anything in common; `**` at the end stands for all below and itself.
fn common(a: &str, b: &str) -> bool {
    let cut = |text: &str| {
        let mut segments: Vec<String> = text.split('/').map(str::to_owned).collect();
        let open = segments.last().is_some_and(|last| last == "**");
        if open {
            segments.pop();
        }
        (segments, open)
    };
    let ((x, x_open), (y, y_open)) = (cut(a), cut(b));
    let shorter = x.len().min(y.len());
    x[..shorter] == y[..shorter]
        && match x.len().cmp(&y.len()) {
            std::cmp::Ordering::Equal => true,
            std::cmp::Ordering::Less => x_open,
            std::cmp::Ordering::Greater => y_open,
        }
}

/// Whether all of `inner` lies in `outer`.
fn inside(outer: &str, inner: &str) -> bool {
    match outer.strip_suffix("/**") {
        None => outer == inner,
        Some(root) => {
            let inner = inner.strip_suffix("/**").unwrap_or(inner);
            inner == root || inner.starts_with(&format!("{root}/"))
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Released,
    Expired,
    RunEnded,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) id: u128,
    pub(crate) run: u128,
    pub(crate) fence: u64,
    pub(crate) entries: Vec<(String, Mode)>,
    pub(crate) ttl: u64,
    pub(crate) deadline: u64,
    pub(crate) end: Option<(End, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Ended,
    Revoked,
    Expired,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) id: u128,
    pub(crate) tenant: usize,
    pub(crate) owner: usize,
    pub(crate) allow: Option<Vec<String>>,
    pub(crate) deadline: u64,
    pub(crate) over: Option<Over>,
}

/// Who asks: an orchestrator by its number, or a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Orchestrator(usize),
    Run(u128),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum No {
    Unauthenticated,
    Revoked,
    CredentialExpired,
    RunEnded,
    Forbidden,
    NotFound,
    Outside,
    AlreadyHeld,
    Conflict,
    LeaseEnded,
    Fingerprint,
    Transition,
}

/// What came of a request: the lease's id, fence and what is left of it, and whether it was a repetition.
pub(crate) type Yes = (u128, u64, u64, bool);

#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) now: u64,
    pub(crate) fence: u64,
    pub(crate) runs: Vec<Run>,
    pub(crate) leases: Vec<Lease>,
    /// By run and key: fingerprint, and the lease that it made.
    pub(crate) keys: BTreeMap<(u128, u8), (u8, u128)>,
    /// The orchestrators' tenants, and whether their token was taken back.
    pub(crate) orchestrators: Vec<(usize, bool)>,
}

impl Model {
    /// Time never goes back; what is due ends in order: runs before leases at the same instant, then by id.
    pub(crate) fn pass(&mut self, to: u64) {
        self.now = self.now.max(to);
        loop {
            let run =
                self.runs.iter().filter(|run| run.over.is_none()).map(|run| (run.deadline, 0, run.id)).min();
            let lease = self.leases.iter().filter(|lease| lease.end.is_none());
            let lease = lease.map(|lease| (lease.deadline, 1, lease.id)).min();
            let Some((at, kind, id)) = run.into_iter().chain(lease).min() else { return };
            if at > self.now {
                return;
            }
            if kind == 0 { self.end_run(id, Over::Expired) } else { self.end_lease(id, End::Expired) }
        }
    }

    fn end_lease(&mut self, id: u128, end: End) {
        let lease = self.leases.iter_mut().find(|lease| lease.id == id).unwrap();
        if end != End::Released {
            self.fence += 1;
        }
        lease.end = Some((end, self.now));
    }

    fn end_run(&mut self, id: u128, over: Over) {
        self.runs.iter_mut().find(|run| run.id == id).unwrap().over = Some(over);
        let mut leases: Vec<u128> = self
            .leases
            .iter()
            .filter(|lease| lease.run == id && lease.end.is_none())
            .map(|lease| lease.id)
            .collect();
        leases.sort_unstable();
        for lease in leases {
            self.end_lease(lease, End::RunEnded);
        }
    }

    /// A new leader: everybody gets at least a grace, or its own ttl, but no more than its run has.
    pub(crate) fn new_leader(&mut self, grace: u64) {
        for lease in self.leases.iter_mut().filter(|lease| lease.end.is_none()) {
            let run_end = self.runs.iter().find(|run| run.id == lease.run).unwrap().deadline;
            lease.deadline = lease.deadline.max(self.now + lease.ttl.min(grace)).min(run_end);
        }
    }

    /// The tenant of whoever asks.
    fn tenant(&self, who: Who) -> Result<usize, No> {
        match who {
            Who::Orchestrator(number) => match self.orchestrators[number] {
                (_, true) => Err(No::Revoked),
                (tenant, false) => Ok(tenant),
            },
            Who::Run(id) => {
                let run = self.runs.iter().find(|run| run.id == id).ok_or(No::Unauthenticated)?;
                match run.over {
                    None => Ok(run.tenant),
                    Some(Over::Ended) => Err(No::RunEnded),
                    Some(Over::Revoked) => Err(No::Revoked),
                    Some(Over::Expired) => Err(No::CredentialExpired),
                }
            }
        }
    }

    fn run_for(&self, who: Who, id: u128) -> Result<&Run, No> {
        let tenant = self.tenant(who)?;
        let run = self.runs.iter().find(|run| run.id == id && run.tenant == tenant).ok_or(No::NotFound)?;
        let may = match who {
            Who::Orchestrator(number) => run.owner == number,
            Who::Run(own) => own == id,
        };
        if may { Ok(run) } else { Err(No::Forbidden) }
    }

    pub(crate) fn create_run(
        &mut self,
        by: usize,
        id: u128,
        allow: Option<Vec<String>>,
        lifetime: u64,
    ) -> Result<(), No> {
        let tenant = self.tenant(Who::Orchestrator(by))?;
        self.runs.push(Run { id, tenant, owner: by, allow, deadline: self.now + lifetime, over: None });
        Ok(())
    }

    pub(crate) fn finish_run(&mut self, who: Who, id: u128, revoke: bool) -> Result<(), No> {
        if revoke && matches!(who, Who::Run(_)) {
            self.tenant(who)?;
            return Err(No::Forbidden);
        }
        let over = self.run_for(who, id)?.over;
        let wanted = if revoke { Over::Revoked } else { Over::Ended };
        match over {
            None => self.end_run(id, wanted),
            Some(over) if over == wanted => {}
            Some(_) => return Err(No::Transition),
        }
        Ok(())
    }

    pub(crate) fn acquire(
        &mut self,
        who: Who,
        run: u128,
        id: u128,
        entries: &[(String, Mode)],
        ttl: u64,
        key: Option<(u8, u8)>,
    ) -> Result<Yes, No> {
        let run = self.run_for(who, run)?.clone();
        if let Some((key, fingerprint)) = key
            && let Some((first, lease)) = self.keys.get(&(run.id, key))
            && !self.is_forgotten(*lease)
        {
            if *first != fingerprint {
                return Err(No::Fingerprint);
            }
            let lease = self.leases.iter().find(|other| other.id == *lease).unwrap();
            return match lease.end {
                Some(_) => Err(No::LeaseEnded),
                None => Ok((lease.id, lease.fence, lease.deadline - self.now, true)),
            };
        }
        if run.over.is_some() {
            return Err(No::RunEnded);
        }
        if let Some(allow) = &run.allow
            && entries.iter().any(|(scope, _)| !allow.iter().any(|bound| inside(bound, scope)))
        {
            return Err(No::Outside);
        }
        let live = || self.leases.iter().filter(|lease| lease.end.is_none());
        let meets = |lease: &Lease, all: bool| {
            entries.iter().any(|(scope, mode)| {
                lease
                    .entries
                    .iter()
                    .any(|(held, held_mode)| common(scope, held) && (all || !together(*mode, *held_mode)))
            })
        };
        if live().any(|lease| lease.run == run.id && meets(lease, true)) {
            return Err(No::AlreadyHeld);
        }
        let same_tenant = |lease: &&Lease| {
            self.runs.iter().any(|other| other.id == lease.run && other.tenant == run.tenant)
        };
        if live().filter(same_tenant).any(|lease| meets(lease, false)) {
            return Err(No::Conflict);
        }
        self.fence += 1;
        let deadline = (self.now + ttl).min(run.deadline);
        let (fence, entries) = (self.fence, entries.to_vec());
        self.leases.push(Lease { id, run: run.id, fence, entries, ttl, deadline, end: None });
        if let Some((key, fingerprint)) = key {
            self.keys.insert((run.id, key), (fingerprint, id));
        }
        Ok((id, fence, deadline - self.now, false))
    }

    /// Ten minutes after its end a lease is forgotten, and its key with it.
    fn is_forgotten(&self, id: u128) -> bool {
        let lease = self.leases.iter().find(|lease| lease.id == id).unwrap();
        lease.end.is_some_and(|(_, at)| at + 600_000 <= self.now)
    }

    /// `release`: give it back; else renew it.
    pub(crate) fn touch(&mut self, who: Who, id: u128, release: bool) -> Result<Yes, No> {
        let tenant = self.tenant(who)?;
        let Some(at) = self.leases.iter().position(|lease| lease.id == id) else { return Err(No::NotFound) };
        let run = self.leases[at].run;
        let ours = self.runs.iter().any(|other| other.id == run && other.tenant == tenant);
        if !ours || self.is_forgotten(id) {
            return Err(No::NotFound);
        }
        let run_end = self.run_for(who, run)?.deadline;
        match (self.leases[at].end, release) {
            (Some(_), true) => {}
            (Some(_), false) => return Err(No::LeaseEnded),
            (None, true) => self.end_lease(id, End::Released),
            (None, false) => {
                let lease = &mut self.leases[at];
                lease.deadline = lease.deadline.max(self.now + lease.ttl).min(run_end);
            }
        }
        let lease = &self.leases[at];
        let left = if lease.end.is_none() { lease.deadline - self.now } else { 0 };
        Ok((id, lease.fence, left, false))
    }
}
