//! openraft's log over the write-ahead log.
//!
//! All entries that aren't purged yet are also kept in memory, so that what was appended can be read at once and
//! replication never reads files on the raft thread; snapshots bound how many they are.
use super::types::{Entry, LogId, TypeConfig, Vote};
use crate::storage::log::{Durability, Record, Wal, WalError};
use openraft::{
    OptionalSend, RaftLogReader, RaftTypeConfig,
    storage::{IOFlushed, LogState, RaftLogStorage},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::VecDeque,
    fmt::Debug,
    io,
    ops::{Bound, RangeBounds},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What the log says, in memory.
#[derive(Debug, Default)]
struct Mirror {
    entries: VecDeque<Entry>,
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
}

impl Mirror {
    /// The index of the first entry in memory, or of the next one to come.
    fn first_index(&self) -> u64 {
        match (self.entries.front(), self.purged) {
            (Some(entry), _) => entry.log_id.index,
            (None, Some(purged)) => purged.index + 1,
            (None, None) => 0,
        }
    }

    fn last_log_id(&self) -> Option<LogId> {
        self.entries.back().map(|entry| entry.log_id).or(self.purged)
    }

    /// How many of the first entries have an index below `index`.
    fn position(&self, index: u64) -> usize {
        let ahead = usize::try_from(index.saturating_sub(self.first_index())).unwrap_or(usize::MAX);
        ahead.min(self.entries.len())
    }

    fn range(&self, range: &impl RangeBounds<u64>) -> Vec<Entry> {
        let start = match range.start_bound() {
            Bound::Included(index) => *index,
            Bound::Excluded(index) => index + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(index) => index + 1,
            Bound::Excluded(index) => *index,
            Bound::Unbounded => u64::MAX,
        };
        let (start, end) = (self.position(start), self.position(end));
        self.entries.range(start..end.max(start)).cloned().collect()
    }
}

/// The log of one node.
#[derive(Clone)]
pub(crate) struct LogStore {
    mirror: Arc<Mutex<Mirror>>,
    wal: Arc<Wal>,
}

/// What is in a record of the log doesn't read as what it should be, though its checksum holds.
fn undecodable(what: &str, error: &postcard::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} in the log can't be decoded: {error}"))
}

fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> io::Result<T> {
    postcard::from_bytes(bytes).map_err(|error| undecodable(what, &error))
}

fn encode<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    postcard::to_allocvec(value).map_err(|error| io::Error::other(format!("can't be encoded: {error}")))
}

impl LogStore {
    /// Takes over an opened log with what was recovered from it.
    ///
    /// # Errors
    /// Where a record's checksum holds but its content can't be read: written by another version, or a defect.
    pub(crate) fn new(wal: Wal, recovered: &crate::storage::log::Recovered) -> io::Result<Self> {
        let mut mirror = Mirror::default();
        if let Some(vote) = &recovered.vote {
            mirror.vote = Some(decode("the vote", vote)?);
        }
        if let Some((_, purged)) = &recovered.purged {
            mirror.purged = Some(decode("the purge point", purged)?);
        }
        for (_, bytes) in &recovered.entries {
            mirror.entries.push_back(decode("an entry", bytes)?);
        }
        if let Some(committed) = &recovered.committed {
            let committed: LogId = decode("the commit point", committed)?;
            // It is written without an fsync of its own: never trust it beyond what the log has.
            mirror.committed = Some(committed).filter(|committed| Some(*committed) <= mirror.last_log_id());
        }
        Ok(Self { mirror: Arc::new(Mutex::new(mirror)), wal: Arc::new(wal) })
    }

    fn mirror(&self) -> MutexGuard<'_, Mirror> {
        self.mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits records and waits until they are durable.
    async fn write(&self, records: Vec<Record>) -> io::Result<()> {
        let (done, durable) = tokio::sync::oneshot::channel();
        self.wal.submit(
            records,
            Durability::Sync,
            Box::new(move |result| {
                // Nobody waits any more only where the node is going down.
                done.send(result).ok();
            }),
        );
        durable.await.map_err(|_| io::Error::other("the log was closed"))?.map_err(to_io)
    }
}

fn to_io(error: WalError) -> io::Error {
    io::Error::other(error)
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        Ok(self.mirror().range(&range))
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.mirror().vote)
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, io::Error> {
        let mirror = self.mirror();
        Ok(LogState { last_purged_log_id: mirror.purged, last_log_id: mirror.last_log_id() })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        self.write(vec![Record::Vote(encode(vote)?)]).await?;
        self.mirror().vote = Some(*vote);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        let Some(committed) = committed else { return Ok(()) };
        self.mirror().committed = Some(committed);
        // Only a hint for the next start: ordered with the log, but no fsync waits for it.
        self.wal.submit(vec![Record::Committed(encode(&committed)?)], Durability::Lazy, Box::new(|_| ()));
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.mirror().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = <TypeConfig as RaftTypeConfig>::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut records = Vec::new();
        {
            let mut mirror = self.mirror();
            for entry in entries {
                records.push(Record::Entry { index: entry.log_id.index, bytes: encode(&entry)? });
                mirror.entries.push_back(entry);
            }
        }
        self.wal.submit(
            records,
            Durability::Sync,
            Box::new(move |result| callback.io_completed(result.map_err(to_io))),
        );
        Ok(())
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> Result<(), io::Error> {
        let from_index = last_log_id.map_or(0, |log_id| log_id.index + 1);
        {
            let mut mirror = self.mirror();
            let keep = mirror.position(from_index);
            mirror.entries.truncate(keep);
        }
        self.write(vec![Record::Truncate { from_index }]).await
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), io::Error> {
        {
            let mut mirror = self.mirror();
            let gone = mirror.position(log_id.index + 1);
            mirror.entries.drain(..gone);
            mirror.purged = Some(log_id).max(mirror.purged);
        }
        self.write(vec![Record::Purge { upto_index: log_id.index, bytes: encode(&log_id)? }]).await
    }
}
