//! What a node tells those who are on call: metrics and logs of what happened to leases.
//!
//! Metric labels are bounded: routes, statuses, reasons; never a scope, run, key or fence. Those are fields of log
//! lines.
use ringfence_core::Event;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this node leads: only the leader logs what the log did, or every line would be there once a node.
static LEADING: AtomicBool = AtomicBool::new(false);

/// Notes whether this node leads.
pub(crate) fn set_leading(leading: bool) {
    LEADING.store(leading, Ordering::Relaxed);
}

/// Counts and logs events in the order of the log.
pub(crate) fn events(term: u64, events: &[Event]) {
    for event in events {
        count(event);
        if LEADING.load(Ordering::Relaxed) {
            log(term, event);
        }
    }
}

fn count(event: &Event) {
    match event {
        Event::Granted { .. } => metrics::counter!("ringfence_leases_granted_total").increment(1),
        Event::Ended { reason, .. } => {
            metrics::counter!("ringfence_leases_ended_total", "reason" => reason.as_str()).increment(1);
        }
        Event::RunOver { state, .. } => {
            metrics::counter!("ringfence_runs_over_total", "state" => state.as_str()).increment(1);
        }
    }
}

fn log(term: u64, event: &Event) {
    match event {
        Event::Granted { tenant, lease, run, fence } => {
            tracing::debug!(%tenant, %lease, %run, %fence, term, "lease granted");
        }
        Event::Ended { tenant, lease, run, fence, reason, end_fence } if reason.is_clean() => {
            tracing::debug!(%tenant, %lease, %run, %fence, %reason, ?end_fence, term, "lease ended");
        }
        Event::Ended { tenant, lease, run, fence, reason, end_fence } => {
            let end_fence = end_fence.map(ringfence_protocol::Fence::get);
            tracing::info!(%tenant, %lease, %run, %fence, %reason, end_fence, term, "lease ended");
        }
        Event::RunOver { tenant, run, state } => tracing::info!(%tenant, %run, %state, term, "run over"),
    }
}
