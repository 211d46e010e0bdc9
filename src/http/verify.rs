//! `/v1/verify`: a target that has no guard asks the cluster about a grant.
use super::{
    answer::{Answer, Failure},
    app::Life,
    body::Json,
    call::{Call, Consistency},
};
use ringfence_core::GrantQuestion;
use ringfence_protocol::{
    ErrorCode, Problem,
    body::{Verdict, Verify},
    claims::{GRANT_TYPE, GrantClaims},
    problem::EndReason,
};

/// Ask whether a grant serves a write at this moment.
///
/// The answer is as new as can be, and old when it arrives: only a target that compares fences in the transaction of its
/// write refuses every stale one.
#[utoipa::path(post, path = "/v1/verify", operation_id = "verify_grant", tag = "targets", request_body = Verify,
    responses((status = 200, body = Verdict, description = "The lease is held and covers this.")))]
pub(super) async fn verify(call: Call, Json(body): Json<Verify>) -> Result<Answer<Verdict>, Failure> {
    let claims: GrantClaims = call.app.keys.verify(GRANT_TYPE, &body.grant).map_err(|error| {
        let detail = format!("the grant is not accepted: {error}");
        Failure::from(Problem::new(ErrorCode::Unauthenticated, detail).with_resource(body.resource.as_str()))
    })?;
    check_life(&claims, call.life())?;
    let question = GrantQuestion {
        tenant: claims.tenant,
        lease: claims.lease,
        fence: claims.fence,
        resource: body.resource,
        action: body.action,
    };
    let read =
        call.read(Consistency::Linearizable, |state, subject, now| state.verify(subject, &question, now));
    let (verdict, index) = read.await?;
    Ok(Answer::ok(verdict, index))
}

/// A grant of another cluster is none here, as it is none for the guard. One of an earlier life of this cluster is
/// genuine, and its lease is over: a restore ends all of them.
fn check_life(claims: &GrantClaims, life: Life) -> Result<(), Failure> {
    if claims.iss != life.cluster {
        let detail = "the grant is not accepted: it is a grant of another cluster";
        return Err(Failure::new(ErrorCode::Unauthenticated, detail));
    }
    if claims.inc == life.incarnation {
        return Ok(());
    }
    let detail = format!("the cluster was restored since the grant was given: {} is over", claims.lease);
    let mut problem = Problem::new(ErrorCode::LeaseEnded, detail);
    problem.lease = Some(claims.lease);
    problem.reason = Some(EndReason::Restored);
    Err(problem.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_protocol::{
        Fence, LeaseId, RunId,
        body::Authority,
        id::{ClusterId, Incarnation},
    };

    fn claims(cluster: u128, incarnation: u128) -> GrantClaims {
        GrantClaims {
            iss: ClusterId::from_bits(cluster),
            inc: Incarnation::from_bits(incarnation),
            tenant: "default".parse().unwrap(),
            sub: RunId::from_bits(1),
            principal: "orchestrator:planner".parse().unwrap(),
            lease: LeaseId::from_bits(1),
            fence: Fence::new(1).unwrap(),
            scopes: Vec::new(),
            authority: Authority::Write,
            iat: 0,
            exp: 0,
            jti: String::new(),
        }
    }

    #[test]
    fn a_grant_of_another_cluster_is_none_and_one_from_before_a_restore_is_over() {
        let life = Life { cluster: ClusterId::from_bits(1), incarnation: Incarnation::from_bits(2) };
        let code =
            |cluster, incarnation| check_life(&claims(cluster, incarnation), life).map_err(|f| f.code());
        assert_eq!(code(1, 2), Ok(()));
        assert_eq!(code(9, 2), Err(ErrorCode::Unauthenticated));
        assert_eq!(code(1, 1), Err(ErrorCode::LeaseEnded));
    }
}
