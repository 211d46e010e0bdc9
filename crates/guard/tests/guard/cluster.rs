//! A cluster as far as a target knows one: it signs grants, and publishes its key.
use ringfence_guard::{
    Guard, Keys, VerifiedGrant, Verifier,
    clock::ManualClock,
    protocol::{
        Fence, LeaseId, Mode, RunId,
        body::{Actions, Authority},
        claims::{GRANT_TYPE, GrantClaims, GrantScope},
        id::{ClusterId, Incarnation},
        jws::{Jwks, Signer25519},
    },
};
use std::sync::Arc;

/// What the tests' clocks show at first, in Unix seconds.
pub(crate) const NOW_S: u64 = 1_800_000_000;

pub(crate) struct Cluster {
    pub(crate) id: ClusterId,
    pub(crate) incarnation: Incarnation,
    pub(crate) signer: Signer25519,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        Self {
            id: ClusterId::from_bits(1),
            incarnation: Incarnation::from_bits(100),
            signer: Signer25519::from_seed(&[7; 32]),
        }
    }

    pub(crate) fn jwks(&self) -> Jwks {
        Jwks { keys: vec![self.signer.verifier()], cluster: Some(self.id) }
    }

    /// A guard of this cluster's tenant `default`, and its clock.
    pub(crate) fn guard(&self) -> (Guard, Arc<ManualClock>) {
        let keys = Keys::pinned(self.id, &self.jwks()).unwrap();
        let verifier = Verifier::new(Arc::new(keys), "default".parse().unwrap());
        let clock = Arc::new(ManualClock::at_unix_s(NOW_S));
        (Guard::new(verifier).with_clock(clock.clone()), clock)
    }

    /// The claims of a grant that runs out 10 s after the tests begin.
    pub(crate) fn claims(&self, fence: u64, scopes: &[(&str, Mode)]) -> GrantClaims {
        let entry = |(scope, mode): &(&str, Mode)| GrantScope {
            s: scope.parse().unwrap(),
            m: *mode,
            a: Actions::ANY,
            apr: Vec::new(),
        };
        GrantClaims {
            iss: self.id,
            inc: self.incarnation,
            tenant: "default".parse().unwrap(),
            sub: RunId::from_bits(u128::from(fence)),
            principal: "orchestrator:planner".parse().unwrap(),
            lease: LeaseId::from_bits(u128::from(fence)),
            fence: Fence::new(fence).unwrap(),
            scopes: scopes.iter().map(entry).collect(),
            authority: Authority::Write,
            iat: NOW_S,
            exp: NOW_S + 10,
            jti: fence.to_string(),
        }
    }

    pub(crate) fn sign(&self, claims: &GrantClaims) -> String {
        self.signer.sign(GRANT_TYPE, claims).unwrap()
    }

    pub(crate) fn token(&self, fence: u64, scopes: &[(&str, Mode)]) -> String {
        self.sign(&self.claims(fence, scopes))
    }

    pub(crate) fn verified(&self, fence: u64, scopes: &[(&str, Mode)]) -> VerifiedGrant {
        let (guard, _) = self.guard();
        guard.authenticate_cached(&self.token(fence, scopes)).unwrap()
    }
}
