//! Which leases hold which scopes: one ordered map a tenant, keyed by scope text.
//!
//! What overlaps a scope is found by the exact entry, the `/**` entries of its ancestors, and, for a `/**` scope, the
//! range below it. The cost is depth and matches, never the number of leases.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    vec::Vec,
};
use core::ops::Bound;
use ringfence_protocol::{Fence, LeaseId, Mode, RunId, Scope};
use serde::{Deserialize, Serialize};

/// Who holds a scope: by run first, so that a run's own hold is found without walking the others.
pub(crate) type Holder = (RunId, LeaseId);

/// One scope that is held, or was until lately.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Node {
    /// Holders by mode, in the order of [`Mode::ALL`]: those that can't conflict aren't walked.
    holders: [BTreeSet<Holder>; 3],
    /// The greatest fence seen here, ends included.
    highest: Option<Fence>,
    /// The lease here that ended last. The node lives at least as long as that lease is remembered.
    last_ended: Option<LeaseId>,
}

const fn slot(mode: Mode) -> usize {
    match mode {
        Mode::Exclusive => 0,
        Mode::Shared => 1,
        Mode::Optimistic => 2,
    }
}

impl Node {
    pub(crate) fn holders(&self, mode: Mode) -> &BTreeSet<Holder> {
        &self.holders[slot(mode)]
    }

    pub(crate) const fn highest(&self) -> Option<Fence> {
        self.highest
    }

    pub(crate) const fn last_ended(&self) -> Option<LeaseId> {
        self.last_ended
    }

    fn is_idle(&self) -> bool {
        self.holders.iter().all(BTreeSet::is_empty)
    }

    /// The first lease of a run here, whatever its mode.
    pub(crate) fn held_by(&self, run: RunId) -> Option<LeaseId> {
        let own = (run, LeaseId::from_bits(0))..=(run, LeaseId::from_bits(u128::MAX));
        self.holders.iter().find_map(|holders| holders.range(own.clone()).next()).map(|(_, lease)| *lease)
    }

    /// Everybody here.
    pub(crate) fn all_holders(&self) -> impl Iterator<Item = Holder> + '_ {
        self.holders.iter().flatten().copied()
    }

    /// Everybody here whose hold can't go together with `mode`.
    pub(crate) fn incompatible(&self, mode: Mode) -> impl Iterator<Item = (Mode, Holder)> + '_ {
        Mode::ALL
            .into_iter()
            .filter(move |held| !held.is_compatible(mode))
            .flat_map(|held| self.holders(held).iter().map(move |holder| (held, *holder)))
    }
}

/// The scopes of one tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScopeIndex {
    nodes: BTreeMap<Scope, Node>,
}

impl ScopeIndex {
    pub(crate) fn insert(&mut self, scope: &Scope, mode: Mode, holder: Holder, fence: Fence) {
        let node = self.nodes.entry(scope.clone()).or_default();
        node.holders[slot(mode)].insert(holder);
        node.highest = node.highest.max(Some(fence));
    }

    /// The hold is over; `end_fence` is the number that an unclean end took.
    pub(crate) fn end(&mut self, scope: &Scope, mode: Mode, holder: Holder, end_fence: Option<Fence>) {
        if let Some(node) = self.nodes.get_mut(scope) {
            node.holders[slot(mode)].remove(&holder);
            node.highest = node.highest.max(end_fence);
            node.last_ended = Some(holder.1);
        }
    }

    /// An ended lease is remembered no longer: neither is a scope that nobody has held since.
    pub(crate) fn forget(&mut self, scope: &Scope, lease: LeaseId) {
        if let Some(node) = self.nodes.get_mut(scope)
            && node.last_ended == Some(lease)
        {
            node.last_ended = None;
            if node.is_idle() {
                self.nodes.remove(scope);
            }
        }
    }

    /// All nodes that have a resource in common with `scope`.
    pub(crate) fn overlapping<'a>(
        &'a self,
        scope: &'a Scope,
    ) -> impl Iterator<Item = (&'a Scope, &'a Node)> + 'a {
        let resource = scope.resource();
        // `a` and `a/**` overlap each other both ways: the exact resource first, then the subtrees that cover it.
        let exact = self.nodes.get_key_value(resource);
        let above = scope
            .covering_subtrees()
            .filter(|text| !scope.is_subtree() || *text != scope.as_str())
            .filter_map(|text| self.nodes.get_key_value(text.as_str()))
            .collect::<Vec<_>>();
        let below = if scope.is_subtree() { self.below(resource) } else { Vec::new() };
        exact.into_iter().chain(above).chain(below)
    }

    /// All nodes below a resource, its own `/**` among them: they are next to each other.
    fn below(&self, resource: &str) -> Vec<(&Scope, &Node)> {
        let prefix = format!("{resource}/");
        let start: (Bound<&str>, Bound<&str>) = (Bound::Included(&prefix), Bound::Unbounded);
        self.nodes
            .range::<str, _>(start)
            .take_while(|(scope, _)| scope.as_str().starts_with(&prefix))
            .collect()
    }

    pub(crate) fn nodes(&self) -> &BTreeMap<Scope, Node> {
        &self.nodes
    }
}
