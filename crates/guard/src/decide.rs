//! The decision: may this grant be used for this write, given what the store has seen?
//!
//! Pure: no store, no clock, no signature. What it is given was read in the transaction of the write, and the
//! write is made in that same transaction or not at all.
use crate::{
    marks::{Seen, SeenEntry},
    refusal::{Newer, Reason, Refusal},
};
use ringfence_protocol::{
    Action, ErrorCode, Fence, LeaseId, Mode, Problem, ResourceId, RunId, Scope,
    claims::{CoverageError, GrantClaims, GrantScope},
    name::NameError,
    scope::ResourceError,
};

/// What is to be done to which resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The resource.
    pub resource: ResourceId,
    /// The action, as write sets name it: `update`.
    pub action: Action,
}

impl Request {
    /// Reads both from text.
    ///
    /// # Errors
    /// `invalid_resource` or, for the action, `invalid_field`.
    pub fn parse(resource: &str, action: &str) -> Result<Self, Problem> {
        let invalid = |error: ResourceError| Problem::new(ErrorCode::InvalidResource, error.to_string());
        Ok(Self {
            resource: resource.parse().map_err(invalid)?,
            action: action
                .parse()
                .map_err(|error: NameError| Problem::invalid_field("action", error.to_string()))?,
        })
    }
}

/// Whether the wall clock has a say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expiry {
    /// A grant is refused this many milliseconds after it ran out, by this host's wall clock.
    Leeway {
        /// How far this host's clock may be ahead of the cluster's before a live grant is refused.
        ms: u64,
    },
    /// A grant serves until a newer incompatible one has been seen, however long that takes: order alone
    /// decides, and no clock has to be right.
    OrderOnly,
}

impl Default for Expiry {
    fn default() -> Self {
        Self::Leeway { ms: 5000 }
    }
}

impl Expiry {
    /// Whether a grant that runs out at `exp` (Unix seconds) is over at `now_unix_ms`.
    #[must_use]
    pub const fn is_over(self, exp: u64, now_unix_ms: u64) -> bool {
        match self {
            Self::OrderOnly => false,
            Self::Leeway { ms } => now_unix_ms >= exp.saturating_mul(1000).saturating_add(ms),
        }
    }
}

/// A write that may be made, in the transaction in which it was decided and nowhere else.
#[derive(Debug, PartialEq, Eq)]
pub struct Permit {
    run: RunId,
    lease: LeaseId,
    fence: Fence,
    scope: Scope,
    mode: Mode,
}

impl Permit {
    /// The run that writes.
    #[must_use]
    pub const fn run(&self) -> RunId {
        self.run
    }

    /// The lease that it writes under.
    #[must_use]
    pub const fn lease(&self) -> LeaseId {
        self.lease
    }

    /// The lease's fence.
    #[must_use]
    pub const fn fence(&self) -> Fence {
        self.fence
    }

    /// The entry of the write set that covers the resource.
    #[must_use]
    pub const fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The mode of that entry.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }
}

/// Decides, in the order of the contract: scope and action, fence, expiry. The version comes after, in the
/// statement of the write itself.
///
/// `seen` must have been read for this grant, after its own marks were raised.
///
/// # Errors
/// The first [`Refusal`] in that order.
pub fn decide(
    grant: &GrantClaims,
    seen: &Seen,
    request: &Request,
    expiry: Expiry,
    now_unix_ms: u64,
) -> Result<Permit, Refusal> {
    let refuse = |reason| Refusal::from(reason).about(&request.resource);
    let entry = covering_entry(grant, request).map_err(refuse)?;
    check_fence(grant, seen).map_err(refuse)?;
    if expiry.is_over(grant.exp, now_unix_ms) {
        return Err(refuse(Reason::GrantExpired { lease: grant.lease }));
    }
    Ok(Permit {
        run: grant.sub,
        lease: grant.lease,
        fence: grant.fence,
        scope: entry.s.clone(),
        mode: entry.m,
    })
}

fn covering_entry<'a>(grant: &'a GrantClaims, request: &Request) -> Result<&'a GrantScope, Reason> {
    grant.coverage(&request.resource, &request.action).map_err(|error| match error {
        CoverageError::OutOfScope => Reason::OutOfScope,
        CoverageError::ActionNotPermitted => Reason::ActionNotPermitted { action: request.action.clone() },
    })
}

/// Every scope of the grant counts, not only the one that is written: a grant is all of its write set or
/// nothing, and who has lost a part of it plans on what is no longer so.
fn check_fence(grant: &GrantClaims, seen: &Seen) -> Result<(), Reason> {
    let newer = newer_life(grant, seen).or_else(|| {
        let newest = seen.entries.iter().filter_map(|entry| newer_grant(grant, entry));
        newest.max_by_key(Newer::fence)
    });
    match newer {
        None => Ok(()),
        Some(newer) => Err(Reason::StaleFence { fence: grant.fence, newer }),
    }
}

fn newer_life(grant: &GrantClaims, seen: &Seen) -> Option<Newer> {
    (seen.life.incarnation != grant.inc).then_some(Newer::Life { fence: seen.life.witness })
}

fn newer_grant(grant: &GrantClaims, entry: &SeenEntry) -> Option<Newer> {
    let (fence, mode) = entry.marks.greatest_against(entry.mode)?;
    (fence > grant.fence).then(|| Newer::Grant { scope: entry.scope.clone(), mode, fence })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marks::{Life, ModeMarks};
    use ringfence_protocol::{
        body::{Actions, Authority},
        id::{ClusterId, Incarnation},
    };

    fn fence(number: u64) -> Fence {
        Fence::new(number).unwrap()
    }

    fn grant() -> GrantClaims {
        let entry = |scope: &str, m| GrantScope {
            s: scope.parse().unwrap(),
            m,
            a: Actions::new(vec!["update".parse().unwrap()]).unwrap(),
            apr: Vec::new(),
        };
        GrantClaims {
            iss: ClusterId::from_bits(1),
            inc: Incarnation::from_bits(2),
            tenant: "default".parse().unwrap(),
            sub: RunId::from_bits(3),
            principal: "orchestrator:planner".parse().unwrap(),
            lease: LeaseId::from_bits(4),
            fence: fence(10),
            scopes: vec![entry("a/1", Mode::Exclusive), entry("b/1", Mode::Shared)],
            authority: Authority::Write,
            iat: 0,
            exp: 100,
            jti: "1".to_owned(),
        }
    }

    fn seen(a: ModeMarks, b: ModeMarks) -> Seen {
        let marks = [a, b];
        let entries = grant().scopes.into_iter().zip(marks);
        Seen {
            life: Life { incarnation: Incarnation::from_bits(2), witness: fence(1) },
            entries: entries
                .map(|(entry, marks)| SeenEntry { scope: entry.s, mode: entry.m, marks })
                .collect(),
        }
    }

    fn outcome(seen: &Seen, resource: &str, action: &str, now_unix_ms: u64) -> Result<Permit, Reason> {
        let request = Request { resource: resource.parse().unwrap(), action: action.parse().unwrap() };
        decide(&grant(), seen, &request, Expiry::default(), now_unix_ms).map_err(|refusal| refusal.reason)
    }

    #[test]
    fn a_mark_equal_to_the_fence_does_not_refuse_and_a_greater_one_does() {
        let own = ModeMarks::of(Mode::Exclusive, fence(10));
        let shared = ModeMarks::of(Mode::Shared, fence(99));
        assert!(outcome(&seen(own, shared), "a/1", "update", 0).is_ok());
        let newer = ModeMarks::of(Mode::Exclusive, fence(11));
        assert!(matches!(outcome(&seen(newer, shared), "a/1", "update", 0), Err(Reason::StaleFence { .. })));
    }

    #[test]
    fn a_newer_grant_on_any_scope_of_the_write_set_refuses_the_whole_of_it() {
        let own = ModeMarks::of(Mode::Exclusive, fence(10));
        for mode in [Mode::Exclusive, Mode::Optimistic] {
            let relied_on = ModeMarks::of(mode, fence(11));
            let Err(Reason::StaleFence { newer, .. }) = outcome(&seen(own, relied_on), "a/1", "update", 0)
            else {
                panic!("{mode}");
            };
            assert_eq!(newer, Newer::Grant { scope: "b/1".parse().unwrap(), mode, fence: fence(11) });
        }
    }

    #[test]
    fn refusals_come_in_the_order_of_the_contract() {
        let stale = seen(ModeMarks::of(Mode::Exclusive, fence(11)), ModeMarks::default());
        let fresh = seen(ModeMarks::default(), ModeMarks::default());
        let late = 1_000_000;
        assert_eq!(outcome(&stale, "c/1", "update", late), Err(Reason::OutOfScope));
        assert!(matches!(outcome(&stale, "a/1", "delete", late), Err(Reason::ActionNotPermitted { .. })));
        assert!(matches!(outcome(&stale, "a/1", "update", late), Err(Reason::StaleFence { .. })));
        assert!(matches!(outcome(&fresh, "a/1", "update", late), Err(Reason::GrantExpired { .. })));
    }

    #[test]
    fn nothing_is_written_under_a_shared_entry() {
        let fresh = seen(ModeMarks::default(), ModeMarks::default());
        assert!(matches!(outcome(&fresh, "b/1", "update", 0), Err(Reason::ActionNotPermitted { .. })));
    }

    #[test]
    fn a_grant_of_an_earlier_life_is_stale_though_no_scope_of_it_was_granted_anew() {
        let mut seen = seen(ModeMarks::default(), ModeMarks::default());
        seen.life = Life { incarnation: Incarnation::from_bits(9), witness: fence(1 << 40) };
        assert!(matches!(
            outcome(&seen, "a/1", "update", 0),
            Err(Reason::StaleFence { newer: Newer::Life { .. }, .. })
        ));
    }

    #[test]
    fn a_grant_is_over_when_the_leeway_is_used_up() {
        let leeway = Expiry::default();
        assert!(!leeway.is_over(100, 104_999));
        assert!(leeway.is_over(100, 105_000));
        assert!(!leeway.is_over(u64::MAX, u64::MAX - 1));
        assert!(!Expiry::OrderOnly.is_over(100, u64::MAX));
    }
}
