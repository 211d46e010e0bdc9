//! The only writer to standard output and standard error.
use std::io::{self, Write};

/// Writes a line to standard output and flushes it, so that whoever waits for it in a pipe gets it now.
///
/// # Errors
/// Where nobody reads any more.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Writes a line to standard error. There is nobody to tell where that fails.
pub(crate) fn note(text: &str) {
    writeln!(io::stderr().lock(), "{text}").ok();
}
