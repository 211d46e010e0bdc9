//! One node's part in the consensus: asked by everybody else.
use super::{
    ReadPoint, Unavailable,
    config::ConsensusConfig,
    log_clock::LogClock,
    network::{Myself, Network},
    open::{Opened, StartError},
    peer::{
        forward::Forwarder,
        hello::Purpose,
        message::{ForwardAnswer, ForwardCall},
        server,
    },
    proposals::{self, Proposal, Proposals},
    reads::{self, Reads},
    service::Service,
    shared::{Shared, follow_leadership},
    ticks,
    types::{Applied, Member},
};
use crate::{
    clock,
    storage::lock::FolderLock,
    tasks::{AtEnd, Tasks},
};
use openraft::{Instant as _, Raft, async_runtime::watch::WatchReceiver};
use ringfence_core::{Outcome, State, command::ClientRequest, command::Request};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    time::timeout,
};

/// How long a request waits for a leader before it is told that there is none.
const LEADER_PATIENCE: Duration = Duration::from_millis(2500);
const RETRY_PAUSE: Duration = Duration::from_millis(25);
/// For how many of the longest elections a leader may be without a majority's answer.
const SILENT_ELECTIONS: u32 = 3;
/// How long a planned stop waits for another node to lead.
const HANDOVER_LIMIT: Duration = Duration::from_secs(1);

/// A member of the cluster, as this node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its number.
    pub id: u64,
    /// Where its API listens.
    pub api: String,
    /// Where its peers find it.
    pub peer: String,
    /// Whether it votes.
    pub voter: bool,
    /// How far its log is known to be, where this node leads.
    pub matched: Option<u64>,
    /// How long ago it last answered a heartbeat, where this node leads.
    pub heard: Option<Duration>,
}

/// The cluster, as this node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// This node.
    pub node: u64,
    /// Who leads.
    pub leader: Option<u64>,
    /// The term of Raft.
    pub term: u64,
    /// The last entry of this node's log.
    pub last_log: u64,
    /// The last entry that this node has applied.
    pub applied: u64,
    /// The members.
    pub members: Vec<MemberStatus>,
}

/// One node's part in the consensus. Cheap to clone.
#[derive(Clone)]
pub struct Consensus {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    proposals: Proposals,
    reads: Reads,
    forwarder: Arc<Forwarder>,
    data_dir: PathBuf,
    _lock: FolderLock,
}

impl Consensus {
    /// Opens the data folder, starts Raft, and listens to peers.
    ///
    /// An empty folder becomes that of a new node, which waits for a cluster to take it in.
    ///
    /// # Errors
    /// [`StartError`]: damage, contradicting settings, or a folder that is in use. Nothing is repaired silently.
    pub async fn start(
        config: ConsensusConfig,
        peers: TcpListener,
        tasks: &Tasks,
    ) -> Result<Self, StartError> {
        let raft_config = Arc::new(config.raft()?);
        let opened = {
            let config = config.clone();
            tokio::task::spawn_blocking(move || Opened::open(&config)).await.map_err(io::Error::other)??
        };
        let Opened { lock, local, log, machine, disk } = opened;
        let replica = machine.replica();
        let myself = Arc::new(Myself::new(local));
        let network = Network { myself: Arc::clone(&myself) };
        let raft = Raft::new(config.node, raft_config, network, log, machine)
            .await
            .map_err(|error| StartError::Raft(error.to_string()))?;
        let shared = Arc::new(Shared {
            server: raft.server_metrics(),
            leadership: watch::Sender::default(),
            position: replica.watch(),
            clock: LogClock::default(),
            grace_ms: config.grace_ms,
            silence_limit: Duration::from_millis(config.election_max_ms()) * SILENT_ELECTIONS,
            disk,
            raft,
            replica,
            myself,
        });
        let (proposals, waiting) = Proposals::channel();
        let (reads, readers) = Reads::channel();
        let forwarder = Forwarder::new(tasks.clone());
        let data_dir = config.data_dir;
        let consensus =
            Self { inner: Arc::new(Inner { shared, proposals, reads, forwarder, data_dir, _lock: lock }) };
        consensus.spawn(peers, waiting, readers, tasks);
        Ok(consensus)
    }

    fn spawn(
        &self,
        peers: TcpListener,
        waiting: mpsc::Receiver<Proposal>,
        readers: mpsc::Receiver<reads::Waiter>,
        tasks: &Tasks,
    ) {
        let shared = || Arc::clone(&self.inner.shared);
        let service = Arc::new(Service {
            shared: shared(),
            proposals: self.inner.proposals.clone(),
            reads: self.inner.reads.clone(),
            data_dir: self.inner.data_dir.clone(),
        });
        tasks.spawn("proposals", AtEnd::StopsNode, proposals::run(shared(), waiting, tasks.clone()));
        tasks.spawn("reads", AtEnd::StopsNode, reads::run(shared(), readers));
        tasks.spawn("ticks", AtEnd::StopsNode, ticks::run(shared(), self.inner.proposals.clone()));
        tasks.spawn("leadership", AtEnd::StopsNode, follow_leadership(shared()));
        tasks.spawn("peers", AtEnd::StopsNode, server::serve(peers, service, tasks.clone()));
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.inner.shared
    }

    pub(super) fn data_dir(&self) -> &Path {
        &self.inner.data_dir
    }

    /// Puts a request into the log, through the leader, and gives back what applying it gave and the index at which
    /// it was. This node's own state may not be that far yet.
    ///
    /// # Errors
    /// [`Unavailable`], and with it whether the request may have been applied.
    pub async fn propose(&self, request: ClientRequest) -> Result<(Outcome, u64), Unavailable> {
        let started = clock::monotonic();
        loop {
            match self.propose_once(request.clone()).await {
                Ok(applied) => {
                    let outcome = applied.outcome.ok_or(Unavailable::Uncertain)?;
                    return Ok((outcome, applied.index));
                }
                // It was surely not applied: whoever leads next may be asked.
                Err(Unavailable::NoLeader) => self.wait_for_leader(started).await?,
                Err(error) => return Err(error),
            }
        }
    }

    async fn propose_once(&self, request: ClientRequest) -> Result<Applied, Unavailable> {
        let shared = &self.inner.shared;
        let leader = shared.leadership().leader.ok_or(Unavailable::NoLeader)?;
        if leader == shared.myself.get().node {
            return self.inner.proposals.propose(Request::Client(request)).await;
        }
        match self.forward(leader, ForwardCall::Propose(Box::new(request))).await? {
            ForwardAnswer::Proposed(result) => *result,
            ForwardAnswer::ReadPoint(_) => Err(Unavailable::Uncertain),
        }
    }

    /// Asks the leader, as long as it is the leader: one that was stopped or cut off never answers.
    async fn forward(&self, leader: u64, call: ForwardCall) -> Result<ForwardAnswer, Unavailable> {
        let shared = &self.inner.shared;
        let member = shared.member(leader).ok_or(Unavailable::NoLeader)?;
        let hello = || shared.myself.hello(leader, &member, Purpose::Forward);
        let another = shared.another_leads(leader);
        tokio::select! {
            answer = self.inner.forwarder.ask(&member.peer, hello, call) => answer,
            // Dropping the question does not take it back: the old leader may have put it into its log.
            _ = another => Err(Unavailable::Uncertain),
        }
    }

    /// Waits until somebody else may lead, or gives up.
    async fn wait_for_leader(&self, started: Instant) -> Result<(), Unavailable> {
        if started.elapsed() > LEADER_PATIENCE {
            return Err(Unavailable::NoLeader);
        }
        // Woken by a change; the pause covers one that came just before.
        timeout(RETRY_PAUSE, self.inner.shared.leadership_changed()).await.ok();
        Ok(())
    }

    /// Waits until everything that was acknowledged before this call is in this node's state.
    ///
    /// # Errors
    /// [`Unavailable`]: then nothing may be read as current.
    pub async fn read_point(&self) -> Result<ReadPoint, Unavailable> {
        let started = clock::monotonic();
        loop {
            match self.read_point_once().await {
                // A read changes nothing: it can always be tried again.
                Err(Unavailable::NoLeader | Unavailable::Uncertain) => self.wait_for_leader(started).await?,
                other => return other,
            }
        }
    }

    async fn read_point_once(&self) -> Result<ReadPoint, Unavailable> {
        let shared = &self.inner.shared;
        let leader = shared.leadership().leader.ok_or(Unavailable::NoLeader)?;
        if leader == shared.myself.get().node {
            return self.inner.reads.confirm().await;
        }
        let ForwardAnswer::ReadPoint(point) = self.forward(leader, ForwardCall::ReadPoint).await? else {
            return Err(Unavailable::Uncertain);
        };
        let point = point?;
        self.wait_applied(point.index).await?;
        Ok(point)
    }

    /// Waits until this node has applied the entry at `index`.
    ///
    /// # Errors
    /// [`Unavailable::NoLeader`] where it does not get there in time: it is cut off.
    pub async fn wait_applied(&self, index: u64) -> Result<(), Unavailable> {
        let mut position = self.inner.shared.position.clone();
        let reached = position.wait_for(|position| position.index >= index);
        match timeout(LEADER_PATIENCE, reached).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(Unavailable::ShuttingDown),
            Err(_) => Err(Unavailable::NoLeader),
        }
    }

    /// Reads this node's state, together with the index it stands at. Short work only.
    pub fn read<T>(&self, read: impl FnOnce(&State, u64) -> T) -> T {
        self.inner.shared.replica.read(read)
    }

    /// The cluster, as this node sees it.
    #[must_use]
    pub fn status(&self) -> Status {
        let metrics = self.inner.shared.raft.metrics().borrow_watched().clone();
        let membership = metrics.membership_config.membership();
        let voters: Vec<_> = membership.voter_ids().collect();
        let member = |(&id, member): (&u64, &Member)| MemberStatus {
            id,
            api: member.api.clone(),
            peer: member.peer.clone(),
            voter: voters.contains(&id),
            matched: metrics
                .replication
                .as_ref()
                .and_then(|all| all.get(&id)?.as_ref())
                .map(|log_id| log_id.index),
            heard: metrics.heartbeat.as_ref().and_then(|all| all.get(&id)?.as_ref()).map(|at| at.elapsed()),
        };
        Status {
            node: metrics.id,
            leader: metrics
                .current_leader
                .filter(|leader| *leader != metrics.id || !self.inner.shared.lost_majority()),
            term: metrics.current_term,
            last_log: metrics.last_log_index.unwrap_or(0),
            applied: metrics.last_applied.map_or(0, |log_id| log_id.index),
            members: membership.nodes().map(member).collect(),
        }
    }

    /// Hands leadership over, if this node has it, and stops Raft. What was submitted to the log is written.
    pub async fn stop(&self) {
        let shared = &self.inner.shared;
        if let Some(successor) = self.successor() {
            tracing::info!(successor, "handing leadership over");
            if shared.raft.trigger().transfer_leader(successor).await.is_ok() {
                let mut leadership = shared.leadership.subscribe();
                let deposed = leadership.wait_for(|leadership| !leadership.mine);
                if timeout(HANDOVER_LIMIT, deposed).await.is_err() {
                    tracing::warn!("nobody took the leadership over in time");
                }
            }
        }
        if let Err(error) = shared.raft.shutdown().await {
            tracing::error!(%error, "raft did not stop cleanly");
        }
    }

    /// The voter that is furthest, where this node leads.
    fn successor(&self) -> Option<u64> {
        let shared = &self.inner.shared;
        shared.leading_term()?;
        let me = shared.myself.get().node;
        let status = self.status();
        let others = status.members.into_iter().filter(|member| member.voter && member.id != me);
        others.max_by_key(|member| member.matched).map(|member| member.id)
    }
}
