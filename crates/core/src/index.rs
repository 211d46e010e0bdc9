//! Which leases hold which scopes: one ordered map a tenant, keyed by scope text.
//!
//! What overlaps a scope is found by the exact entry, the `/**` entries of its ancestors, and, for a `/**` scope, the
//! range below it. The cost is depth and matches, never the number of leases.
use crate::holders::{Holder, Holders};
use alloc::{
    collections::{BTreeMap, VecDeque},
    format,
    vec::Vec,
};
use core::ops::Bound;
use ringfence_protocol::{Fence, LeaseId, Mode, RunId, Scope};
use serde::{Deserialize, Serialize};

/// One scope that is held, or was until lately.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Node {
    holders: Holders,
    /// The greatest fence seen here, ends included.
    highest: Option<Fence>,
    /// The leases here that are over and still remembered, in the order in which they ended. The node lives as long as
    /// there is one, or a holder.
    ended: VecDeque<LeaseId>,
    /// Whether somebody has been granted the scope since the last of them ended.
    granted_since: bool,
}

impl Node {
    pub(crate) const fn holders(&self) -> &Holders {
        &self.holders
    }

    pub(crate) const fn ended(&self) -> &VecDeque<LeaseId> {
        &self.ended
    }

    pub(crate) const fn highest(&self) -> Option<Fence> {
        self.highest
    }

    /// The lease here that ended last, unless somebody has been granted the scope since and was told of it.
    pub(crate) fn last_ended(&self) -> Option<LeaseId> {
        self.ended.back().copied().filter(|_| !self.granted_since)
    }

    /// Whether nobody holds it and nobody who did is remembered: it need not be kept.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.holders.is_empty() && self.ended.is_empty()
    }

    /// A lease of a run here.
    pub(crate) fn held_by(&self, run: RunId) -> Option<LeaseId> {
        self.holders.of(run)
    }

    /// Everybody here whose hold can't go together with `mode`.
    pub(crate) fn incompatible(&self, mode: Mode) -> impl Iterator<Item = (Mode, Holder)> + '_ {
        let held = self.holders.mode().filter(|held| !held.is_compatible(mode));
        held.into_iter().flat_map(|held| self.holders.iter().map(move |holder| (held, holder)))
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
        node.holders.insert(mode, holder);
        node.highest = node.highest.max(Some(fence));
        node.granted_since = true;
    }

    /// The hold is over; `end_fence` is the number that an unclean end took.
    pub(crate) fn end(&mut self, scope: &Scope, holder: Holder, end_fence: Option<Fence>) {
        if let Some(node) = self.nodes.get_mut(scope) {
            node.holders.remove(holder);
            node.highest = node.highest.max(end_fence);
            node.ended.push_back(holder.1);
            node.granted_since = false;
        }
    }

    /// An ended lease is remembered no longer: neither is a scope that nobody has held since.
    pub(crate) fn forget(&mut self, scope: &Scope, lease: LeaseId) {
        if let Some(node) = self.nodes.get_mut(scope) {
            // What ended first is forgotten first: it is at the front, or among those that ended with it.
            if let Some(at) = node.ended.iter().position(|ended| *ended == lease) {
                node.ended.remove(at);
            }
            if node.is_forgotten() {
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
        let below = scope.is_subtree().then(|| self.below(resource));
        exact.into_iter().chain(above).chain(below.into_iter().flatten())
    }

    /// All nodes below a resource, its own `/**` among them: they are next to each other.
    fn below<'a>(&'a self, resource: &str) -> impl Iterator<Item = (&'a Scope, &'a Node)> + use<'a> {
        let prefix = format!("{resource}/");
        let from: (Bound<&str>, Bound<&str>) = (Bound::Included(&prefix), Bound::Unbounded);
        self.nodes.range::<str, _>(from).take_while(move |(scope, _)| scope.as_str().starts_with(&prefix))
    }

    pub(crate) const fn nodes(&self) -> &BTreeMap<Scope, Node> {
        &self.nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn index(scopes: u32) -> ScopeIndex {
        let mut index = ScopeIndex::default();
        for at in 0..scopes {
            let scope = format!("orders/customer-{at}/item").parse().unwrap();
            let holder = (RunId::from_bits(1), LeaseId::from_bits(at.into()));
            index.insert(&scope, Mode::Exclusive, holder, Fence::new(1).unwrap());
        }
        index
    }

    #[test]
    fn a_lookup_walks_the_matches_however_many_other_scopes_are_held() {
        let (few, many) = (index(1000), index(100_000));
        for (scope, matches) in [
            ("orders/customer-7/item", 1),
            ("orders/customer-7/**", 1),
            ("orders/customer-7", 0),
            ("orders/customer-7/item/part", 0),
            ("other/**", 0),
        ] {
            let scope = scope.parse().unwrap();
            let walked = |index: &ScopeIndex| index.overlapping(&scope).count();
            assert_eq!((walked(&few), walked(&many)), (matches, matches), "{scope}");
        }
    }

    #[test]
    fn ten_thousand_that_go_together_are_not_walked_for_one_more() {
        let mut index = ScopeIndex::default();
        let scope = "orders/all/**".parse().unwrap();
        for at in 0..10_000 {
            let holder = (RunId::from_bits(at), LeaseId::from_bits(at));
            index.insert(&scope, Mode::Optimistic, holder, Fence::new(1).unwrap());
        }
        let nodes: Vec<_> = index.overlapping(&scope).collect();
        let [(_, node)] = nodes.as_slice() else { panic!("one scope is held") };
        assert_eq!(node.incompatible(Mode::Optimistic).count(), 0);
        assert_eq!(node.incompatible(Mode::Shared).count(), 10_000);
        assert_eq!(node.held_by(RunId::from_bits(77)), Some(LeaseId::from_bits(77)));
        assert_eq!(node.held_by(RunId::from_bits(10_000)), None);
    }
}
