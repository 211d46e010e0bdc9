//! The folder of a local cluster: ports that were chosen once, key, operator's token, one configuration a node.
use crate::{
    cli::{
        failure::Failure,
        keygen,
        local::{LocalNode, write_private},
    },
    ids,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    net::TcpListener,
    ops::Range,
    path::{Path, PathBuf},
};

const DEFAULT_NODES: u16 = 3;
const DEFAULT_PORT: u16 = 7101;
const LAYOUT_FILE: &str = "up.json";
const KEY_FILE: &str = "signing.pem";
const TOKEN_FILE: &str = "operator.token";
/// Between the port of a node's API and that of its peer listener.
const PEER_OFFSET: u16 = 100;
const FIRST_LASTING_PORT: u16 = 10_240;
/// Linux hands out from here on unless told otherwise.
const FIRST_HANDED_OUT: u16 = 32_768;
const PORT_TRIES: u32 = 100;

/// What was chosen when the cluster was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Layout {
    nodes: Vec<Ports>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ports {
    id: u64,
    api: u16,
    peer: u16,
}

impl Layout {
    /// The layout of a folder, made if there is none.
    ///
    /// # Errors
    /// Where the folder can't be used, or was made for another number of nodes or another port.
    pub(super) fn open(dir: &Path, nodes: Option<u16>, port: Option<u16>) -> Result<Self, Failure> {
        let file = dir.join(LAYOUT_FILE);
        match fs::read(&file) {
            Ok(text) => {
                let layout: Self = serde_json::from_slice(&text)
                    .map_err(|error| Failure::local(&format!("{} can't be read", file.display()), error))?;
                layout.check(dir, nodes, port)?;
                Ok(layout)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Self::make(dir, nodes.unwrap_or(DEFAULT_NODES), port.unwrap_or(DEFAULT_PORT))
                    .map_err(|error| Failure::local(&format!("{} can't be prepared", dir.display()), error))
            }
            Err(error) => Err(Failure::local(&format!("{} can't be read", file.display()), error)),
        }
    }

    fn check(&self, dir: &Path, nodes: Option<u16>, port: Option<u16>) -> Result<(), Failure> {
        let (count, first) = (self.nodes.len(), self.nodes.first().map_or(0, |ports| ports.api));
        let other = match (nodes, port) {
            (Some(asked), _) if usize::from(asked) != count => format!("has {count} nodes, not {asked}"),
            (_, Some(asked)) if asked != 0 && asked != first => {
                format!("begins at port {first}, not {asked}")
            }
            _ => return Ok(()),
        };
        Err(Failure::Usage(format!(
            "the cluster in {} {other}, and stays so: leave the option out, or choose another --dir",
            dir.display()
        )))
    }

    fn make(dir: &Path, nodes: u16, port: u16) -> io::Result<Self> {
        let layout = Self { nodes: if port == 0 { system_ports(nodes)? } else { ports_from(nodes, port)? } };
        write_private(&dir.join(KEY_FILE), keygen::new_key().as_bytes())?;
        let token = format!("rfo_{}\n", URL_SAFE_NO_PAD.encode(ids::secret_bytes()));
        write_private(&dir.join(TOKEN_FILE), token.as_bytes())?;
        // Last: with it the folder is complete.
        write_private(&dir.join(LAYOUT_FILE), &serde_json::to_vec_pretty(&layout)?)?;
        Ok(layout)
    }

    /// Writes each node's configuration, and says where everything is. Nothing runs yet: the pids are 0.
    ///
    /// # Errors
    /// Where the folder can't be written.
    pub(super) fn write_configs(&self, dir: &Path) -> io::Result<Vec<LocalNode>> {
        let initial: Vec<String> =
            self.nodes.iter().map(|ports| format!("\"{}=127.0.0.1:{}\"", ports.id, ports.peer)).collect();
        self.nodes.iter().map(|ports| ports.write_config(dir, &initial.join(", "))).collect()
    }
}

impl Ports {
    fn write_config(&self, dir: &Path, initial: &str) -> io::Result<LocalNode> {
        let Self { id, api, peer } = *self;
        let text = format!(
            "# Written by `ringfence up` at each start.\n\
             [node]\nid = {id}\ndata_dir = \"node-{id}/data\"\n\n\
             [api]\nlisten = \"127.0.0.1:{api}\"\n\n\
             [peer]\nlisten = \"127.0.0.1:{peer}\"\n\n\
             [cluster]\ninitial = [{initial}]\n\n\
             [auth]\noperator_token_file = \"{TOKEN_FILE}\"\n\n\
             [signing]\nkey_files = [\"{KEY_FILE}\"]\n"
        );
        fs::create_dir_all(dir.join(format!("node-{id}")))?;
        let config = dir.join(format!("node-{id}.toml"));
        write_private(&config, text.as_bytes())?;
        Ok(LocalNode {
            id,
            api: format!("http://127.0.0.1:{api}"),
            peer: format!("127.0.0.1:{peer}"),
            pid: 0,
            data_dir: dir.join(format!("node-{id}/data")),
            config,
        })
    }
}

/// Where a node's output goes.
pub(super) fn log_file(node: &LocalNode) -> PathBuf {
    node.config.with_file_name(format!("node-{}", node.id)).join("node.log")
}

/// The operator's token of a folder.
///
/// # Errors
/// Where it can't be read.
pub(super) fn operator_token(dir: &Path) -> Result<String, Failure> {
    let file = dir.join(TOKEN_FILE);
    let text = fs::read_to_string(&file)
        .map_err(|error| Failure::local(&format!("{} can't be read", file.display()), error))?;
    Ok(text.trim().to_owned())
}

fn ports_from(nodes: u16, base: u16) -> io::Result<Vec<Ports>> {
    let last = u32::from(base) + u32::from(PEER_OFFSET) + u32::from(nodes);
    if last > u32::from(u16::MAX) || nodes > PEER_OFFSET {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("--port {base} leaves no room for {nodes} nodes"),
        ));
    }
    Ok((0..nodes)
        .map(|at| Ports { id: u64::from(at) + 1, api: base + at, peer: base + PEER_OFFSET + at })
        .collect())
}

/// Where ports that are kept may lie: below those that the system hands out by itself, or one of them would sooner or
/// later belong to somebody's connection when the cluster is started again.
fn lasting_ports() -> Range<u16> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = range.split_whitespace().next().and_then(|first| first.parse().ok());
    FIRST_LASTING_PORT..first.unwrap_or(FIRST_HANDED_OUT)
}

/// Ports that are free now. They are all held until the last is known, so that none is given twice.
fn system_ports(nodes: u16) -> io::Result<Vec<Ports>> {
    let held: Vec<TcpListener> = (0..2 * nodes).map(|_| free_port()).collect::<io::Result<_>>()?;
    let ports: Vec<u16> = held
        .iter()
        .map(|listener| listener.local_addr().map(|address| address.port()))
        .collect::<io::Result<_>>()?;
    Ok(ports.chunks(2).zip(1..).map(|(pair, id)| Ports { id, api: pair[0], peer: pair[1] }).collect())
}

fn free_port() -> io::Result<TcpListener> {
    let range = lasting_ports();
    if !range.is_empty() {
        for _ in 0..PORT_TRIES {
            if let Ok(listener) = TcpListener::bind(("127.0.0.1", ids::port_within(range.clone()))) {
                return Ok(listener);
            }
        }
    }
    TcpListener::bind("127.0.0.1:0")
}
