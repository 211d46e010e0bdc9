//! Two runs and one resource: whoever comes late is refused, and told what to do.
use super::target::{HIGH, LOW, Target};
use ringfence_guard::{Expiry, protocol::Mode};
use tokio::task::JoinSet;

/// A run reads, checks, and is paused before it sends; its lease runs out, another run gets the resource and
/// writes. The late request has the right version, so that the fence alone stands in its way.
#[tokio::test]
async fn a_holder_that_slept_past_its_lease_is_refused_by_the_fence() {
    for expiry in [Expiry::default(), Expiry::OrderOnly] {
        let target = Target::start(expiry).await;
        target.create("p").await;
        let first = target.grant(5, "p", Mode::Exclusive);
        let second = target.grant(6, "p", Mode::Exclusive);
        target.clock.advance_ms(8_000);
        let headers = [("ringfence-grant", &*second), ("if-match", "\"1\"")];
        assert_eq!(target.send("PUT", "p", &headers, LOW).await.status, 200);

        target.clock.advance_ms(7_000);
        let late = [("ringfence-grant", &*first), ("if-match", "\"2\"")];
        let reply = target.send("PUT", "p", &late, HIGH).await;
        assert_eq!((reply.status, reply.error()), (409, "stale_fence"));
        assert_eq!((&reply.body["fence"], &reply.body["current_fence"]), (&5.into(), &6.into()));
        assert_eq!((&reply.body["retryable"], &reply.body["resolver"]), (&false.into(), &"reread".into()));
        assert_eq!(target.state("p").await, ("\"2\"".to_owned(), "low".to_owned()));
    }
}

#[tokio::test]
async fn a_read_under_a_newer_grant_is_enough_to_refuse_the_older_holder() {
    let target = Target::with_policy("p").await;
    let older = target.grant(5, "p", Mode::Exclusive);
    let newer = target.cluster.token(6, &[("notification-policy/**", Mode::Exclusive)]);
    let read = target.send("GET", "p", &[("ringfence-grant", &newer)], "").await;
    assert_eq!(read.status, 200);
    let headers = [("ringfence-grant", &*older), ("if-match", "\"1\"")];
    assert_eq!(target.send("PUT", "p", &headers, LOW).await.error(), "stale_fence");
    let forged = target.send("GET", "p", &[("ringfence-grant", "nonsense")], "").await;
    assert_eq!(forged.status, 401);
}

/// Both runs hold the policy optimistically. One reads and is paused; the other changes it; the first goes on.
#[tokio::test]
async fn a_change_between_read_and_write_refuses_the_write_until_it_is_decided_anew() {
    let target = Target::with_policy("p").await;
    let paused = target.grant(5, "p", Mode::Optimistic);
    let other = target.grant(6, "p", Mode::Optimistic);
    let (tag, _) = target.state("p").await;
    let between = [("ringfence-grant", &*other), ("if-match", &*tag)];
    assert_eq!(target.send("PATCH", "p", &between, r#"{"destinations":["pager"]}"#).await.status, 200);

    // 1: refused, with what it expected and what is there
    let released = [("ringfence-grant", &*paused), ("if-match", &*tag)];
    let reply = target.send("PUT", "p", &released, LOW).await;
    assert_eq!((reply.status, reply.error()), (412, "stale_version"));
    assert_eq!(
        (&reply.body["expected_etag"], &reply.body["current_etag"]),
        (&"\"1\"".into(), &"\"2\"".into())
    );
    // 2: what the other one wrote stands
    let now = target.read("p").await;
    assert_eq!(now.body, serde_json::json!({"destinations": ["pager"], "severity": "high"}));
    // 3: the very same request again changes nothing either
    assert_eq!(reply.body["retryable"], false);
    assert_eq!(target.send("PUT", "p", &released, LOW).await.status, 412);
    assert_eq!(target.state("p").await.0, "\"2\"");
    // 4: read anew and decided anew, it passes, and keeps what the other one wrote
    let anew = [("ringfence-grant", &*paused), ("if-match", now.header("etag"))];
    let reply = target.send("PATCH", "p", &anew, r#"{"severity":"low"}"#).await;
    assert_eq!((reply.status, reply.header("etag")), (200, "\"3\""));
    assert_eq!(reply.body, serde_json::json!({"destinations": ["pager"], "severity": "low"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_requests_with_the_same_tag_exactly_one_wins_each_round() {
    let target = std::sync::Arc::new(Target::with_policy("p").await);
    for round in 1..=32_u64 {
        let mut writers = JoinSet::new();
        for writer in 0..8 {
            let target = target.clone();
            writers.spawn(async move {
                let grant = target.grant(round * 8 + writer, "p", Mode::Optimistic);
                let tag = format!("\"{round}\"");
                let headers = [("ringfence-grant", &*grant), ("if-match", &*tag)];
                target.send("PUT", "p", &headers, LOW).await.status
            });
        }
        let statuses = writers.join_all().await;
        let won = statuses.iter().filter(|status| **status == 200).count();
        let lost = statuses.iter().filter(|status| **status == 412).count();
        assert_eq!((won, lost), (1, 7), "round {round}");
    }
    assert_eq!(target.state("p").await.0, "\"33\"");
}
