//! Tokens: secrets of principals with a role. Only their hashes are here.
use crate::{
    ask::{Ask, done, owner_of},
    limits,
    outcome::{Done, Refusal, Reply, Thing},
    records::{Due, Made, TokenRecord},
    state::{State, nothing},
};
use alloc::{boxed::Box, format, string::ToString};
use ringfence_protocol::{Name, Principal, Role, Tenant, TokenId, body::Token};

/// A token that is asked for.
pub(crate) struct TokenWish {
    pub(crate) id: TokenId,
    pub(crate) tenant: Option<Tenant>,
    pub(crate) role: Role,
    pub(crate) name: Name,
    pub(crate) secret_hash: [u8; 32],
}

impl State {
    pub(crate) fn create_token(&mut self, ask: &Ask, wish: TokenWish) -> Result<Done, Refusal> {
        let owner = owner_of(&ask.subject);
        if let Some(done) = self.replay(ask, &owner)? {
            return Ok(done);
        }
        let tenant = token_tenant(ask, wish.tenant)?;
        // A second token of one secret would take the first one's place: whoever has it would be somebody else.
        if self.tokens.contains_key(&wish.id) || self.secrets.contains_key(&wish.secret_hash) {
            return Err(Refusal::IdTaken);
        }
        let tokens = &mut self.tenant(&tenant).tokens;
        if tokens.len() >= limits::TOKENS_PER_TENANT {
            return Err(Refusal::LimitExceeded(format!(
                "{} tokens of one tenant",
                limits::TOKENS_PER_TENANT
            )));
        }
        tokens.insert(wish.id);
        self.secrets.insert(wish.secret_hash, wish.id);
        let record = TokenRecord {
            tenant,
            role: wish.role,
            name: wish.name,
            created_at: ask.wall,
            secret_hash: wish.secret_hash,
            revoked: false,
        };
        self.tokens.insert(wish.id, record);
        self.note(ask, owner, Made::Token(wish.id));
        Ok(self.token_reply(wish.id).map(done).expect("the token was just made"))
    }

    /// Takes a secret back. Doing so again changes nothing; a day later the token is forgotten.
    pub(crate) fn revoke_token(&mut self, ask: &Ask, id: TokenId) -> Result<Done, Refusal> {
        let now = self.log_ms;
        let record = self
            .tokens
            .get_mut(&id)
            .filter(|token| ask.subject.tenant.as_ref().is_none_or(|tenant| token.tenant == *tenant));
        let record = record.ok_or(Refusal::NotFound(Thing::Token))?;
        if !record.revoked {
            record.revoked = true;
            self.deadlines.insert((now.saturating_add(limits::REMEMBER_MS), Due::ForgetToken(id)));
        }
        Ok(nothing())
    }

    /// The token with this secret, revoked or not.
    #[must_use]
    pub fn token_by_hash(&self, secret_hash: &[u8; 32]) -> Option<TokenId> {
        self.secrets.get(secret_hash).copied()
    }

    pub(crate) fn token_view(&self, id: TokenId) -> Option<Token> {
        let record = self.tokens.get(&id)?;
        Some(Token {
            id,
            tenant: record.tenant.clone(),
            role: record.role,
            name: record.name.clone(),
            principal: Principal::new(record.role, &record.name),
            created_at: record.created_at,
            secret: None,
        })
    }

    pub(crate) fn token_reply(&self, id: TokenId) -> Option<Reply> {
        self.token_view(id).map(|token| Reply::Token(Box::new(token)))
    }
}

/// The tenant that a new token is for: an admin's own, or the one that the operator names.
fn token_tenant(ask: &Ask, named: Option<Tenant>) -> Result<Tenant, Refusal> {
    match (&ask.subject.tenant, named) {
        (Some(own), None) => Ok(own.clone()),
        (Some(own), Some(named)) if *own == named => Ok(named),
        (Some(_), Some(_)) => {
            Err(Refusal::Forbidden("an admin makes tokens of its own tenant only".to_string()))
        }
        (None, Some(named)) => Ok(named),
        (None, None) => Err(Refusal::InvalidField {
            field: "tenant".to_string(),
            detail: "an operator names the tenant".to_string(),
        }),
    }
}
