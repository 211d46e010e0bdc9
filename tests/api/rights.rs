//! Who may ask what: every kind of caller on every route.
use crate::{node::OPERATOR, world::World};
use ringfence_protocol::ErrorCode;
use std::collections::BTreeMap;

const ALL: &str = "operator admin orchestrator target approver auditor run";
const TENANT: &str = "admin orchestrator target approver auditor run";

/// The contract's own table, written down apart from the code's.
fn expected() -> BTreeMap<String, &'static str> {
    let table = [
        ("POST /v1/runs", "orchestrator"),
        ("GET /v1/runs", TENANT),
        ("GET /v1/runs/{run}", TENANT),
        ("POST /v1/runs/{run}/end", "admin orchestrator run"),
        ("POST /v1/runs/{run}/revoke", "admin orchestrator"),
        ("POST /v1/leases", "orchestrator run"),
        ("GET /v1/leases", TENANT),
        ("GET /v1/leases/{lease}", TENANT),
        ("DELETE /v1/leases/{lease}", "orchestrator run"),
        ("POST /v1/leases/{lease}/renew", "orchestrator run"),
        ("GET /v1/resources/{resource}", TENANT),
        ("POST /v1/tokens", "operator admin"),
        ("GET /v1/tokens", "operator admin"),
        ("DELETE /v1/tokens/{token}", "operator admin"),
        ("GET /v1/cluster", ALL),
        ("POST /v1/verify", "target"),
    ];
    table.into_iter().map(|(route, callers)| (route.to_owned(), callers)).collect()
}

#[tokio::test]
async fn every_caller_gets_what_the_table_says_on_every_route_and_nobody_gets_anything_without_a_credential()
{
    let world = World::start().await;
    let run = world.run().await;
    let approver = world.token(&world.admin, "default", "approver", "a").await;
    let auditor = world.token(&world.admin, "default", "auditor", "a").await;
    let callers = [
        ("operator", OPERATOR),
        ("admin", &world.admin),
        ("orchestrator", &world.orchestrator),
        ("target", &world.target),
        ("approver", &approver),
        ("auditor", &auditor),
        ("run", &run.token),
    ];
    let rights = world.document.rights();
    let described: BTreeMap<_, _> =
        rights.iter().map(|(method, path, roles)| (format!("{method} {path}"), roles.join(" "))).collect();
    let expected: BTreeMap<_, _> =
        expected().into_iter().map(|(route, roles)| (route, roles.to_owned())).collect();
    assert_eq!(described, expected);

    for (method, template, roles) in &rights {
        // Ids of the right form that nobody has: a right lets the request in, and then there is nothing.
        let path = template
            .replace("{run}", "run_01JD5ZJ5H6S9W3V4R0K2M8N7QX")
            .replace("{lease}", "lse_01JD5ZJ5H6S9W3V4R0K2M8N7QX")
            .replace("{token}", "tok_01JD5ZJ5H6S9W3V4R0K2M8N7QX")
            .replace("{resource}", "a/b");
        let ask = || world.ask(method.clone(), &path).body("application/json", "{}");
        ask().send().await.refused(ErrorCode::Unauthenticated);
        for (kind, token) in callers {
            let reply = ask().by(token).send().await;
            let may = roles.iter().any(|role| role == kind);
            let refused = reply.status == 403;
            assert_eq!(refused, !may, "{kind} on {method} {path}: {}", reply.text);
            assert_ne!(reply.status, 401, "{kind} on {method} {path}: {}", reply.text);
        }
    }
}
