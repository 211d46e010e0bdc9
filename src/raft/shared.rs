//! What the tasks of a node's consensus share, and who leads.
use super::{
    log_clock::LogClock,
    network::Myself,
    replica::{Position, Replica, StateMachine},
    types::{Member, TypeConfig},
};
use crate::{clock, storage::log::WalStats, telemetry};
use openraft::{
    Instant as _, Raft, ServerState, async_runtime::watch::WatchReceiver, metrics::RaftServerMetrics,
    type_config::alias::WatchReceiverOf,
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::timeout};

/// Who leads, as far as this node knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Leadership {
    pub(super) leader: Option<u64>,
    pub(super) term: u64,
    /// Whether it is this node.
    pub(super) mine: bool,
}

/// What the tasks of a node's consensus share.
pub(super) struct Shared {
    pub(super) raft: Raft<TypeConfig, StateMachine>,
    pub(super) replica: Arc<Replica>,
    pub(super) clock: LogClock,
    pub(super) myself: Arc<Myself>,
    pub(super) grace_ms: u64,
    /// How long a leader may be without a majority's answer before it refuses what it is asked for.
    pub(super) silence_limit: Duration,
    /// The log's counters, and whether its disk is nearly full.
    pub(super) disk: Arc<WalStats>,
    pub(super) server: WatchReceiverOf<TypeConfig, RaftServerMetrics<TypeConfig>>,
    pub(super) leadership: watch::Sender<Leadership>,
    pub(super) position: watch::Receiver<Position>,
}

impl Shared {
    /// Who leads at this moment; the watch of it may be a turn behind.
    pub(super) fn leadership(&self) -> Leadership {
        let server = self.server.borrow_watched();
        let mine = server.state == ServerState::Leader;
        Leadership { leader: server.current_leader, term: server.vote.leader_id.term, mine }
    }

    pub(super) fn leading_term(&self) -> Option<u64> {
        let leadership = self.leadership();
        leadership.mine.then_some(leadership.term)
    }

    /// Whether this node leads in name only: a majority has not answered it for longer than electing another takes.
    ///
    /// openraft lets such a leader stay until it hears of another; what it is asked for is refused here.
    pub(super) fn lost_majority(&self) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let alone = metrics.membership_config.voter_ids().count() < 2;
        let acknowledged = metrics.last_quorum_acked.as_ref().map(|at| at.elapsed());
        !alone && acknowledged.is_some_and(|age| age > self.silence_limit)
    }

    /// The term in which this node leads and whose first entry it has applied, and with it all earlier ones: only
    /// then is the log time in its state the greatest of its log.
    pub(super) fn settled_now(&self) -> Option<u64> {
        let term = self.leading_term()?;
        if self.position.borrow().term != term || self.lost_majority() {
            return None;
        }
        let log_ms = self.replica.read(|state, _| state.log_ms());
        self.clock.lead(term, log_ms, clock::monotonic());
        Some(term)
    }

    /// Waits for [`Self::settled_now`] as long as this node leads.
    pub(super) async fn settled_term(&self, limit: Duration) -> Option<u64> {
        if let Some(term) = self.settled_now() {
            return Some(term);
        }
        let term = self.leading_term()?;
        let mut position = self.position.clone();
        let reached = position.wait_for(|position| position.term >= term);
        timeout(limit, reached).await.ok()?.ok()?;
        self.settled_now()
    }

    /// Returns when who leads may have changed.
    pub(super) async fn leadership_changed(&self) {
        let mut leadership = self.leadership.subscribe();
        if leadership.changed().await.is_err() {
            // Raft has stopped: whoever waits here is about to be stopped too.
            std::future::pending::<()>().await;
        }
    }

    /// Returns when it becomes known that somebody else leads than `leader`.
    pub(super) async fn another_leads(&self, leader: u64) {
        // Only changes from here on count: what is known at this moment may be a turn behind `leadership`.
        let mut leadership = self.leadership.subscribe();
        while leadership.changed().await.is_ok() {
            if leadership.borrow_and_update().leader.is_some_and(|other| other != leader) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    pub(super) fn member(&self, node: u64) -> Option<Member> {
        self.server.borrow_watched().membership_config.get_node(&node).cloned()
    }

    /// The data folder that the membership knows a node by.
    pub(super) fn storage_of(&self, node: u64) -> Option<String> {
        self.member(node).map(|member| member.storage)
    }
}

/// Notes changes of leader, and ends when Raft has stopped.
pub(super) async fn follow_leadership(shared: Arc<Shared>) {
    let mut server = shared.server.clone();
    loop {
        let known = *shared.leadership.borrow();
        let now = shared.leadership();
        telemetry::set_leading(now.mine);
        if !now.mine {
            shared.clock.stop();
        }
        if now != known {
            shared.leadership.send_replace(now);
        }
        if let Some(leader) = now.leader
            && (now.leader, now.term) != (known.leader, known.term)
        {
            metrics::counter!("ringfence_leader_changes_total").increment(1);
            tracing::info!(leader, term = now.term, this_node = now.mine, "the leader has changed");
        }
        if server.changed().await.is_err() {
            return;
        }
    }
}
