//! `ringfence serve`: one node as this process.
use super::failure::Failure;
use crate::{config::Config, node};
use clap::Args;
use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

/// Run one node, until SIGTERM or SIGINT.
///
/// Every key of the configuration can also be given as a variable (RINGFENCE_API_LISTEN is `api.listen`), which wins over
/// the file; the options below win over both.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ringfence serve --config node-1.toml --bootstrap     the first node, the first time
  ringfence serve --config node-2.toml")]
pub(super) struct ServeArgs {
    /// The node's configuration, TOML.
    #[arg(long)]
    config: PathBuf,
    /// Begin a cluster with `cluster.initial`, unless the node is part of one.
    #[arg(long)]
    bootstrap: bool,
    /// `node.id`
    #[arg(long)]
    node_id: Option<u64>,
    /// `node.data_dir`
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// `api.listen`
    #[arg(long)]
    api_listen: Option<SocketAddr>,
    /// `peer.listen`
    #[arg(long)]
    peer_listen: Option<SocketAddr>,
    /// `peer.advertise`
    #[arg(long)]
    peer_advertise: Option<String>,
    /// `cluster.initial`: `ID=HOST:PORT`, comma-separated
    #[arg(long, value_delimiter = ',')]
    cluster_initial: Option<Vec<String>>,
}

impl ServeArgs {
    fn configuration(self) -> Result<(Config, bool), Failure> {
        let unusable = |error: crate::config::ConfigError| Failure::Usage(error.to_string());
        let mut config = Config::load(&self.config).map_err(unusable)?;
        set(&mut config.node.id, self.node_id);
        set(&mut config.node.data_dir, self.data_dir);
        set(&mut config.api.listen, self.api_listen);
        set(&mut config.peer.listen, self.peer_listen);
        set(&mut config.peer.advertise, self.peer_advertise.map(Some));
        set(&mut config.cluster.initial, self.cluster_initial);
        config.validate().map_err(unusable)?;
        Ok((config, self.bootstrap))
    }
}

fn set<T>(key: &mut T, given: Option<T>) {
    if let Some(value) = given {
        *key = value;
    }
}

/// Runs until asked to stop.
///
/// # Errors
/// Where the configuration is none, or the node can't go on.
pub(super) fn run(args: ServeArgs) -> Result<ExitCode, Failure> {
    let (config, bootstrap) = args.configuration()?;
    node::serve(config, bootstrap).map_err(|error| Failure::Local(error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}
