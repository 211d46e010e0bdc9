//! The `ringfence` program: one node, a local cluster, and the command line of the API.
use std::process::ExitCode;

fn main() -> ExitCode {
    ringfence::cli::main()
}
