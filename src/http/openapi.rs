//! `/openapi.json`: the description of the API, written from the handlers and from the table of routes.
use super::{
    answer::with_body,
    app::App,
    routes::{ANYWHERE, Access, ROUTES, Route, WITH_BODY, WITH_KEY},
};
use axum::{extract::State, http::StatusCode, response::Response};
use ringfence_protocol::{ErrorCode, Problem, REPLAYED_HEADER, REVISION_HEADER, idempotency::MAX_KEY_BYTES};
use std::{collections::BTreeMap, sync::Arc};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ContentBuilder, HeaderBuilder, InfoBuilder, OpenApi, PathItem, Ref, RefOr, Required, ResponseBuilder,
        extensions::ExtensionsBuilder,
        path::{Operation, Parameter, ParameterBuilder, ParameterIn},
        schema::{ObjectBuilder, Type},
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

const SCHEME: &str = "bearer";
const PROBLEM_TYPE: &str = "application/problem+json";

/// Read the description of this API (OpenAPI 3.1).
#[utoipa::path(get, path = "/openapi.json", operation_id = "get_openapi", tag = "node",
    responses((status = 200, body = serde_json::Value, description = "This document.")))]
pub(super) async fn show(State(app): State<Arc<App>>) -> Response {
    with_body(StatusCode::OK, "application/json", app.document.clone())
}

/// Writes the document.
pub(super) fn document() -> Result<String, serde_json::Error> {
    let mut api = super::resources_of_the_api().into_openapi();
    api.info = InfoBuilder::new()
        .title("ringfence")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Fenced leases for agent runs. Refusals are RFC 9457 problems with a stable `error`.",
        ))
        .build();
    for route in ROUTES {
        if let Some(operation) = operation(&mut api, route) {
            complete(operation, route);
        }
    }
    add_components(&mut api);
    let paths = std::mem::take(&mut api.paths.paths);
    // OpenAPI has no sign for "the rest of the path": the name is the same without the router's star.
    api.paths.paths = paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    serde_json::to_string(&api)
}

fn operation<'a>(api: &'a mut OpenApi, route: &Route) -> Option<&'a mut Operation> {
    let PathItem { get, post, delete, .. } = api.paths.paths.get_mut(route.path)?;
    match route.method {
        "GET" => get.as_mut(),
        "POST" => post.as_mut(),
        _ => delete.as_mut(),
    }
}

/// Adds what the table of routes knows: who may ask, the key, what may be refused, and the headers of all answers.
fn complete(operation: &mut Operation, route: &Route) {
    if route.access != Access::Open {
        operation.security = Some(vec![SecurityRequirement::new(SCHEME, [] as [&str; 0])]);
    }
    if let Access::Right(_) = route.access {
        let roles: Vec<_> = route.callers().into_iter().map(|caller| caller.as_str()).collect();
        operation
            .extensions
            .get_or_insert_default()
            .merge(ExtensionsBuilder::new().add("x-roles", roles).build());
    }
    let parameters = operation.parameters.get_or_insert_default();
    parameters.push(
        header_parameter("X-Request-Id", "1 to 128 visible characters; absent: a new one.", 128).into(),
    );
    if route.keyed {
        let description =
            "Names the intended action: the same key with the same command gives the first outcome.";
        parameters.push(header_parameter("Idempotency-Key", description, MAX_KEY_BYTES).into());
    }
    for (status, codes) in refusals(route) {
        operation.responses.responses.insert(status.to_string(), problem(&codes).into());
    }
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response {
            response.headers.extend(headers(route));
        }
    }
}

fn header_parameter(name: &str, description: &str, most: usize) -> Parameter {
    let schema = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(most));
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(description))
        .schema(Some(schema.build()))
        .build()
}

/// What a route may refuse, by status.
fn refusals(route: &Route) -> BTreeMap<u16, Vec<ErrorCode>> {
    let nothing: &[ErrorCode] = &[];
    let anywhere = if route.access == Access::Open { nothing } else { ANYWHERE };
    let body = if route.has_body() { WITH_BODY } else { nothing };
    let key = if route.keyed { WITH_KEY } else { nothing };
    let own =
        if route.path == "/readyz" { &[ErrorCode::NoLeader, ErrorCode::ShuttingDown][..] } else { nothing };
    let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
    for code in [anywhere, body, key, own, route.refusals].into_iter().flatten() {
        let codes = by_status.entry(code.status()).or_default();
        if !codes.contains(code) {
            codes.push(*code);
        }
    }
    // What was proposed may have been done when nobody knows any more.
    if route.access != Access::Open && route.method != "GET" {
        by_status.entry(503).or_default().push(ErrorCode::OutcomeUncertain);
    }
    by_status
}

fn problem(codes: &[ErrorCode]) -> utoipa::openapi::Response {
    let lines = codes.iter().map(|code| format!("- `{code}`: {}", code.title()));
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(Problem::name()))).build();
    let words: Vec<_> = codes.iter().map(|code| code.as_str()).collect();
    ResponseBuilder::new()
        .description(lines.collect::<Vec<_>>().join("\n"))
        .content(PROBLEM_TYPE, content)
        .extensions(Some(ExtensionsBuilder::new().add("x-errors", words).build()))
        .build()
}

fn headers(route: &Route) -> impl Iterator<Item = (String, RefOr<utoipa::openapi::Header>)> {
    let texts = [
        ("x-request-id", Some("The id of this request in the node's log.")),
        (REVISION_HEADER, Some("The revision of the state that this was answered from: opaque.")),
        (
            REPLAYED_HEADER,
            route.keyed.then_some("Whether this repeats the outcome of an earlier request with the key."),
        ),
    ];
    texts.into_iter().filter_map(|(name, description)| {
        let schema = ObjectBuilder::new().schema_type(Type::String).build();
        let header = HeaderBuilder::new().schema(Some(schema)).description(Some(description?)).build();
        Some((name.to_owned(), header.into()))
    })
}

fn add_components(api: &mut OpenApi) {
    let components = api.components.get_or_insert_default();
    let mut schemas = vec![(Problem::name().into_owned(), Problem::schema())];
    Problem::schemas(&mut schemas);
    schemas.push((ErrorCode::name().into_owned(), ErrorCode::schema()));
    components.schemas.extend(schemas);
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("The operator's token, a role token (`rft_…`), or the credential of a run."))
        .build();
    components.add_security_scheme(SCHEME, SecurityScheme::Http(scheme));
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_protocol::Fence;
    use serde_json::Value;
    use std::collections::BTreeSet;

    fn parsed() -> Value {
        serde_json::from_str(&document().unwrap()).unwrap()
    }

    fn openapi_path(route: &Route) -> String {
        route.path.replace("{*", "{")
    }

    #[test]
    fn every_route_is_described_and_nothing_else_is() {
        let document = parsed();
        let described: BTreeSet<_> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, item)| {
                item.as_object().unwrap().keys().map(move |method| (method.to_uppercase(), path.clone()))
            })
            .collect();
        let routes = ROUTES.iter().map(|route| (route.method.to_owned(), openapi_path(route))).collect();
        assert_eq!(described, routes);
    }

    #[test]
    fn parameters_keys_roles_and_security_are_those_of_the_table() {
        let document = parsed();
        for route in ROUTES {
            let operation = &document["paths"][openapi_path(route)][route.method.to_lowercase()];
            let parameters = operation["parameters"].as_array().unwrap();
            let named = |place: &str| -> BTreeSet<&str> {
                let inside = parameters.iter().filter(|parameter| parameter["in"] == place);
                inside.map(|parameter| parameter["name"].as_str().unwrap()).collect()
            };
            assert_eq!(named("query"), route.query.iter().copied().collect(), "{}", route.path);
            assert_eq!(named("header").contains("Idempotency-Key"), route.keyed, "{}", route.path);
            assert_eq!(named("path").len(), route.path.matches('{').count(), "{}", route.path);
            let roles: Vec<_> = route.callers().iter().map(|caller| Value::from(caller.as_str())).collect();
            let described = operation["x-roles"].as_array().cloned().unwrap_or_default();
            assert_eq!(described, roles, "{}", route.path);
            assert_eq!(operation["security"].is_array(), route.access != Access::Open, "{}", route.path);
            assert_eq!(operation["requestBody"].is_object(), route.has_body(), "{}", route.path);
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn references(value: &Value, found: &mut BTreeSet<String>) {
            match value {
                Value::Object(members) => {
                    if let Some(Value::String(reference)) = members.get("$ref") {
                        found.insert(reference.clone());
                    }
                    members.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| references(value, found)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        let (document, mut found) = (parsed(), BTreeSet::new());
        references(&document, &mut found);
        assert!(found.len() > 10, "{found:?}");
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn fences_are_integers_that_json_keeps_whole() {
        let document = parsed();
        let fence = &document["components"]["schemas"]["Fence"];
        assert_eq!((fence["type"].as_str(), fence["maximum"].as_u64()), (Some("integer"), Some(Fence::MAX)));
        assert_eq!(document["openapi"].as_str().map(|version| &version[..3]), Some("3.1"));
    }
}
