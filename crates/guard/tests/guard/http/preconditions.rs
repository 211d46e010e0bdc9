//! RFC 9110 §13 at a guarded resource.
use super::target::{HIGH, LOW, Target};
use ringfence_guard::protocol::Mode;

#[tokio::test]
async fn only_the_strong_tag_that_is_there_lets_a_write_pass() {
    for (header, value, status, error) in [
        ("if-match", "\"1\"", 200, ""),
        ("if-match", "\"7\", \"1\"", 200, ""),
        ("if-match", "\"7\" , W/\"1\",\"1\"", 200, ""),
        ("if-match", "W/\"1\"", 412, "stale_version"),
        ("if-match", "\"7\"", 412, "stale_version"),
        ("if-match", "\"01\"", 412, "stale_version"),
        ("if-match", "\"1-gzip\"", 412, "stale_version"),
        ("if-match", "\"\"", 412, "stale_version"),
        ("if-match", "1", 400, "invalid_precondition"),
        ("if-match", "\"1", 400, "invalid_precondition"),
        ("if-match", "", 400, "invalid_precondition"),
        ("if-match", "\"1\" \"2\"", 400, "invalid_precondition"),
        ("if-match", "*, \"1\"", 400, "invalid_precondition"),
        ("if-match", "*", 428, "precondition_required"),
        ("if-none-match", "*", 412, "stale_version"),
        ("if-none-match", "\"7\"", 428, "precondition_required"),
        ("if-none-match", "x", 400, "invalid_precondition"),
    ] {
        let target = Target::with_policy("p").await;
        let grant = target.grant(5, "p", Mode::Exclusive);
        for (method, body) in [("PATCH", r#"{"severity":"low"}"#), ("PUT", LOW), ("DELETE", "")] {
            if status == 200 && method != "PUT" {
                continue;
            }
            let headers = [(header, value), ("ringfence-grant", &*grant)];
            let reply = target.send(method, "p", &headers, body).await;
            assert_eq!((reply.status, reply.error()), (status, error), "{method} {header}: {value}");
            let expected = if status == 200 { "\"2\"" } else { "\"1\"" };
            assert_eq!(target.state("p").await.0, expected, "{method} {header}: {value}");
        }
    }
}

/// exists, absent or deleted × no tag, `*`, the tag that is or was there, another × the three methods.
#[tokio::test]
async fn what_is_absent_or_deleted_answers_as_the_table_says() {
    for state in ["exists", "absent", "deleted"] {
        for (tag, when_there, else_) in
            [("", 428, 428), ("*", 428, 428), ("\"1\"", 200, 412), ("\"9\"", 412, 412)]
        {
            for (method, body) in [("PUT", LOW), ("PATCH", r#"{"severity":"low"}"#), ("DELETE", "")] {
                let target = in_state(state).await;
                let grant = target.grant(6, "p", Mode::Exclusive);
                let mut headers = vec![("ringfence-grant", &*grant)];
                headers.extend((!tag.is_empty()).then_some(("if-match", tag)));
                let reply = target.send(method, "p", &headers, body).await;
                let wanted = if state == "exists" { when_there } else { else_ };
                let wanted = if wanted == 200 && method == "DELETE" { 204 } else { wanted };
                assert_eq!(reply.status, wanted, "{state} {method} {tag}");
                if state != "exists" {
                    assert_eq!(target.read("p").await.status, 404, "{state} {method} {tag}");
                }
            }
        }
    }
}

async fn in_state(state: &str) -> Target {
    let target = Target::with_policy(if state == "absent" { "another" } else { "p" }).await;
    if state == "deleted" {
        let grant = target.grant(5, "p", Mode::Exclusive);
        let headers = [("ringfence-grant", &*grant), ("if-match", "\"1\"")];
        assert_eq!(target.send("DELETE", "p", &headers, "").await.status, 204);
    }
    target
}

#[tokio::test]
async fn a_creation_never_replaces_and_a_change_never_creates() {
    let target = Target::with_policy("p").await;
    let grant = target.cluster.token(5, &[("notification-policy/**", Mode::Exclusive)]);
    let create = [("ringfence-grant", &*grant), ("if-none-match", "*")];
    let again = target.send("PUT", "p", &create, LOW).await;
    assert_eq!((again.status, again.error()), (412, "stale_version"));
    assert_eq!(again.body["current_etag"], "\"1\"");
    assert!(again.body.get("expected_etag").is_none());
    for (method, body) in [("PATCH", r#"{"severity":"low"}"#), ("DELETE", "")] {
        let reply = target.send(method, "absent", &create, body).await;
        assert_eq!((reply.status, reply.error()), (404, "not_found"), "{method}");
        let reply = target.send(method, "p", &create, body).await;
        assert_eq!((reply.status, reply.error()), (412, "stale_version"), "{method}");
    }
    // Both headers: If-Match first, then If-None-Match.
    let both = [create[0], create[1], ("if-match", "\"1\"")];
    assert_eq!(target.send("PUT", "p", &both, LOW).await.status, 412);
    assert_eq!(target.state("p").await, ("\"1\"".to_owned(), "high".to_owned()));
}

#[tokio::test]
async fn a_moved_version_says_what_was_expected_and_what_is_there() {
    let target = Target::with_policy("p").await;
    let grant = target.grant(5, "p", Mode::Exclusive);
    let headers = [("ringfence-grant", &*grant), ("if-match", "\"7\", W/\"1\"")];
    let reply = target.send("PUT", "p", &headers, LOW).await;
    let members =
        ["error", "resource", "expected_etag", "current_etag", "retryable", "category", "resolver", "type"];
    let found = members.map(|member| reply.body[member].clone());
    let wanted: [serde_json::Value; 8] = [
        "stale_version".into(),
        "notification-policy/p".into(),
        "\"7\", W/\"1\"".into(),
        "\"1\"".into(),
        false.into(),
        "stale".into(),
        "reread".into(),
        "/problems/stale_version".into(),
    ];
    assert_eq!(found, wanted);
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let target = Target::with_policy("p").await;
    let grant = target.grant(5, "p", Mode::Exclusive);
    let grant = ("ringfence-grant", &*grant);
    let tag = ("if-match", "\"1\"");
    for (headers, named, unnamed) in [
        (vec![tag], vec!["Ringfence-Grant"], vec!["If-Match"]),
        (vec![grant], vec!["If-Match"], vec!["Ringfence-Grant"]),
        (vec![], vec!["Ringfence-Grant", "If-Match"], vec![]),
        (vec![grant, ("if-match", "*")], vec!["names no version"], vec!["Ringfence-Grant"]),
    ] {
        for method in ["PUT", "PATCH", "DELETE"] {
            let reply = target.send(method, "p", &headers, LOW).await;
            assert_eq!((reply.status, reply.error()), (428, "precondition_required"));
            let detail = reply.body["detail"].as_str().unwrap();
            assert!(named.iter().all(|word| detail.contains(word)), "{detail}");
            assert!(!unnamed.iter().any(|word| detail.contains(word)), "{detail}");
        }
    }
}

#[tokio::test]
async fn a_read_of_what_the_caller_has_is_not_sent_again() {
    let target = Target::with_policy("p").await;
    for (header, value, status) in [
        ("if-none-match", "\"1\"", 304),
        ("if-none-match", "W/\"1\"", 304),
        ("if-none-match", "*", 304),
        ("if-none-match", "\"2\"", 200),
        ("if-match", "\"1\"", 200),
        ("if-match", "*", 200),
        ("if-match", "\"2\"", 412),
        ("if-match", "nonsense", 400),
    ] {
        let reply = target.send("GET", "p", &[(header, value)], "").await;
        assert_eq!(reply.status, status, "{header}: {value}");
        if status < 400 {
            assert_eq!(reply.header("etag"), "\"1\"");
        }
    }
}

#[tokio::test]
async fn several_lines_of_a_header_are_one_list() {
    let target = Target::with_policy("p").await;
    let grant = target.grant(5, "p", Mode::Exclusive);
    let headers = [("ringfence-grant", &*grant), ("if-match", "\"9\""), ("if-match", "\"1\"")];
    assert_eq!(target.send("PUT", "p", &headers, HIGH).await.status, 200);
}
