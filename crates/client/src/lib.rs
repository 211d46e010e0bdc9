//! The async client of ringfence: runs, leases and their keep-alive, for orchestrators, agent runs and targets.
//!
//! ```no_run
//! use ringfence_client::{Client, Hold, KeepAlive, LeaseView};
//! use ringfence_protocol::body::AcquireLease;
//!
//! # async fn deploy(_grant: &str) {}
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let nodes = ["http://127.0.0.1:7101", "http://127.0.0.1:7102", "http://127.0.0.1:7103"];
//! let client = Client::new(nodes, &std::env::var("RINGFENCE_TOKEN")?)?;
//!
//! let wish: AcquireLease = serde_json::from_str(
//!     r#"{"write_set": [{"scope": "release/prod-eu", "mode": "exclusive", "actions": ["deploy"]}], "ttl_ms": 10000}"#,
//! )?;
//! let hold = Hold::new(wish, KeepAlive::default())?;
//!
//! let ran = client
//!     .run_while_held(hold, |lease: LeaseView| async move {
//!         for _step in 0..3 {
//!             // Fails from the deadline on, whatever the network or the runtime does.
//!             let authority = lease.check()?;
//!             tokio::select! {
//!                 () = deploy(&authority.grant) => {}
//!                 () = lease.cancelled() => break, // Stop, clean up, return.
//!             }
//!         }
//!         Ok::<_, ringfence_client::Lost>(())
//!     })
//!     .await?;
//! if let Some(lost) = ran.lost {
//!     eprintln!("the lease was lost on the way: {lost}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What a lease does not promise
//!
//! **That only one holder runs at a time.** A holder that was paused, by its scheduler, a suspend or a long call, does
//! not know that it is late. [`LeaseView::check`] tells whether the lease was good when it looked; the write that
//! follows may arrive long after. Only the target's own refusal counts: send the grant with every write, to a target
//! that checks its fence. Without such a target a lease is advice.
//!
//! # What this crate promises
//!
//! - A lease is lost here no later than at the cluster, if the monotonic clocks tick alike within 500 ppm: the deadline
//!   counts from the *sending* of the last acknowledged request, on a clock that goes on in suspend, less a margin.
//! - Lost is final, told once, with its reason ([`Lost`]). An outage shorter than the lease is no loss
//!   ([`Status::Unreachable`]).
//! - A renewal that is never answered, a black-holed node or an election does not use up the time of the next try.
//! - A lease has an owner or is given back: dropping a [`HeldLease`], or the future of [`Client::hold`] at any moment,
//!   stops the renewals and releases in the background ([`Client::settled`]). If even that fails it expires.
//! - What got no answer is [`Error::Unknown`], never "failed"; what is sent again is the same request with the same
//!   `Idempotency-Key`; what a node has judged is never sent again.
//!
//! Everything works on a current-thread runtime of tokio, as long as the work on it yields.
mod answer;
mod api;
mod attempts;
mod backoff;
mod call;
mod client;
mod clock;
mod error;
mod hold;
mod nodes;
mod query;
mod transport;

pub use answer::Answer;
pub use call::{Call, fresh_key};
pub use client::{BuildError, Client, ClientBuilder, DEFAULT_DEADLINE, LEAST_DEADLINE};
pub use clock::{BootInstant, Clock, SystemClock};
pub use error::Error;
pub use hold::{
    Authority, DEFAULT_TTL, Ending, HeldLease, Hold, KeepAlive, LeaseView, Lost, Ran, Sending, Status,
    TimingError, local_deadline,
};
pub use nodes::{NodeUrl, NodeUrlError};
pub use query::{LeaseFilter, PageOf, RunFilter};
pub use transport::{Exchange, SendError, Transport};
