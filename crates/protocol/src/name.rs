//! Names: tenants, roles, principals, actions, and short texts for people.
use crate::text::checked_text;
use alloc::{format, string::String, sync::Arc};
use core::{fmt, str::FromStr};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Why a text is no name of the kind asked for: the rule that it breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameError(&'static str);

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for NameError {}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $check:expr, $rule:literal, $example:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                let check: fn(&str) -> bool = $check;
                if check(text) { Ok(Self(text.into())) } else { Err(NameError($rule)) }
            }
        }

        checked_text!($name, $rule, $example);
    };
}

fn is_word(text: &str, most: usize, extra: &[u8]) -> bool {
    (1..=most).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || extra.contains(&byte))
}

fn is_line(text: &str, most: usize) -> bool {
    text.len() <= most && !text.chars().any(char::is_control)
}

name!(
    /// A tenant: a world of its own. What belongs to another one does not exist.
    Tenant,
    |text| is_word(text, 64, b"-_."),
    "a tenant is 1-64 of `A-Z a-z 0-9 . _ -`",
    "default"
);
name!(
    /// The name of a token's principal within its role.
    Name,
    |text| is_word(text, 128, b"-_.@+~"),
    "a name is 1-128 of `A-Z a-z 0-9 . _ @ + ~ -`",
    "planner"
);
name!(
    /// What a run wants to do to a resource: `deploy`. `*` stands for any, in a write set only.
    Action,
    |text| text == "*" || is_word(text, 64, b"-_.:"),
    "an action is 1-64 of `A-Z a-z 0-9 . _ : -`, or `*` for any",
    "deploy"
);
name!(
    /// A label's key.
    LabelKey,
    |text| is_word(text, 64, b"-_./"),
    "a label's key is 1-64 of `A-Z a-z 0-9 . _ / -`",
    "task"
);
name!(
    /// A short line for people: a run's name, a purpose, a label's value, a reason.
    Reason,
    |text| is_line(text, 256),
    "at most 256 bytes on one line, without control characters",
    "roll out a1b2c3"
);

impl Action {
    /// Whether it stands for any action.
    #[must_use]
    pub fn is_any(&self) -> bool {
        &*self.0 == "*"
    }
}

/// What a token's holder may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Of the cluster, without a tenant: tenants' admin tokens, members, leadership, metrics.
    Operator,
    /// Of a tenant: tokens, revoking.
    Admin,
    /// Runs, and leases for its runs.
    Orchestrator,
    /// A service that agents write to: verifies grants.
    Target,
    /// Approves what others asked for.
    Approver,
    /// Reads what happened.
    Auditor,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 6] =
        [Self::Operator, Self::Admin, Self::Orchestrator, Self::Target, Self::Approver, Self::Auditor];

    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Admin => "admin",
            Self::Orchestrator => "orchestrator",
            Self::Target => "target",
            Self::Approver => "approver",
            Self::Auditor => "auditor",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Role {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::ALL
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or(NameError("a role is operator, admin, orchestrator, target, approver or auditor"))
    }
}

/// Who stands behind a token or a run: `role:name`. Two tokens of one name are one principal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal(Arc<str>);

impl Principal {
    /// The principal of a role and a name.
    #[must_use]
    pub fn new(role: Role, name: &Name) -> Self {
        Self(format!("{role}:{name}").into())
    }

    /// `role:name`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Principal {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let (role, name) = text.split_once(':').ok_or(NameError("a principal is `role:name`"))?;
        Ok(Self::new(role.parse()?, &name.parse()?))
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl Serialize for Principal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Principal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Principal {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        crate::body::schema::string(
            "Who stands behind a credential: `role:name`.",
            "",
            "orchestrator:planner",
        )
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Principal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_is_a_role_and_a_name() {
        let principal: Principal = "orchestrator:planner".parse().unwrap();
        assert_eq!(principal, Principal::new(Role::Orchestrator, &"planner".parse().unwrap()));
        for bad in ["planner", "king:planner", "orchestrator:", "orchestrator:a b"] {
            assert!(bad.parse::<Principal>().is_err(), "{bad}");
        }
    }

    #[test]
    fn texts_for_people_stay_on_one_line() {
        assert!("roll out ä1".parse::<Reason>().is_ok());
        assert!("a\nb".parse::<Reason>().is_err());
        assert!("x".repeat(257).parse::<Reason>().is_err());
    }

    #[test]
    fn a_tenant_can_not_be_spelled_like_a_scope() {
        for bad in ["", "t1:a", "a/b", "a b", "*"] {
            assert!(bad.parse::<Tenant>().is_err(), "{bad}");
        }
    }
}
