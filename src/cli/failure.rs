//! What a command can come to, in words for people and as an exit code.
use super::{
    output,
    show::{columns, optional},
};
use ringfence_client::{Error, Lost};
use ringfence_protocol::{
    Problem,
    body::Conflict,
    problem::{Applied, Category},
};
use std::process::ExitCode;

/// The command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// What was typed makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Something on this machine.
    #[error("{0}")]
    Local(String),
    /// A call of the API.
    #[error(transparent)]
    Call(#[from] Error),
    /// The lease was lost while the command ran.
    #[error("the lease was lost, and the command was stopped: {0}")]
    Lost(Lost),
    /// The command to run under a lease can't be started.
    #[error("`{command}` can't be started: {source}")]
    Command {
        /// What was to be started.
        command: String,
        /// Why it wasn't.
        source: std::io::Error,
    },
    /// The demo did not see what it should have.
    #[error("{0} of the demo's scenes failed")]
    Demo(usize),
}

impl Failure {
    pub(crate) fn local(what: &str, error: impl std::fmt::Display) -> Self {
        Self::Local(format!("{what}: {error}"))
    }

    /// 1 failed, 2 usage, 3 conflict or stale, 4 not allowed, 5 no leader or unreachable; for a command that can't be
    /// started what a shell says, 127 or 126.
    fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Local(_) | Self::Demo(_) => 1,
            Self::Lost(_) => 3,
            Self::Command { source, .. } if source.kind() == std::io::ErrorKind::NotFound => 127,
            Self::Command { .. } => 126,
            Self::Call(error) => match error.problem() {
                Some(problem) => problem_code(problem),
                None => error_code(error),
            },
        }
    }

    /// Says what happened and what to do next, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        output::note(&format!("error: {self}"));
        if let Self::Call(error) = self {
            if let Some(problem) = error.problem() {
                explain(problem);
            }
            advise(error);
        }
        ExitCode::from(self.code())
    }
}

fn problem_code(problem: &Problem) -> u8 {
    match problem.category {
        Category::Unauthorized | Category::Forbidden => 4,
        Category::Stale | Category::Conflict => 3,
        // 429 and reached limits are busy too, but nobody else's write stands in the way.
        Category::Busy | Category::Gone if matches!(problem.status, 409 | 410) => 3,
        Category::Invalid | Category::NotFound | Category::Internal | Category::Busy | Category::Gone => 1,
        Category::Unavailable => 5,
    }
}

fn error_code(error: &Error) -> u8 {
    match error {
        Error::Unreachable { .. } | Error::Unknown { .. } => 5,
        Error::TooLate { .. } => 3,
        Error::Invalid(_) => 2,
        Error::Refused { .. } | Error::Unreadable { .. } | _ => 1,
    }
}

fn advise(error: &Error) {
    if let Error::Unreachable { .. } = error {
        output::note("next:  check that the nodes run and that --url or RINGFENCE_URL names them");
    }
    if let Error::Unknown { key: Some(key), .. } | Error::Refused { unanswered: Some(key), .. } = error {
        output::note(&format!(
            "next:  an earlier try got no answer; repeat it with --idempotency-key {} to find out",
            key.as_str()
        ));
    }
}

fn explain(problem: &Problem) {
    if let Some(field) = &problem.field {
        output::note(&format!("field: {field}"));
    }
    if let Some(conflicts) = &problem.conflicts {
        output::note(&holders(conflicts));
    }
    if problem.conflicts_truncated == Some(true) {
        output::note("(there are more)");
    }
    if problem.applied == Some(Applied::Unknown) {
        output::note("state: it may have happened");
    }
    output::note(&format!("next:  {}", problem.error.advice()));
    if let Some(request) = &problem.request_id {
        output::note(&format!("       (request {request})"));
    }
}

fn holders(conflicts: &[Conflict]) -> String {
    let row = |conflict: &Conflict| {
        vec![
            format!("{}:{}", conflict.held_scope, conflict.held_mode),
            conflict.run.to_string(),
            conflict.lease.to_string(),
            conflict.fence.to_string(),
            optional(conflict.purpose.as_ref()),
            conflict.held_since.to_string(),
            conflict.expires_in_ms.to_string(),
        ]
    };
    let header = ["HELD", "RUN", "LEASE", "FENCE", "PURPOSE", "SINCE", "EXPIRES IN MS"];
    columns(&header, conflicts.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_protocol::ErrorCode;

    fn code(error: ErrorCode) -> u8 {
        let problem = Box::new(Problem::new(error, "x"));
        Failure::Call(Error::Refused { problem, unanswered: None }).code()
    }

    #[test]
    fn a_refusal_has_the_exit_code_of_its_kind() {
        for (error, expected) in [
            (ErrorCode::InvalidField, 1),
            (ErrorCode::NotFound, 1),
            (ErrorCode::RateLimited, 1),
            (ErrorCode::LimitExceeded, 1),
            (ErrorCode::WriteSetConflict, 3),
            (ErrorCode::AlreadyHeld, 3),
            (ErrorCode::StaleFence, 3),
            (ErrorCode::LeaseEnded, 3),
            (ErrorCode::StaleVersion, 3),
            (ErrorCode::FingerprintConflict, 3),
            (ErrorCode::OperationInProgress, 3),
            (ErrorCode::Unauthenticated, 4),
            (ErrorCode::CredentialRevoked, 4),
            (ErrorCode::Forbidden, 4),
            (ErrorCode::OutsideAllowance, 4),
            (ErrorCode::NoLeader, 5),
            (ErrorCode::OutcomeUncertain, 5),
        ] {
            assert_eq!(code(error), expected, "{error}");
        }
    }

    #[test]
    fn no_answer_is_told_apart_from_a_refusal() {
        let last = String::new();
        assert_eq!(Failure::Call(Error::Unreachable { tries: 1, last: last.clone() }).code(), 5);
        assert_eq!(Failure::Call(Error::Unknown { key: None, tries: 1, last }).code(), 5);
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        assert_eq!(Failure::Command { command: "x".into(), source }.code(), 127);
    }
}
