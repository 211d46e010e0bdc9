//! Who may write what: grants, actions, bodies, answers.
use super::target::{HIGH, LOW, Target};
use ringfence_guard::{
    Expiry,
    protocol::{Mode, body::Actions},
};

#[tokio::test]
async fn a_write_needs_a_grant_of_this_resource_though_nobody_holds_a_lease() {
    let target = Target::with_policy("p").await;
    let body = LOW;
    let tag = ("if-match", "\"1\"");

    let without = target.send("PUT", "p", &[tag], body).await;
    assert_eq!((without.status, without.error()), (428, "precondition_required"));
    assert!(without.body["detail"].as_str().unwrap().contains("Ringfence-Grant"), "{without:?}");

    let other = target.grant(5, "q", Mode::Exclusive);
    let elsewhere = target.send("PUT", "p", &[tag, ("ringfence-grant", &other)], body).await;
    assert_eq!((elsewhere.status, elsewhere.error()), (403, "out_of_scope"));
    assert_eq!(elsewhere.body["resource"], "notification-policy/p");

    let mut claims = target.cluster.claims(6, &[("notification-policy/p", Mode::Exclusive)]);
    claims.scopes[0].a = Actions::new(vec!["read".parse().unwrap()]).unwrap();
    let reader = target.cluster.sign(&claims);
    let forbidden = target.send("DELETE", "p", &[tag, ("ringfence-grant", &reader)], "").await;
    assert_eq!((forbidden.status, forbidden.error()), (403, "action_not_permitted"));

    let shared = target.grant(7, "p", Mode::Shared);
    let relied = target.send("PUT", "p", &[tag, ("ringfence-grant", &shared)], body).await;
    assert_eq!((relied.status, relied.error()), (403, "action_not_permitted"));
    assert_eq!(target.state("p").await, ("\"1\"".to_owned(), "high".to_owned()));
}

#[tokio::test]
async fn an_expired_lease_with_the_highest_fence_writes_where_order_alone_decides() {
    for (expiry, status) in [(Expiry::default(), 409), (Expiry::OrderOnly, 200)] {
        let target = Target::start(expiry).await;
        target.create("p").await;
        let grant = target.grant(9, "p", Mode::Exclusive);
        target.clock.advance_ms(3_600_000);
        let headers = [("if-match", "\"1\""), ("ringfence-grant", &*grant)];
        let reply = target.send("PUT", "p", &headers, LOW).await;
        assert_eq!(reply.status, status, "{reply:?}");
        if status == 409 {
            assert_eq!((reply.error(), &reply.body["resolver"]), ("grant_expired", &"caller".into()));
            assert!(reply.body["lease"].is_string());
        }
    }
}

/// Neither a good session stands in for a version, nor a good version for a session.
#[tokio::test]
async fn grant_and_version_are_both_checked_and_neither_replaces_the_other() {
    let target = Target::with_policy("p").await;
    let good = target.grant(5, "p", Mode::Exclusive);
    let stranger = ringfence_guard::protocol::jws::Signer25519::from_seed(&[9; 32]);
    let claims = target.cluster.claims(99, &[("notification-policy/p", Mode::Exclusive)]);
    let forged = stranger.sign("ringfence-grant+jwt", &claims).unwrap();
    for (grant, tag, status) in [
        (Some(&good), Some("\"0\""), 412),
        (Some(&good), None, 428),
        (Some(&forged), Some("\"1\""), 401),
        (Some(&forged), Some("\"0\""), 401),
        (Some(&forged), None, 401),
        (None, Some("\"1\""), 428),
        (None, Some("\"0\""), 428),
        (None, None, 428),
        (Some(&good), Some("\"1\""), 200),
    ] {
        let mut headers = Vec::new();
        headers.extend(grant.map(|grant| ("ringfence-grant", grant.as_str())));
        headers.extend(tag.map(|tag| ("if-match", tag)));
        let reply = target.send("PUT", "p", &headers, LOW).await;
        assert_eq!(reply.status, status, "{:?} {tag:?}", grant.is_some());
        let severity = if status == 200 { "low" } else { "high" };
        assert_eq!(target.state("p").await.1, severity);
    }
}

#[tokio::test]
async fn a_body_that_is_not_exactly_a_policy_is_refused() {
    let target = Target::with_policy("p").await;
    let grant = target.grant(5, "p", Mode::Exclusive);
    let headers = [("if-match", "\"1\""), ("ringfence-grant", &*grant)];
    for (method, body, error) in [
        ("PUT", r#"{"destinations":[],"severity":"a","severity":"b"}"#, "duplicate_field"),
        ("PUT", r#"{"destinations":[],"severity":"a","sevirity":"b"}"#, "unknown_field"),
        ("PUT", r#"{"destinations":[],"severity":7}"#, "invalid_field"),
        ("PUT", r#"{"destinations":[]}"#, "invalid_field"),
        ("PUT", r#"["x"]"#, "malformed_json"),
        ("PUT", "{", "malformed_json"),
        ("PATCH", r#"{"severity":"a","severity":"b"}"#, "duplicate_field"),
        ("PATCH", r#"{"sevirity":"low"}"#, "unknown_field"),
        ("PATCH", r#"{"severity":null}"#, "invalid_field"),
        ("PATCH", r#"{"severity":7}"#, "invalid_field"),
    ] {
        let reply = target.send(method, "p", &headers, body).await;
        assert_eq!((reply.status, reply.error()), (400, error), "{method} {body}");
    }
    let untyped = target.raw("PUT", "p", &headers, LOW).await;
    assert_eq!((untyped.status, untyped.error()), (415, "unsupported_media_type"));
    assert_eq!(target.state("p").await, ("\"1\"".to_owned(), "high".to_owned()));
}

#[tokio::test]
async fn a_merge_patch_changes_what_it_names() {
    let target = Target::with_policy("p").await;
    let grant = target.grant(5, "p", Mode::Exclusive);
    let headers = [
        ("if-match", "\"1\""),
        ("ringfence-grant", &*grant),
        ("content-type", "application/merge-patch+json"),
    ];
    let reply = target.raw("PATCH", "p", &headers, r#"{"severity":"low","unknown":null}"#).await;
    assert_eq!((reply.status, reply.header("etag")), (200, "\"2\""));
    assert_eq!(reply.body, serde_json::json!({"destinations": ["ops"], "severity": "low"}));
    assert_eq!(target.read("p").await.body, reply.body);
}

#[tokio::test]
async fn answers_carry_a_strong_tag_that_nobody_may_change_and_refusals_are_not_kept() {
    let target = Target::with_policy("p").await;
    let reply = target.read("p").await;
    assert_eq!(reply.header("etag"), "\"1\"");
    assert_eq!(reply.header("cache-control"), "no-transform");
    let refused = target.send("PUT", "p", &[], LOW).await;
    assert_eq!(refused.header("content-type"), "application/problem+json");
    assert_eq!(refused.header("cache-control"), "no-store");
    let unknown = target.send("PUT", "p", &[("ringfence-grant", "nonsense")], LOW).await;
    assert_eq!((unknown.status, unknown.error()), (401, "unauthenticated"));
    assert_eq!(unknown.header("www-authenticate"), "Ringfence-Grant");
    let absent = target.read("q").await;
    assert_eq!((absent.status, absent.error()), (404, "not_found"));
}

#[tokio::test]
async fn a_resource_that_is_made_anew_never_gets_an_old_tag() {
    let target = Target::with_policy("p").await;
    let grant = target.grant(5, "p", Mode::Exclusive);
    let grant = ("ringfence-grant", &*grant);
    let deleted = target.send("DELETE", "p", &[grant, ("if-match", "\"1\"")], "").await;
    assert_eq!((deleted.status, deleted.header("etag")), (204, ""));
    assert_eq!(target.read("p").await.status, 404);
    let made = target.send("PUT", "p", &[grant, ("if-none-match", "*")], HIGH).await;
    assert_eq!((made.status, made.header("etag")), (201, "\"3\""));
    let old = target.send("DELETE", "p", &[grant, ("if-match", "\"1\", \"2\"")], "").await;
    assert_eq!(old.status, 412);
}

#[tokio::test]
async fn a_path_that_is_no_resource_is_refused() {
    let target = Target::with_policy("p").await;
    let grant = target.cluster.token(5, &[("notification-policy/**", Mode::Exclusive)]);
    let headers = [("ringfence-grant", &*grant), ("if-none-match", "*")];
    for id in ["a%20b", "%2E%2E", "a%2F%2Fb", "%2A%2A"] {
        let reply = target.send("PUT", id, &headers, HIGH).await;
        assert_eq!((reply.status, reply.error()), (400, "invalid_resource"), "{id}");
    }
}

#[tokio::test]
async fn two_grants_in_one_request_are_none() {
    let target = Target::with_policy("p").await;
    let grant = target.grant(5, "p", Mode::Exclusive);
    let grant = ("ringfence-grant", &*grant);
    let reply = target.send("PUT", "p", &[grant, grant, ("if-match", "\"1\"")], LOW).await;
    assert_eq!((reply.status, reply.error()), (401, "unauthenticated"));
}
