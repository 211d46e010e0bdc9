//! openraft's way to its peers.
use super::{
    peer::{
        connection::{Connection, PeerError},
        hello::{Hello, Local, PEER_VERSION, Purpose},
        message::{RaftAnswer, RaftCall},
    },
    types::{Member, TypeConfig, Vote},
};
use bytes::Bytes;
use openraft::{
    OptionalSend, RaftNetworkFactory, RaftNetworkV2,
    errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable},
    network::RPCOption,
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
        TransferLeaderResponse, VoteRequest, VoteResponse,
    },
    type_config::alias::SnapshotOf,
};
use std::{
    future::Future,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

/// The most bytes of a snapshot in one frame.
const SNAPSHOT_PART_BYTES: usize = 1 << 20;

/// How long a follower may take to make a batch durable before the leader tries anew. openraft passes the time between
/// two heartbeats here, which a busy disk exceeds; heartbeats have their own connection.
const APPEND_LIMIT: Duration = Duration::from_secs(2);
/// How long one part of a snapshot may take.
const PART_LIMIT: Duration = Duration::from_secs(5);

/// Who this node is: changes once, when it joins a cluster.
#[derive(Debug)]
pub(crate) struct Myself(RwLock<Local>);

impl Myself {
    pub(crate) fn new(local: Local) -> Self {
        Self(RwLock::new(local))
    }

    pub(crate) fn get(&self) -> Local {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, local: Local) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = local;
    }

    /// What this node says to a member.
    pub(crate) fn hello(&self, to: u64, member: &Member, purpose: Purpose) -> Hello {
        let local = self.get();
        Hello {
            version: PEER_VERSION,
            name: local.name,
            life: local.life,
            from: local.node,
            from_storage: local.storage,
            to,
            to_storage: Some(member.storage.clone()),
            purpose,
        }
    }
}

/// Makes the connections: one for each use, so that none holds up another.
pub(crate) struct Network {
    pub(crate) myself: Arc<Myself>,
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, node: &Member) -> Peer {
        let myself = Arc::clone(&self.myself);
        Peer { myself, target, member: node.clone(), append_limit: Some(APPEND_LIMIT), connection: None }
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &Member) -> Peer {
        Peer { append_limit: None, ..self.new_client(target, node).await }
    }
}

/// One connection to one peer, made when it is first needed.
pub(crate) struct Peer {
    myself: Arc<Myself>,
    target: u64,
    member: Member,
    /// `None`: what openraft asks for.
    append_limit: Option<Duration>,
    connection: Option<Connection>,
}

fn rpc_error(error: &PeerError) -> RPCError<TypeConfig> {
    match error {
        PeerError::Unreachable { .. } | PeerError::Refused { .. } => {
            RPCError::Unreachable(Unreachable::new(error))
        }
        PeerError::Broken { .. } => RPCError::Network(NetworkError::new(error)),
    }
}

fn unexpected(answer: &RaftAnswer) -> RPCError<TypeConfig> {
    let text = match answer {
        RaftAnswer::Failed(text) => text.clone(),
        RaftAnswer::Append(_)
        | RaftAnswer::Vote(_)
        | RaftAnswer::TransferLeader(_)
        | RaftAnswer::PartTaken
        | RaftAnswer::Snapshot(_) => "the peer answered something else than was asked".to_owned(),
    };
    RPCError::Network(NetworkError::from_string(text))
}

impl Peer {
    async fn ask(&mut self, call: &RaftCall, limit: Duration) -> Result<RaftAnswer, RPCError<TypeConfig>> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect(limit).await.map_err(|error| rpc_error(&error))?,
        };
        let answer = connection.ask(call, limit).await.map_err(|error| rpc_error(&error))?;
        // Kept only after a whole exchange: an abandoned one would leave its answer to the next question.
        self.connection = Some(connection);
        Ok(answer)
    }

    async fn connect(&self, limit: Duration) -> Result<Connection, PeerError> {
        let hello = self.myself.hello(self.target, &self.member, Purpose::Raft);
        let opened = Connection::open(&self.member.peer, &hello, limit).await;
        if let Err(PeerError::Refused { address, refusal }) = &opened {
            tracing::error!(node = self.target, %address, %refusal, "a peer refuses this node");
        }
        opened.map(|(connection, _)| connection)
    }

    async fn send_snapshot(
        &mut self,
        vote: Vote,
        snapshot: SnapshotOf<TypeConfig, Bytes>,
        limit: Duration,
    ) -> Result<SnapshotResponse<TypeConfig>, RPCError<TypeConfig>> {
        // A new connection: parts of an earlier, abandoned one must not be in front of these.
        self.connection = None;
        for part in snapshot.snapshot.chunks(SNAPSHOT_PART_BYTES) {
            let answer = self.ask(&RaftCall::SnapshotPart(part.to_vec()), PART_LIMIT).await?;
            if !matches!(answer, RaftAnswer::PartTaken) {
                return Err(unexpected(&answer));
            }
        }
        let end = RaftCall::SnapshotEnd {
            vote,
            last_log_id: snapshot.meta.last_log_id,
            membership: snapshot.meta.last_membership,
        };
        let answer = self.ask(&end, limit).await?;
        if let RaftAnswer::Snapshot(response) = answer { Ok(response) } else { Err(unexpected(&answer)) }
    }
}

impl RaftNetworkV2<TypeConfig> for Peer {
    type SnapshotData = Bytes;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        let limit = self.append_limit.unwrap_or_else(|| option.soft_ttl());
        let answer = self.ask(&RaftCall::Append(rpc), limit).await?;
        if let RaftAnswer::Append(response) = answer { Ok(response) } else { Err(unexpected(&answer)) }
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let answer = self.ask(&RaftCall::Vote(rpc), option.soft_ttl()).await?;
        if let RaftAnswer::Vote(response) = answer { Ok(response) } else { Err(unexpected(&answer)) }
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let answer = self.ask(&RaftCall::PreVote(rpc), option.soft_ttl()).await?;
        if let RaftAnswer::Vote(response) = answer { Ok(response) } else { Err(unexpected(&answer)) }
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: SnapshotOf<TypeConfig, Bytes>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        tokio::select! {
            // The connection is left where it was: `send_snapshot` begins with a new one.
            closed = cancel => Err(closed.into()),
            sent = self.send_snapshot(vote, snapshot, option.soft_ttl()) => sent.map_err(|error| match error {
                RPCError::Timeout(error) => StreamingError::Timeout::<TypeConfig>(error as Timeout<TypeConfig>),
                RPCError::Unreachable(error) => error.into(),
                RPCError::Network(error) => error.into(),
                RPCError::RemoteError(error) => match error.source {},
            }),
        }
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RPCError<TypeConfig>> {
        let answer = self.ask(&RaftCall::TransferLeader(req), option.soft_ttl()).await?;
        if let RaftAnswer::TransferLeader(response) = answer {
            Ok(response)
        } else {
            Err(unexpected(&answer))
        }
    }
}
