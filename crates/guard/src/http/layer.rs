//! The layer: nothing below it is written without a grant and a version.
use super::{
    answer::Answer,
    inspect::{Inspected, is_write},
};
use crate::guard::Guard;
use axum_core::{
    extract::Request,
    response::{IntoResponse, Response},
};
use std::{
    mem,
    pin::Pin,
    task::{Context, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// Puts a guard before all routes below. See the [module](super).
#[derive(Debug, Clone)]
pub struct GuardLayer {
    guard: Guard,
}

impl GuardLayer {
    /// A layer of this guard.
    #[must_use]
    pub const fn new(guard: Guard) -> Self {
        Self { guard }
    }
}

impl<S> Layer<S> for GuardLayer {
    type Service = GuardService<S>;

    fn layer(&self, inner: S) -> GuardService<S> {
        GuardService { guard: self.guard.clone(), inner }
    }
}

/// What [`GuardLayer`] makes of a service.
#[derive(Debug, Clone)]
pub struct GuardService<S> {
    guard: Guard,
    inner: S,
}

impl<S> Service<Request> for GuardService<S>
where
    S: Service<Request> + Clone + Send + 'static,
    S::Response: IntoResponse,
    S::Future: Send,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let guard = self.guard.clone();
        // The one that was polled ready is the one that may be called; the fresh clone takes its place.
        let fresh = self.inner.clone();
        let mut ready = mem::replace(&mut self.inner, fresh);
        Box::pin(async move {
            match admit(&guard, &mut request).await {
                Ok(()) => ready.call(request).await.map(IntoResponse::into_response),
                Err(answer) => Ok(answer.into_response()),
            }
        })
    }
}

async fn admit(guard: &Guard, request: &mut Request) -> Result<(), Answer> {
    let inspected = Inspected::of(request.headers(), guard).await?;
    if is_write(request.method()) {
        inspected.for_write()?;
    }
    request.extensions_mut().insert(inspected);
    Ok(())
}
