//! What this node signs: the credential of a run and the grant of a lease.
//!
//! `exp` counts from when the request *arrived*, not from when it was answered: the lease's own time began later, so a
//! grant never says more than the lease has, whatever the commit took. It is for targets that ask for it; what decides
//! is the fence.
use super::{answer::Failure, call::Call};
use crate::ids;
use ringfence_core::outcome::Granted;
use ringfence_protocol::{
    Timestamp,
    body::{Lease, Run},
    claims::{GRANT_TYPE, GrantClaims, GrantScope, RUN_TYPE, RunClaims},
};
use serde::Serialize;

/// The lease with its signed grant.
pub(super) fn with_grant(call: &Call, granted: Granted) -> Result<Lease, Failure> {
    let Granted { mut lease, tenant, principal, authority } = granted;
    let scopes = lease.write_set.iter().map(|entry| GrantScope {
        s: entry.scope.clone(),
        m: entry.mode,
        a: entry.actions.clone(),
        apr: Vec::new(),
    });
    let claims = GrantClaims {
        iss: call.life().cluster,
        inc: call.life().incarnation,
        tenant,
        sub: lease.run,
        principal,
        lease: lease.id,
        fence: lease.fence,
        scopes: scopes.collect(),
        authority,
        iat: seconds(call.received()),
        exp: seconds(call.received().plus_ms(lease.expires_in_ms)),
        jti: jti(),
    };
    lease.grant = Some(sign(call, GRANT_TYPE, &claims)?);
    Ok(lease)
}

/// The run with its credential.
pub(super) fn with_credential(call: &Call, mut run: Run) -> Result<Run, Failure> {
    let claims = RunClaims {
        iss: call.life().cluster,
        inc: call.life().incarnation,
        tenant: run.tenant.clone(),
        sub: run.id,
        principal: run.created_by.clone(),
        iat: seconds(call.received()),
        exp: seconds(call.received().plus_ms(run.expires_in_ms)),
        jti: jti(),
    };
    run.token = Some(sign(call, RUN_TYPE, &claims)?);
    Ok(run)
}

fn sign(call: &Call, typ: &str, claims: &impl Serialize) -> Result<String, Failure> {
    call.app.signer().sign(typ, claims).map_err(|error| Failure::internal("signing", error))
}

/// Whole seconds, rounded down: earlier, never later (RFC 7519 §2).
const fn seconds(at: Timestamp) -> u64 {
    at.unix_ms() / 1000
}

fn jti() -> String {
    format!("{:032x}", ids::ulid_bits())
}
