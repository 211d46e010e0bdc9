//! Blocking work that isn't left half done.
use super::answer::{Answer, internal};

/// Runs a guarded call on the runtime's threads for blocking work, and to its end even where the client goes
/// away in the middle: a dropped request then has been done or refused as a whole.
///
/// # Errors
/// The error of `work` as an answer; `500` where it panicked, and then its transaction was rolled back.
pub async fn run_to_end<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, Answer>
where
    T: Send + 'static,
    E: Into<Answer> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome.map_err(Into::into),
        Err(_) => Err(internal("a guarded write panicked and was rolled back")),
    }
}
