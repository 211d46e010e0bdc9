//! Tokens: secrets of principals with a role.
use crate::{Name, Principal, Role, Tenant, Timestamp, TokenId};
use alloc::string::String;
use serde::{Deserialize, Serialize};

/// `POST /v1/tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// The principal's name within its role; a second token of one name is a second secret of one principal.
    pub name: Name,
    /// What its holder may do.
    pub role: Role,
    /// The tenant; an admin may leave it out, an operator names it.
    #[serde(default)]
    pub tenant: Option<Tenant>,
}

/// A token. Its secret is shown once, when it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Token {
    /// Its id.
    pub id: TokenId,
    /// The tenant that it belongs to.
    pub tenant: Tenant,
    /// What its holder may do.
    pub role: Role,
    /// The principal's name.
    pub name: Name,
    /// `role:name`.
    pub principal: Principal,
    /// When it was made.
    pub created_at: Timestamp,
    /// The secret, in the answer that made it; never again.
    pub secret: Option<String>,
}
