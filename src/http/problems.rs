//! `/problems/{error}`: what the `type` of a problem leads to; and the answers where there is no route.
use super::answer::{Failure, with_body};
use super::path;
use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use ringfence_protocol::{
    ErrorCode,
    problem::{Category, Resolver},
};

/// Read what a problem means and what to do about it.
#[utoipa::path(get, path = "/problems/{error}", operation_id = "get_problem", tag = "node",
    params(("error" = ErrorCode, Path, description = "The `error` of the problem.")),
    responses((status = 200, body = String, content_type = "text/html", description = "A page for people.")))]
pub(super) async fn show(path: Result<path::Id<Code>, Failure>) -> Response {
    match path {
        Ok(path::Id(Code(code))) => with_body(StatusCode::OK, "text/html; charset=utf-8", page(code)),
        Err(failure) => failure.into_response(),
    }
}

/// A code in a path.
#[derive(Debug)]
pub(super) struct Code(ErrorCode);

impl std::str::FromStr for Code {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        text.parse().map(Self)
    }
}

/// No route has this path.
pub(super) async fn nothing_here() -> Failure {
    Failure::new(ErrorCode::NotFound, "there is no such path; GET /openapi.json lists all")
}

/// A route has this path, but not with this method; the router says in `Allow` with which.
pub(super) async fn not_with_this_method() -> Failure {
    Failure::new(ErrorCode::MethodNotAllowed, "this path does not take this method; `Allow` says which")
}

/// All texts are the contract's own: nothing here comes from a caller.
fn page(code: ErrorCode) -> String {
    let retry = if code.retryable() {
        "yes: the very same request may be sent again"
    } else {
        "no: not without a change"
    };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{code}: {title}</title>\n\
         <h1>{title}</h1>\n<dl>\n<dt>error</dt><dd><code>{code}</code></dd>\n<dt>status</dt><dd>{status}</dd>\n\
         <dt>category</dt><dd>{category}</dd>\n<dt>retryable</dt><dd>{retry}</dd>\n<dt>settled by</dt><dd>{resolver}</dd>\n\
         </dl>\n<p>{advice}</p>\n</html>\n",
        title = escaped(code.title()),
        status = code.status(),
        category = category(code.category()),
        resolver = resolver(code.resolver()),
        advice = escaped(code.advice()),
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

const fn category(category: Category) -> &'static str {
    match category {
        Category::Invalid => "invalid",
        Category::Unauthorized => "unauthorized",
        Category::Forbidden => "forbidden",
        Category::NotFound => "not_found",
        Category::Stale => "stale",
        Category::Conflict => "conflict",
        Category::Busy => "busy",
        Category::Gone => "gone",
        Category::Unavailable => "unavailable",
        Category::Internal => "internal",
    }
}

const fn resolver(resolver: Resolver) -> &'static str {
    match resolver {
        Resolver::Caller => "the caller: fix the request",
        Resolver::Wait => "waiting",
        Resolver::Reread => "the caller: read anew, decide anew",
        Resolver::Human => "a person",
        Resolver::Owner => "the owner of the service",
        Resolver::Operator => "the operator of the cluster",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_page_with_its_advice() {
        for code in ErrorCode::ALL {
            let page = page(*code);
            assert!(page.contains(&format!("<code>{code}</code>")), "{code}");
            assert!(page.contains(&escaped(code.advice())), "{code}");
        }
    }

    #[test]
    fn the_words_of_categories_are_those_of_the_problems() {
        for code in ErrorCode::ALL {
            let word = serde_json::to_value(code.category()).unwrap();
            assert_eq!(word, category(code.category()));
        }
    }
}
