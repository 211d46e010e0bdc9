//! `ringfence token …`
use super::{
    failure::Failure,
    keys::{Key, Paging},
    output,
    show::{Output, show},
    target::Target,
};
use clap::Subcommand;
use ringfence_protocol::{Name, Role, Tenant, TokenId, body::CreateToken};
use std::process::ExitCode;

/// Tokens: secrets of principals with a role.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token, and show its secret once.
    #[command(after_help = "Example:
  ringfence token create planner --as orchestrator")]
    Create {
        /// The principal's name; a second token of the same name is a second secret of the same principal.
        name: Name,
        /// What its holder may do.
        #[arg(long = "as")]
        role: Role,
        /// The tenant; an admin's own where absent, an operator names it.
        #[arg(long)]
        tenant: Option<Tenant>,
        #[command(flatten)]
        key: Key,
    },
    /// List tokens.
    List {
        #[command(flatten)]
        paging: Paging,
    },
    /// Take a token back.
    Delete {
        /// Which.
        token: TokenId,
    },
}

pub(crate) async fn run(command: TokenCommand, target: &Target, how: Output) -> Result<ExitCode, Failure> {
    let client = target.client(Role::Admin)?;
    match command {
        TokenCommand::Create { name, role, tenant, key } => {
            show(how, &client.create_token(&CreateToken { name, role, tenant }, key.get()?).await?)
        }
        TokenCommand::List { paging } => show(how, &client.tokens(&paging.page()).await?),
        TokenCommand::Delete { token } => {
            client.delete_token(token).await?;
            output::note(&format!("{token} is revoked"));
            Ok(ExitCode::SUCCESS)
        }
    }
}
