//! `/v1/tokens`: secrets of principals with a role.
use super::{
    answer::{Answer, Done, Failure},
    auth::{SecretHash, TOKEN_PREFIX},
    body::Json,
    call::Call,
    path,
};
use crate::ids;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ringfence_core::{Operation, Reply};
use ringfence_protocol::{
    Tenant, TokenId,
    body::{CreateToken, Page, Token},
};

/// Make a token.
///
/// `secret` is shown in this answer and never again, not even to a repetition with the same key: whoever lost it makes
/// another one and deletes this.
#[utoipa::path(post, path = "/v1/tokens", operation_id = "create_token", tag = "tokens", request_body = CreateToken,
    responses((status = 201, body = Token, description = "The token, with its secret.")))]
pub(super) async fn create(call: Call, Json(body): Json<CreateToken>) -> Result<Answer<Token>, Failure> {
    let secret = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(ids::secret_bytes()));
    let operation = Operation::CreateToken {
        id: TokenId::from_bits(ids::ulid_bits()),
        tenant: body.tenant,
        role: body.role,
        name: body.name,
        secret_hash: *SecretHash::of(&secret).bytes(),
    };
    let written = call.write(operation).await?;
    let mut token = token_of(written.reply)?;
    // What a repetition drew was never stored: the first one's secret was.
    token.secret = (written.replayed != Some(true)).then_some(secret);
    let location = format!("/v1/tokens/{}", token.id);
    Ok(Answer::ok(token, written.index).created_at(location).replayed(written.replayed))
}

/// List tokens, the oldest first: an admin those of its tenant, the operator all or one tenant's.
#[utoipa::path(get, path = "/v1/tokens", operation_id = "list_tokens", tag = "tokens", params(
    ("tenant" = Option<Tenant>, Query, description = "Of this tenant only."),
    ("limit" = Option<u16>, Query, minimum = 1, maximum = 1000, description = "The most items; absent: 100."),
    ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before."),
    ("consistency" = Option<String>, Query, description = "`stale`: from this node's own state, at once.")),
    responses((status = 200, body = Page<Token>, description = "One page, without secrets.")))]
pub(super) async fn list(call: Call) -> Result<Answer<Page<Token>>, Failure> {
    let parameters = call.parameters()?;
    let tenant = parameters.get::<Tenant>("tenant")?;
    let page = parameters.page::<TokenId>()?;
    let read = call.read(parameters.consistency()?, |state, subject, _| {
        state.read_tokens(subject, tenant.as_ref(), page.after, page.with_one_more())
    });
    let (found, index) = read.await?;
    Ok(Answer::ok(page.of(found, |token| token.id), index))
}

/// Take a token back. Repeating it answers the same.
#[utoipa::path(delete, path = "/v1/tokens/{token}", operation_id = "revoke_token", tag = "tokens",
    params(("token" = TokenId, Path, description = "Which.")),
    responses((status = 204, description = "It is worth nothing any more.")))]
pub(super) async fn revoke(call: Call, path::Id(id): path::Id<TokenId>) -> Result<Done, Failure> {
    let written = call.write(Operation::RevokeToken { id }).await?;
    Ok(Done { index: written.index })
}

fn token_of(reply: Reply) -> Result<Token, Failure> {
    match reply {
        Reply::Token(token) => Ok(*token),
        other @ (Reply::Nothing | Reply::Run(_) | Reply::Lease(_)) => Err(Failure::unexpected(&other)),
    }
}
