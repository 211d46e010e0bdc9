//! The state on this node: written by openraft as entries are committed, read by everybody else.
use super::types::{Applied, Entry, LogId, StoredMembership, TypeConfig};
use crate::{clock, storage::snapshot::SnapshotStore, telemetry};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use openraft::{
    EntryPayload, OptionalSend, RaftSnapshotBuilder,
    storage::{EntryResponder, RaftStateMachine},
    type_config::alias::{SnapshotMetaOf, SnapshotOf},
};
use ringfence_core::{Command, Outcome, State};
use serde::{Deserialize, Serialize};
use std::{
    io,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};
use tokio::sync::{Mutex, OwnedMutexGuard, watch};

/// How far this node has applied the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    /// The index of the last applied entry.
    pub(crate) index: u64,
    /// The term of the leader whose entries are being applied.
    pub(crate) term: u64,
}

#[derive(Debug, Clone, Default)]
struct Content {
    state: State,
    last_applied: Option<LogId>,
    membership: StoredMembership,
}

/// The state of this node and where in the log it stands.
#[derive(Debug)]
pub(crate) struct Replica {
    content: RwLock<Content>,
    position: watch::Sender<Position>,
}

impl Replica {
    fn new() -> Self {
        Self { content: RwLock::default(), position: watch::Sender::default() }
    }

    fn content(&self) -> RwLockReadGuard<'_, Content> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the state, together with the index it stands at. Short work only: it holds up what is being applied.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&State, u64) -> T) -> T {
        let content = self.content();
        read(&content.state, content.last_applied.map_or(0, |log_id| log_id.index))
    }

    /// Follows how far the log has been applied.
    pub(crate) fn watch(&self) -> watch::Receiver<Position> {
        self.position.subscribe()
    }

    fn replace(&self, content: Content) {
        let position = position_of(&content);
        *self.content.write().unwrap_or_else(PoisonError::into_inner) = content;
        self.position.send_replace(position);
    }

    fn apply(&self, entry: Entry) -> io::Result<Applied> {
        let log_id = entry.log_id;
        let mut content = self.content.write().unwrap_or_else(PoisonError::into_inner);
        let term = *log_id.committed_leader_id();
        let term: u64 = term.term;
        content.state.begin_term(term);
        let outcome = match entry.payload {
            EntryPayload::Blank => None,
            EntryPayload::Membership(membership) => {
                content.membership = StoredMembership::new(Some(log_id), membership);
                None
            }
            EntryPayload::Normal(payload) => Some(apply_command(&mut content.state, &payload.0)?),
        };
        content.last_applied = Some(log_id);
        drop(content);
        if let Some(outcome) = &outcome {
            telemetry::events(term, &outcome.events);
        }
        self.position.send_replace(Position { index: log_id.index, term });
        Ok(Applied { index: log_id.index, outcome })
    }
}

fn apply_command(state: &mut State, bytes: &[u8]) -> io::Result<Outcome> {
    // Going on without an entry that others can read would split the state: the node stops instead.
    let command = Command::from_bytes(bytes).map_err(|error| {
        io::Error::new(io::ErrorKind::InvalidData, format!("an entry can't be read: {error}"))
    })?;
    Ok(state.apply(command))
}

fn position_of(content: &Content) -> Position {
    Position { index: content.last_applied.map_or(0, |log_id| log_id.index), term: content.state.term() }
}

/// What a snapshot says beside the state.
#[derive(Debug, Serialize, Deserialize)]
struct Meta {
    last_log_id: Option<LogId>,
    membership: StoredMembership,
}

fn invalid(what: &str, error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what}: {error}"))
}

/// openraft's view of the replica.
pub(crate) struct StateMachine {
    replica: Arc<Replica>,
    snapshots: Arc<SnapshotStore>,
    /// Held by whoever changes the state, and by a snapshot while it writes the state out.
    still: Arc<Mutex<()>>,
}

impl StateMachine {
    /// Opens the replica at its last snapshot; openraft applies the rest of the log.
    ///
    /// # Errors
    /// Where the snapshot is damaged or was written by another version.
    pub(crate) fn open(snapshots: Arc<SnapshotStore>) -> io::Result<Self> {
        let replica = Arc::new(Replica::new());
        if let Some((meta, data)) = read_latest(&snapshots)? {
            replica.replace(decode(&meta, &data)?);
        }
        Ok(Self { replica, snapshots, still: Arc::default() })
    }

    /// The replica, for readers.
    pub(crate) fn replica(&self) -> Arc<Replica> {
        Arc::clone(&self.replica)
    }
}

/// The head and the state of the newest snapshot, every block checked on the way.
fn read_latest(snapshots: &SnapshotStore) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let files = snapshots.list().map_err(io::Error::other)?;
    let Some(newest) = files.first() else {
        return Ok(None);
    };
    let mut reader = newest.open().map_err(io::Error::other)?;
    let mut data = Vec::new();
    while let Some(block) = reader.next_block().map_err(io::Error::other)? {
        data.extend_from_slice(block);
    }
    Ok(Some((reader.meta().to_vec(), data)))
}

fn decode(meta: &[u8], data: &[u8]) -> io::Result<Content> {
    let meta: Meta =
        postcard::from_bytes(meta).map_err(|error| invalid("a snapshot's head can't be read", error))?;
    let state =
        State::from_bytes(data).map_err(|error| invalid("a snapshot's state can't be read", error))?;
    Ok(Content { state, last_applied: meta.last_log_id, membership: meta.membership })
}

fn encode_meta(content: &Content) -> io::Result<Vec<u8>> {
    let meta = Meta { last_log_id: content.last_applied, membership: content.membership.clone() };
    postcard::to_allocvec(&meta).map_err(|error| invalid("a snapshot's head can't be written", error))
}

/// Makes a snapshot of the state as it was when it was asked for.
///
/// The state is written out where it is, by a thread of its own, and not copied first: that would hold up the raft
/// thread, heartbeats and all, for as long. Until it has been written out nothing is applied; reads go on.
pub(crate) struct SnapshotBuilder {
    replica: Arc<Replica>,
    snapshots: Arc<SnapshotStore>,
    still: Option<OwnedMutexGuard<()>>,
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    type SnapshotData = Bytes;

    async fn build_snapshot(&mut self) -> Result<SnapshotOf<TypeConfig, Bytes>, io::Error> {
        let (replica, snapshots) = (Arc::clone(&self.replica), Arc::clone(&self.snapshots));
        let still = self.still.take();
        let write = move || {
            let started = clock::monotonic();
            let encoded = Encoded::of(&replica.content())?;
            drop(still);
            tracing::debug!(millis = started.elapsed().as_millis(), "the state is written out");
            encoded.store(&snapshots)
        };
        tokio::task::spawn_blocking(write).await.map_err(io::Error::other)?
    }
}

/// A state written out, on its way to the disk.
struct Encoded {
    index: u64,
    term: u64,
    head: Vec<u8>,
    data: Vec<u8>,
    meta: SnapshotMetaOf<TypeConfig>,
}

impl Encoded {
    fn of(content: &Content) -> io::Result<Self> {
        Ok(Self {
            index: content.last_applied.map_or(0, |log_id| log_id.index),
            term: content.state.term(),
            head: encode_meta(content)?,
            data: content.state.to_bytes(),
            meta: SnapshotMetaOf::<TypeConfig> {
                last_log_id: content.last_applied,
                last_membership: content.membership.clone(),
            },
        })
    }

    /// Writes it durably, and gives back what openraft wants to know of it.
    fn store(self, snapshots: &SnapshotStore) -> io::Result<SnapshotOf<TypeConfig, Bytes>> {
        let started = clock::monotonic();
        snapshots
            .write(self.index, &self.term.to_string(), &self.head, &self.data)
            .map_err(io::Error::other)?;
        let (bytes, millis) = (self.data.len(), started.elapsed().as_millis());
        tracing::info!(bytes, millis, index = self.index, "wrote a snapshot");
        Ok(SnapshotOf::<TypeConfig, Bytes> { meta: self.meta, snapshot: Bytes::from(self.data) })
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = Bytes;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        let content = self.replica.content();
        Ok((content.last_applied, content.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + OptionalSend,
    {
        let _still = self.still.lock().await;
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            let applied = self.replica.apply(entry)?;
            if let Some(responder) = responder {
                responder.send(applied);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        SnapshotBuilder {
            replica: Arc::clone(&self.replica),
            snapshots: Arc::clone(&self.snapshots),
            still: Some(Arc::clone(&self.still).lock_owned().await),
        }
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMetaOf<TypeConfig>,
        snapshot: Bytes,
    ) -> Result<(), io::Error> {
        let state = State::from_bytes(&snapshot)
            .map_err(|error| invalid("a snapshot's state can't be read", error))?;
        let content =
            Content { state, last_applied: meta.last_log_id, membership: meta.last_membership.clone() };
        let _still = self.still.lock().await;
        let snapshots = Arc::clone(&self.snapshots);
        // On the disk first: the log that it replaces is purged after this returns.
        let store =
            move || Encoded::of(&content).and_then(|encoded| encoded.store(&snapshots)).map(|_| content);
        let content = tokio::task::spawn_blocking(store).await.map_err(io::Error::other)??;
        self.replica.replace(content);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<SnapshotOf<TypeConfig, Bytes>>, io::Error> {
        let snapshots = Arc::clone(&self.snapshots);
        let latest = tokio::task::spawn_blocking(move || read_latest(&snapshots))
            .await
            .map_err(io::Error::other)??;
        let Some((meta, data)) = latest else {
            return Ok(None);
        };
        let meta: Meta =
            postcard::from_bytes(&meta).map_err(|error| invalid("a snapshot's head can't be read", error))?;
        let meta =
            SnapshotMetaOf::<TypeConfig> { last_log_id: meta.last_log_id, last_membership: meta.membership };
        Ok(Some(SnapshotOf::<TypeConfig, Bytes> { meta, snapshot: Bytes::from(data) }))
    }
}
