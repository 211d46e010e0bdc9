//! What happens to every request: an id, admission, a deadline, and an answer that is one of the contract.
use super::{
    answer::{AnsweredAt, Failure},
    app::App,
    auth, metrics, query,
    routes::{self, Route},
};
use crate::{clock, ids};
use axum::{
    extract::{Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue,
        header::{CACHE_CONTROL, CONNECTION},
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use ringfence_protocol::{ErrorCode, Problem, REVISION_HEADER, Timestamp, problem::Applied};
use std::{
    any::Any,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::SemaphorePermit, time::timeout};

/// The header with the id of a request.
const REQUEST_ID_HEADER: HeaderName = HeaderName::from_static("x-request-id");
/// The longest request id that is taken from the caller.
const MAX_REQUEST_ID: usize = 128;
/// The most bytes of all header names and values together.
pub(super) const MAX_HEADER_BYTES: usize = 16 * 1024;
/// The most bytes of a path with its query. Both are the head of a request, so both are `431`.
pub(super) const MAX_TARGET_BYTES: usize = 8 * 1024;
/// Within this long every request is answered: a little less than the five seconds that are promised.
const ANSWER_LIMIT: Duration = Duration::from_millis(4800);

/// Whether a request has come so far that it may take effect.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress(Arc<AtomicBool>);

impl Progress {
    /// From here on it may take effect.
    pub(super) fn proposed(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_proposed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the edge hands to a handler beside the request.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// The wall time at which the request arrived: no grant that is given for it may outlive what counts from here.
    pub(super) received: Timestamp,
    pub(super) route: &'static Route,
    pub(super) progress: Progress,
}

/// The middleware around all routes.
pub(super) async fn edge(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let started = clock::monotonic();
    let id = request_id(request.headers());
    let route = routes::of(&request);
    let (path, method) = (routes::path_of(&request), request.method().clone());
    let is_of_the_api = request.uri().path().starts_with("/v1/");
    let progress = Progress::default();
    let work = pass(&app, route, progress.clone(), request, next);
    let response = in_time(work, &progress).await;
    let response = dress(&app, is_of_the_api, &id, response);
    let took = started.elapsed();
    metrics::request(path, &method, response.status(), took);
    tracing::debug!(request_id = id, %method, path, status = response.status().as_u16(), ?took, "answered");
    response
}

/// Admits the request and has it answered.
async fn pass(
    app: &App,
    route: Option<&'static Route>,
    progress: Progress,
    mut request: Request,
    next: Next,
) -> Response {
    let _slot = match admit(app, route, progress, &mut request).await {
        Ok(slot) => slot,
        Err(failure) => return failure.into_response(),
    };
    next.run(request).await
}

/// Judges what can be judged before a body is read, cheapest first.
async fn admit<'a>(
    app: &'a App,
    route: Option<&'static Route>,
    progress: Progress,
    request: &mut Request,
) -> Result<Option<SemaphorePermit<'a>>, Failure> {
    check_head(request)?;
    let Some(route) = route else { return Ok(None) };
    let received = clock::wall();
    let slot = if route.is_of_the_api() { Some(slot(app)?) } else { None };
    if let Some(session) = auth::enter(app, request.headers(), route.access).await? {
        request.extensions_mut().insert(session);
    }
    query::check(route.query, request.uri().query())?;
    request.extensions_mut().insert(Entry { received, route, progress });
    Ok(slot)
}

fn slot(app: &App) -> Result<SemaphorePermit<'_>, Failure> {
    if app.draining.is_cancelled() {
        return Err(Failure::new(ErrorCode::ShuttingDown, "this node is stopping: ask another one"));
    }
    app.slots.try_acquire().map_err(|_| {
        let detail = format!("{} requests are being worked on already", app.limits.requests);
        Failure::new(ErrorCode::Overloaded, detail)
    })
}

/// Refuses a head that is larger than this node takes.
fn check_head(request: &Request) -> Result<(), Failure> {
    let headers = request.headers().iter();
    let bytes: usize = headers.map(|(name, value)| name.as_str().len() + value.len()).sum();
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    let detail = if bytes > MAX_HEADER_BYTES {
        format!("the headers have {bytes} bytes, this node takes {MAX_HEADER_BYTES}")
    } else if target > MAX_TARGET_BYTES {
        format!("path and query have {target} bytes, this node takes {MAX_TARGET_BYTES}")
    } else {
        return Ok(());
    };
    Err(Failure::new(ErrorCode::HeadersTooLarge, detail))
}

/// Has a request answered in time and whatever happens in its handler.
async fn in_time(work: impl Future<Output = Response>, progress: &Progress) -> Response {
    match timeout(ANSWER_LIMIT, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(response)) => response,
        Ok(Err(panic)) => Failure::internal("a handler panicked", panic_text(&*panic)).into_response(),
        Err(_) => too_late(progress).into_response(),
    }
}

/// A proposal is queued whole: dropping the handler that waits for it does not take it back.
fn too_late(progress: &Progress) -> Failure {
    if progress.is_proposed() {
        let detail = "there was no outcome in time: it may have been done, or may still be";
        return Problem::new(ErrorCode::OutcomeUncertain, detail).with_applied(Applied::Unknown).into();
    }
    Failure::new(
        ErrorCode::Overloaded,
        "the request did not get to its turn, or did not arrive whole, in time",
    )
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

/// The caller's request id where it can be shown and logged as it is, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let theirs = headers.get(REQUEST_ID_HEADER).and_then(|value| value.to_str().ok());
    let usable = |id: &&str| {
        (1..=MAX_REQUEST_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
    };
    theirs.filter(usable).map_or_else(|| format!("req_{:032x}", ids::ulid_bits()), str::to_owned)
}

/// Writes a failure's body and what every answer carries.
fn dress(app: &App, is_of_the_api: bool, id: &str, mut response: Response) -> Response {
    if let Some(failure) = response.extensions_mut().remove::<Failure>() {
        let kept = std::mem::take(response.headers_mut());
        if failure.code() == ErrorCode::Internal {
            tracing::error!(request_id = id, "answered with an internal error");
        }
        response = failure.render(id);
        // Such as `Allow`, which the router has set.
        response.headers_mut().extend(kept);
    }
    let index = response.extensions().get::<AnsweredAt>().map(|at| at.0);
    let index = index.unwrap_or_else(|| app.consensus.read(|_, index| index));
    let draining = app.draining.is_cancelled();
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID_HEADER, id);
    }
    if let Some(revision) = app.revision(index).and_then(|text| HeaderValue::try_from(text).ok()) {
        headers.insert(HeaderName::from_static(REVISION_HEADER), revision);
    }
    if is_of_the_api {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if draining {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn code(response: &Response) -> ErrorCode {
        response.extensions().get::<Failure>().unwrap().code()
    }

    #[tokio::test]
    async fn a_panic_in_a_handler_is_an_internal_error() {
        let response = in_time(async { panic!("boom") }, &Progress::default()).await;
        assert_eq!(code(&response), ErrorCode::Internal);
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_too_long_says_whether_it_may_have_been_applied() {
        let progress = Progress::default();
        let response = in_time(std::future::pending(), &progress).await;
        assert_eq!(code(&response), ErrorCode::Overloaded);
        progress.proposed();
        let response = in_time(std::future::pending(), &progress).await;
        assert_eq!(code(&response), ErrorCode::OutcomeUncertain);
    }

    #[test]
    fn a_request_id_is_the_callers_where_it_can_be_shown() {
        let id = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID_HEADER, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            request_id(&headers)
        };
        assert_eq!(id("abc-1"), "abc-1");
        for bad in ["", "a b", "ä", &"x".repeat(129)] {
            assert!(id(bad).starts_with("req_"), "{bad}");
        }
        assert_ne!(request_id(&HeaderMap::new()), request_id(&HeaderMap::new()));
    }

    #[test]
    fn a_head_is_refused_just_above_its_bound() {
        let request = |header: usize, target: usize| {
            let path = format!("/{}", "a".repeat(target - 1));
            let builder = Request::builder().uri(path).header("x", "v".repeat(header - 1));
            builder.body(Body::empty()).unwrap()
        };
        assert!(check_head(&request(MAX_HEADER_BYTES, MAX_TARGET_BYTES)).is_ok());
        for (header, target) in [(MAX_HEADER_BYTES + 1, 1), (2, MAX_TARGET_BYTES + 1)] {
            let failure = check_head(&request(header, target)).unwrap_err();
            assert_eq!(failure.code(), ErrorCode::HeadersTooLarge);
        }
    }
}
