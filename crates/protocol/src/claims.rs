//! What the cluster signs: the claims of run credentials and of grants.
//!
//! Both are EdDSA JWTs (RFC 7519, RFC 8037) of their own `typ`, so that one can't be taken for the other
//! (RFC 8725 §3.11).
use crate::{
    Action, Fence, LeaseId, Mode, Principal, ResourceId, RunId, Scope, Tenant,
    body::{Actions, Authority},
    id::{ClusterId, Incarnation},
};
use alloc::{string::String, vec::Vec};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// `typ` of a run credential.
pub const RUN_TYPE: &str = "ringfence-run+jwt";
/// `typ` of a grant.
pub const GRANT_TYPE: &str = "ringfence-grant+jwt";

/// The claims of a run credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunClaims {
    /// The cluster.
    pub iss: ClusterId,
    /// Its life.
    pub inc: Incarnation,
    /// The tenant.
    pub tenant: Tenant,
    /// The run.
    pub sub: RunId,
    /// Who created the run.
    pub principal: Principal,
    /// When it was signed, in Unix seconds.
    pub iat: u64,
    /// When the run's lifetime ends, in Unix seconds. The cluster itself goes by its log time.
    pub exp: u64,
    /// Which signature of this run it is.
    pub jti: String,
}

/// The claims of a grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantClaims {
    /// The cluster.
    pub iss: ClusterId,
    /// Its life.
    pub inc: Incarnation,
    /// The tenant.
    pub tenant: Tenant,
    /// The run.
    pub sub: RunId,
    /// Who created the run.
    pub principal: Principal,
    /// The lease.
    pub lease: LeaseId,
    /// Its fence.
    pub fence: Fence,
    /// The write set.
    pub scopes: Vec<GrantScope>,
    /// What it is good for; absent: writes.
    #[serde(default, skip_serializing_if = "is_write")]
    pub authority: Authority,
    /// When it was signed, in Unix seconds.
    pub iat: u64,
    /// When the lease ends unless it is renewed, in Unix seconds, rounded down.
    pub exp: u64,
    /// Which grant of this lease it is.
    pub jti: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_write(authority: &Authority) -> bool {
    *authority == Authority::Write
}

/// One entry of the write set in a grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantScope {
    /// The scope.
    pub s: Scope,
    /// The mode, as a letter.
    #[serde(with = "letter")]
    pub m: Mode,
    /// The actions; absent: any.
    #[serde(default, skip_serializing_if = "is_any")]
    pub a: Actions,
    /// The actions for which policy wants an approval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apr: Vec<Action>,
}

fn is_any(actions: &Actions) -> bool {
    actions.list().is_none()
}

mod letter {
    use super::*;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
    pub(super) fn serialize<S: Serializer>(mode: &Mode, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_char(mode.letter())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mode, D::Error> {
        let letter = char::deserialize(deserializer)?;
        Mode::ALL
            .into_iter()
            .find(|mode| mode.letter() == letter)
            .ok_or_else(|| de::Error::custom("a mode in a grant is x, s or o"))
    }
}

/// Why a grant does not serve a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoverageError {
    /// No entry covers the resource.
    OutOfScope,
    /// An entry covers it, but not for this action, not for writes, or the run may only propose.
    ActionNotPermitted,
}

impl GrantClaims {
    /// The entry under which `action` may be done to `resource`.
    ///
    /// # Errors
    /// [`CoverageError`] where no entry covers the resource, or the one that does allows no such write: under a
    /// shared entry nothing is written, under `propose` nothing at all.
    pub fn coverage(&self, resource: &ResourceId, action: &Action) -> Result<&GrantScope, CoverageError> {
        // Entries of one write set do not overlap: at most one covers a resource.
        let entry =
            self.scopes.iter().find(|entry| entry.s.covers(resource)).ok_or(CoverageError::OutOfScope)?;
        let permitted = entry.m.may_write() && entry.a.allows(action) && self.authority == Authority::Write;
        if permitted { Ok(entry) } else { Err(CoverageError::ActionNotPermitted) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{string::ToString, vec};

    fn grant() -> GrantClaims {
        let entry = |scope: &str, m, actions: Option<&str>| GrantScope {
            s: scope.parse().unwrap(),
            m,
            a: actions.map_or(Actions::ANY, |action| Actions::new(vec![action.parse().unwrap()]).unwrap()),
            apr: Vec::new(),
        };
        GrantClaims {
            iss: ClusterId::from_bits(1),
            inc: Incarnation::from_bits(2),
            tenant: "default".parse().unwrap(),
            sub: RunId::from_bits(3),
            principal: "orchestrator:planner".parse().unwrap(),
            lease: LeaseId::from_bits(4),
            fence: Fence::new(1042).unwrap(),
            scopes: vec![
                entry("release/prod-eu", Mode::Exclusive, Some("deploy")),
                entry("config/eu/**", Mode::Shared, None),
            ],
            authority: Authority::Write,
            iat: 1,
            exp: 11,
            jti: "1".to_string(),
        }
    }

    #[test]
    fn a_grant_has_the_claims_of_the_contract() {
        let json = serde_json::to_value(grant()).unwrap();
        assert_eq!(json["scopes"][0], serde_json::json!({"s": "release/prod-eu", "m": "x", "a": ["deploy"]}));
        assert_eq!(json["scopes"][1], serde_json::json!({"s": "config/eu/**", "m": "s"}));
        assert!(json.get("authority").is_none());
        assert_eq!(serde_json::from_value::<GrantClaims>(json).unwrap(), grant());
    }

    #[test]
    fn coverage_asks_for_the_scope_the_action_a_writing_mode_and_the_authority() {
        let resource = |text: &str| text.parse::<ResourceId>().unwrap();
        let deploy: Action = "deploy".parse().unwrap();
        let delete: Action = "delete".parse().unwrap();
        let grant = grant();
        assert!(grant.coverage(&resource("release/prod-eu"), &deploy).is_ok());
        assert_eq!(
            grant.coverage(&resource("release/prod-eu"), &delete),
            Err(CoverageError::ActionNotPermitted)
        );
        assert_eq!(grant.coverage(&resource("config/eu/a"), &deploy), Err(CoverageError::ActionNotPermitted));
        assert_eq!(grant.coverage(&resource("release/prod-us"), &deploy), Err(CoverageError::OutOfScope));
        let proposal = GrantClaims { authority: Authority::Propose, ..grant };
        assert_eq!(
            proposal.coverage(&resource("release/prod-eu"), &deploy),
            Err(CoverageError::ActionNotPermitted)
        );
    }
}
