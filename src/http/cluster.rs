//! `/v1/cluster`: the cluster as this node sees it.
use super::{
    answer::{Answer, Failure},
    call::Call,
};
use crate::raft::{MemberStatus, Status};
use ringfence_core::Refusal;
use ringfence_protocol::body::{ClusterStatus, NodeState, NodeStatus};
use std::time::Duration;

/// Read the cluster's members and who leads, as this node sees it.
///
/// It is answered without a leader too: that is when it is asked. States and lags of the others are known to the leader.
#[utoipa::path(get, path = "/v1/cluster", operation_id = "get_cluster", tag = "cluster",
    responses((status = 200, body = ClusterStatus, description = "What this node knows.")))]
pub(super) async fn show(call: Call) -> Result<Answer<ClusterStatus>, Failure> {
    let status = call.app.consensus.status();
    let read =
        call.app.consensus.read(|state, index| state.identity().map(|genesis| (genesis.clone(), index)));
    let (genesis, index) = read.ok_or_else(|| Failure::refused(Refusal::NotReady))?;
    let revision = call.app.revision(index).unwrap_or_default();
    let nodes = status.members.iter().map(|member| node(&status, member, call.app.unreachable_after));
    let body = ClusterStatus {
        cluster: genesis.cluster,
        incarnation: genesis.incarnation,
        grace_ms: genesis.grace_ms,
        nodes: nodes.collect(),
        leader: status.leader,
        term: status.term,
        revision,
    };
    Ok(Answer::ok(body, index))
}

fn node(status: &Status, member: &MemberStatus, unreachable_after: Duration) -> NodeStatus {
    let lag = if member.id == status.node {
        Some(status.last_log.saturating_sub(status.applied))
    } else {
        member.matched.map(|matched| status.last_log.saturating_sub(matched))
    };
    NodeStatus {
        id: member.id,
        api: member.api.clone(),
        peer: member.peer.clone(),
        state: state(status, member, unreachable_after),
        voter: member.voter,
        lag,
    }
}

fn state(status: &Status, member: &MemberStatus, unreachable_after: Duration) -> NodeState {
    let this_leads = status.leader == Some(status.node);
    let role = if member.voter { NodeState::Follower } else { NodeState::Learner };
    if status.leader == Some(member.id) {
        NodeState::Leader
    } else if member.id == status.node {
        role
    } else if !this_leads {
        NodeState::Unknown
    } else {
        match member.heard {
            Some(ago) if ago <= unreachable_after => role,
            Some(_) => NodeState::Unreachable,
            None => NodeState::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(350);

    fn member(id: u64, voter: bool, heard_ms: Option<u64>) -> MemberStatus {
        let heard = heard_ms.map(Duration::from_millis);
        MemberStatus { id, api: String::new(), peer: String::new(), voter, matched: heard.map(|_| 90), heard }
    }

    fn status(node: u64, leader: Option<u64>) -> Status {
        Status { node, leader, term: 1, last_log: 100, applied: 99, members: Vec::new() }
    }

    #[test]
    fn the_leader_tells_how_the_others_are() {
        let leader = status(1, Some(1));
        for (member, expected, lag) in [
            (member(1, true, None), NodeState::Leader, Some(1)),
            (member(2, true, Some(10)), NodeState::Follower, Some(10)),
            (member(2, false, Some(10)), NodeState::Learner, Some(10)),
            (member(2, true, Some(351)), NodeState::Unreachable, Some(10)),
            (member(2, true, None), NodeState::Unknown, None),
        ] {
            let node = node(&leader, &member, LIMIT);
            assert_eq!((node.state, node.lag), (expected, lag), "{member:?}");
        }
    }

    #[test]
    fn a_follower_knows_itself_and_the_leader() {
        let follower = status(2, Some(1));
        assert_eq!(state(&follower, &member(1, true, None), LIMIT), NodeState::Leader);
        assert_eq!(state(&follower, &member(2, true, None), LIMIT), NodeState::Follower);
        assert_eq!(state(&follower, &member(3, true, None), LIMIT), NodeState::Unknown);
        assert_eq!(state(&status(2, None), &member(1, true, None), LIMIT), NodeState::Unknown);
    }
}
