//! The marks: what a store remembers of the grants that it has seen.
//!
//! Per cluster, tenant and scope there are three, one a mode: the greatest fence seen under that mode. They are
//! kept at the scopes exactly as grants name them, never spread over others, so that no mark ever says more
//! than what was granted; what overlaps is looked up when a grant is compared. They never go down.
use ringfence_protocol::{
    Fence, Mode, Scope, Tenant,
    claims::{GrantClaims, GrantScope},
    id::{ClusterId, Incarnation},
};

/// Where a fence counts: fences of another cluster, or the scopes of another tenant, are a world of their own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Realm {
    /// The cluster.
    pub cluster: ClusterId,
    /// The tenant.
    pub tenant: Tenant,
}

/// The three marks of a scope, or the greatest of several scopes' marks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModeMarks {
    /// Under `exclusive`; `None`: never seen.
    pub exclusive: Option<Fence>,
    /// Under `shared`.
    pub shared: Option<Fence>,
    /// Under `optimistic`.
    pub optimistic: Option<Fence>,
}

impl ModeMarks {
    /// One fence under one mode. Only fences have an order; an id can't be passed for one:
    ///
    /// ```compile_fail,E0308
    /// use ringfence_guard::{ModeMarks, protocol::{LeaseId, Mode}};
    /// let _ = ModeMarks::of(Mode::Exclusive, LeaseId::from_bits(1));
    /// ```
    #[must_use]
    pub fn of(mode: Mode, fence: Fence) -> Self {
        let mut marks = Self::default();
        *marks.slot(mode) = Some(fence);
        marks
    }

    /// The mark of a mode.
    #[must_use]
    pub const fn get(&self, mode: Mode) -> Option<Fence> {
        match mode {
            Mode::Exclusive => self.exclusive,
            Mode::Shared => self.shared,
            Mode::Optimistic => self.optimistic,
        }
    }

    /// Raises each mark to at least the other's: never lowers one.
    pub fn raise(&mut self, other: &Self) {
        for mode in Mode::ALL {
            let slot = self.slot(mode);
            *slot = (*slot).max(other.get(mode));
        }
    }

    fn slot(&mut self, mode: Mode) -> &mut Option<Fence> {
        match mode {
            Mode::Exclusive => &mut self.exclusive,
            Mode::Shared => &mut self.shared,
            Mode::Optimistic => &mut self.optimistic,
        }
    }

    /// The greatest mark of the modes that do not go together with `mode`.
    #[must_use]
    pub fn greatest_against(&self, mode: Mode) -> Option<(Fence, Mode)> {
        Mode::ALL
            .into_iter()
            .filter(|other| !mode.is_compatible(*other))
            .filter_map(|other| self.get(other).map(|fence| (fence, other)))
            .max()
    }
}

/// The present life of a cluster as far as a store knows, and one fence of it.
///
/// A restore starts another life (incarnation) whose fences are all greater than those before. So one fence of a
/// life is enough to tell which of two lives is the later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// Which life.
    pub incarnation: Incarnation,
    /// A fence that was granted in it.
    pub witness: Fence,
}

impl Life {
    fn of(grant: &GrantClaims) -> Self {
        Self { incarnation: grant.inc, witness: grant.fence }
    }
}

/// The marks within one transaction of a store.
///
/// Only [`Guard`](crate::Guard) calls these. What they read and write must be isolated from every other
/// transaction of the store until its end, or a newer grant can slip in between the comparison and the write.
pub trait Marks {
    /// What the store itself can fail with.
    type Error;

    /// Raises the marks at exactly this scope; marks that are greater stay.
    ///
    /// # Errors
    /// The store's own.
    fn raise(&mut self, realm: &Realm, scope: &Scope, marks: &ModeMarks) -> Result<(), Self::Error>;

    /// The marks at exactly the scope of this text.
    ///
    /// # Errors
    /// The store's own.
    fn at(&mut self, realm: &Realm, scope: &str) -> Result<ModeMarks, Self::Error>;

    /// The greatest marks at all scopes whose text begins with `prefix`, compared bytewise.
    ///
    /// # Errors
    /// The store's own.
    fn under(&mut self, realm: &Realm, prefix: &str) -> Result<ModeMarks, Self::Error>;

    /// The present life of the cluster; `None`: no grant of it was seen yet.
    ///
    /// # Errors
    /// The store's own.
    fn life(&mut self, cluster: ClusterId) -> Result<Option<Life>, Self::Error>;

    /// Remembers another life of the cluster in place of the last one.
    ///
    /// # Errors
    /// The store's own.
    fn set_life(&mut self, cluster: ClusterId, life: &Life) -> Result<(), Self::Error>;
}

/// What a store holds against a grant: for each of its scopes the greatest marks that overlap it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The cluster's present life.
    pub life: Life,
    /// Of each entry of the grant.
    pub entries: Vec<SeenEntry>,
}

/// The greatest marks that overlap one entry of a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenEntry {
    /// The entry's scope.
    pub scope: Scope,
    /// The entry's mode.
    pub mode: Mode,
    /// The marks.
    pub marks: ModeMarks,
}

/// Raises the marks of all scopes of a grant, and reads what overlaps them.
///
/// A grant's own mark never exceeds its fence, and only greater marks count: so it makes no difference to the
/// grant itself that it is raised before it is compared, while for all others it is then seen whatever becomes
/// of the request.
pub(crate) fn see<M: Marks + ?Sized>(marks: &mut M, grant: &GrantClaims) -> Result<Seen, M::Error> {
    let realm = Realm { cluster: grant.iss, tenant: grant.tenant.clone() };
    let life = enter_life(marks, grant)?;
    for GrantScope { s, m, .. } in &grant.scopes {
        marks.raise(&realm, s, &ModeMarks::of(*m, grant.fence))?;
    }
    let mut entries = Vec::with_capacity(grant.scopes.len());
    for GrantScope { s, m, .. } in &grant.scopes {
        entries.push(SeenEntry { scope: s.clone(), mode: *m, marks: overlapping(marks, &realm, s)? });
    }
    Ok(Seen { life, entries })
}

/// The life that counts after this grant was seen: a later one replaces an earlier one, never the reverse.
fn enter_life<M: Marks + ?Sized>(marks: &mut M, grant: &GrantClaims) -> Result<Life, M::Error> {
    match marks.life(grant.iss)? {
        Some(life) if life.incarnation == grant.inc || life.witness > grant.fence => Ok(life),
        Some(_) | None => {
            let life = Life::of(grant);
            marks.set_life(grant.iss, &life)?;
            Ok(life)
        }
    }
}

/// At the scope, at every `/**` above it, and, for a `/**` scope, at its resource and all below it.
fn overlapping<M: Marks + ?Sized>(
    marks: &mut M,
    realm: &Realm,
    scope: &Scope,
) -> Result<ModeMarks, M::Error> {
    let mut greatest = marks.at(realm, scope.resource())?;
    if scope.is_subtree() {
        greatest.raise(&marks.under(realm, &format!("{}/", scope.resource()))?);
    }
    for above in scope.covering_subtrees() {
        greatest.raise(&marks.at(realm, &above)?);
    }
    Ok(greatest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence(number: u64) -> Option<Fence> {
        Fence::new(number)
    }

    #[test]
    fn each_mark_is_raised_by_itself_and_none_goes_down() {
        let mut marks = ModeMarks { exclusive: fence(5), shared: fence(7), optimistic: None };
        marks.raise(&ModeMarks { exclusive: fence(6), shared: fence(3), optimistic: fence(1) });
        assert_eq!((marks.exclusive, marks.shared, marks.optimistic), (fence(6), fence(7), fence(1)));
    }

    #[test]
    fn only_incompatible_modes_count_against_a_mode() {
        let marks = ModeMarks { exclusive: fence(1), shared: fence(2), optimistic: fence(3) };
        let against = |mode| marks.greatest_against(mode).unwrap();
        assert_eq!(against(Mode::Exclusive), (Fence::new(3).unwrap(), Mode::Optimistic));
        assert_eq!(against(Mode::Shared), (Fence::new(3).unwrap(), Mode::Optimistic));
        assert_eq!(against(Mode::Optimistic), (Fence::new(2).unwrap(), Mode::Shared));
        let alone = ModeMarks::of(Mode::Shared, Fence::new(9).unwrap());
        assert_eq!(alone.greatest_against(Mode::Shared), None);
    }
}
