//! Which cluster a command talks to, and as whom.
use super::{failure::Failure, local::ClusterFile};
use clap::Args;
use ringfence_client::Client;
use ringfence_protocol::Role;
use std::path::PathBuf;

const HEADING: &str = "Which cluster, and as whom";

/// Where the nodes are and who asks. Options win over variables, and both over `RINGFENCE_DIR`.
// These options are every command's, and clap takes two of one id for the same: so their ids are their own.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// The nodes' API addresses, comma-separated.
    #[arg(
        id = "target-url",
        long = "url",
        value_name = "URL",
        global = true,
        help_heading = HEADING,
        env = "RINGFENCE_URL",
        value_delimiter = ','
    )]
    pub(crate) url: Vec<String>,
    /// The credential.
    #[arg(
        id = "target-token",
        long = "token",
        value_name = "TOKEN",
        global = true,
        help_heading = HEADING,
        env = "RINGFENCE_TOKEN",
        hide_env_values = true
    )]
    pub(crate) token: Option<String>,
    /// The folder of a local cluster, in which addresses and tokens are found.
    #[arg(id = "target-dir", long = "cluster-dir", value_name = "DIR", global = true, help_heading = HEADING, env = "RINGFENCE_DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Which of the local cluster's tokens to use, where none is given.
    #[arg(id = "target-role", long = "role", value_name = "ROLE", global = true, help_heading = HEADING)]
    pub(crate) role: Option<Role>,
}

impl Target {
    /// Whether the credential that was given is a run's own: a JWT, which no other token is.
    pub(crate) fn has_run_credential(&self) -> bool {
        self.token.as_ref().is_some_and(|token| token.split('.').count() == 3)
    }

    /// A client, with the token of `role` where none was given.
    ///
    /// # Errors
    /// [`Failure::Usage`] where nothing says which cluster or as whom.
    pub(crate) fn client(&self, role: Role) -> Result<Client, Failure> {
        let file = match &self.dir {
            Some(dir) if self.url.is_empty() || self.token.is_none() => Some(ClusterFile::read(dir)?),
            Some(_) | None => None,
        };
        let from_file = || file.as_ref().map(ClusterFile::urls).unwrap_or_default();
        let urls = if self.url.is_empty() { from_file() } else { self.url.clone() };
        if urls.is_empty() {
            return Err(Failure::Usage(
                "say which cluster: --url, RINGFENCE_URL, or RINGFENCE_DIR".to_owned(),
            ));
        }
        let of_role = || file.as_ref().and_then(|file| file.token(self.role.unwrap_or(role)));
        let token = self.token.clone().or_else(of_role);
        let token = token.ok_or_else(|| {
            Failure::Usage(
                "say as whom: --token, RINGFENCE_TOKEN, or RINGFENCE_DIR of a local cluster".to_owned(),
            )
        })?;
        Client::new(urls, &token).map_err(|error| Failure::Usage(error.to_string()))
    }
}
