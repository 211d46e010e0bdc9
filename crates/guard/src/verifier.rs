//! Who asks: a grant's signature, cluster and tenant, checked offline.
use crate::{
    keys::Keys,
    marks::Realm,
    refusal::{Reason, Refusal, Unauthenticated},
};
use ringfence_protocol::{Fence, Principal, RunId, Tenant, claims::GrantClaims};
use std::{fmt, sync::Arc};

/// Checks grants of one cluster and one tenant.
///
/// A service that serves several tenants has one for each, over the same [`Keys`]: so a grant of one tenant can
/// never name a resource of another's by its id.
#[derive(Debug)]
pub struct Verifier {
    realm: Realm,
    keys: Arc<Keys>,
}

/// A grant whose signature, cluster and tenant hold. Only a [`Verifier`] makes one.
///
/// That it is genuine says nothing of whether it is still in force: that is decided at the write.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifiedGrant(Arc<GrantClaims>);

impl Verifier {
    /// Trusts the cluster of these keys, for this tenant.
    #[must_use]
    pub fn new(keys: Arc<Keys>, tenant: Tenant) -> Self {
        let cluster = keys.cluster();
        let realm = Realm { cluster, tenant };
        Self { realm, keys }
    }

    /// The cluster and tenant whose grants are taken.
    #[must_use]
    pub const fn realm(&self) -> &Realm {
        &self.realm
    }

    /// Checks the grant, fetching the cluster's keys where it is signed with an unknown one.
    ///
    /// # Errors
    /// [`Reason::Unauthenticated`].
    pub async fn verify(&self, token: &str) -> Result<VerifiedGrant, Refusal> {
        let claims = self.keys.verify(token).await.map_err(Unauthenticated::from);
        self.accept(claims)
    }

    /// Checks the grant with the keys at hand; never waits for anything.
    ///
    /// # Errors
    /// [`Reason::Unauthenticated`].
    pub fn verify_cached(&self, token: &str) -> Result<VerifiedGrant, Refusal> {
        let claims = self.keys.verify_cached(token).map_err(Unauthenticated::from);
        self.accept(claims)
    }

    fn accept(&self, claims: Result<GrantClaims, Unauthenticated>) -> Result<VerifiedGrant, Refusal> {
        let claims = claims.map_err(Reason::Unauthenticated)?;
        self.check_realm(&claims)?;
        Ok(VerifiedGrant(Arc::new(claims)))
    }

    /// A grant that another verifier accepted is not therefore one for this realm.
    pub(crate) fn check_realm(&self, claims: &GrantClaims) -> Result<(), Refusal> {
        let why = if claims.iss != self.realm.cluster {
            Unauthenticated::OtherCluster
        } else if claims.tenant != self.realm.tenant {
            Unauthenticated::OtherTenant
        } else {
            return Ok(());
        };
        Err(Reason::Unauthenticated(why).into())
    }
}

impl VerifiedGrant {
    /// All that the cluster signed.
    #[must_use]
    pub fn claims(&self) -> &GrantClaims {
        &self.0
    }

    /// The run that holds the lease.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.0.sub
    }

    /// Who created the run.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.0.principal
    }

    /// The lease's fence.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.0.fence
    }
}

impl fmt::Debug for VerifiedGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifiedGrant")
            .field("lease", &self.0.lease)
            .field("fence", &self.0.fence)
            .finish_non_exhaustive()
    }
}
