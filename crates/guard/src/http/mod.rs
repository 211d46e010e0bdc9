//! The guard in a tower stack: a layer, and extractors and answers for axum 0.8.
//!
//! [`GuardLayer`] reads `Ringfence-Grant`, `If-Match` and `If-None-Match` of every request below it. A `PUT`,
//! `PATCH` or `DELETE` without a grant or without a version never reaches its handler, whatever the handler
//! asks for. The extractors [`GuardedWrite`] and [`GuardedRead`] hand over what the layer read; on a route that
//! the layer isn't on they answer `500`, so that a route left out by mistake is closed, not open.
//!
//! Put it on with `Router::route_layer`, so that unknown paths keep answering `404`.
//!
//! The marks are compared, and the version is checked, in [`Guard::write`](crate::Guard::write), within the
//! transaction of the write; run it through [`run_to_end`].
mod answer;
mod extract;
mod inspect;
mod layer;
mod task;

pub use answer::{Answer, NotModified, Versioned};
pub use extract::{GuardedRead, GuardedWrite, StrictJson};
pub use layer::{GuardLayer, GuardService};
pub use task::run_to_end;
