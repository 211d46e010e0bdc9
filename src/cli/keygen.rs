//! `ringfence cluster keygen`: a signing key.
use super::{failure::Failure, local::write_private, output};
use crate::ids;
use ed25519_dalek::{
    SigningKey,
    pkcs8::{EncodePrivateKey, spki::der::pem::LineEnding},
};
use std::{path::Path, process::ExitCode};

/// A new Ed25519 key as PKCS#8 PEM.
pub(crate) fn new_key() -> String {
    let key = SigningKey::from_bytes(&ids::secret_bytes());
    let pem = key.to_pkcs8_pem(LineEnding::LF).expect("an Ed25519 key has a PKCS#8 form");
    pem.to_string()
}

/// Writes a new key to a file that isn't there yet.
///
/// # Errors
/// Where there is one already: overwriting a key in use would end all its grants.
pub(crate) fn run(file: &Path) -> Result<ExitCode, Failure> {
    if file.exists() {
        return Err(Failure::Local(format!("{} is there already, and is left alone", file.display())));
    }
    write_private(file, new_key().as_bytes())
        .map_err(|error| Failure::local(&format!("{} can't be written", file.display()), error))?;
    output::note(&format!("wrote {}: name it in signing.key_files of every node", file.display()));
    Ok(ExitCode::SUCCESS)
}
