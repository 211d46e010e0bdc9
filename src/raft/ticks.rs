//! What makes time pass while nobody asks for anything: with live deadlines the leader writes at least twice a
//! second, and near the next deadline sooner.
use super::{proposals::Proposals, shared::Shared};
use crate::clock;
use ringfence_core::command::{Genesis, Request};
use std::{sync::Arc, time::Duration};

/// The longest time between two entries while there are deadlines. Less than the second by which one entry can move
/// time at the most.
const LONGEST: Duration = Duration::from_millis(500);
/// The shortest: many deadlines close to each other share an entry.
const SHORTEST: Duration = Duration::from_millis(20);

/// Writes ticks while this node leads.
pub(super) async fn run(shared: Arc<Shared>, proposals: Proposals) {
    loop {
        let wait = match due(&shared) {
            Some(Duration::ZERO) => {
                tick(&shared, &proposals).await;
                SHORTEST
            }
            Some(wait) => wait.max(SHORTEST),
            None => LONGEST,
        };
        tokio::select! {
            // Both are cancel safe.
            () = tokio::time::sleep(wait) => (),
            () = shared.leadership_changed() => (),
        }
    }
}

/// How long until the next tick is due; `None` where none is.
fn due(shared: &Shared) -> Option<Duration> {
    shared.settled_now()?;
    let now = clock::monotonic();
    let log_ms = shared.clock.peek(now)?;
    let since = shared.clock.since_stamp(now)?;
    let (begun, next) =
        shared.replica.read(|state, _| (state.identity().is_some(), state.next_deadline_ms()));
    if !begun {
        return Some(Duration::ZERO);
    }
    let until_deadline = Duration::from_millis(next?.saturating_sub(log_ms));
    Some(LONGEST.saturating_sub(since).min(until_deadline))
}

async fn tick(shared: &Shared, proposals: &Proposals) {
    let begun = shared.replica.read(|state, _| state.identity().is_some());
    let request = if begun { Request::Tick } else { Request::Genesis(genesis(shared)) };
    if let Err(error) = proposals.propose(request).await {
        // Nothing was taken off any list: the next tick ends what this one did not.
        tracing::debug!(%error, "a tick was not taken; the next one will be");
    }
}

/// The first command of a cluster's life, from what the nodes were told when they joined.
fn genesis(shared: &Shared) -> Genesis {
    let life = shared.myself.get().life.expect("only a node that has joined a cluster leads one");
    Genesis { cluster: life.cluster, incarnation: life.incarnation, grace_ms: shared.grace_ms }
}
