//! Commands and states as bytes: a version, then postcard. An unknown version is refused.
use crate::{command::Command, state::State};
use alloc::vec::Vec;
use core::fmt;
use serde::{Serialize, de::DeserializeOwned};

const COMMAND_VERSION: u8 = 1;
const STATE_VERSION: u8 = 1;

/// Why bytes are no command or state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeError {
    /// Nothing there.
    Empty,
    /// Written by another version.
    UnknownVersion {
        /// The version that was found.
        found: u8,
        /// The version that is known.
        known: u8,
    },
    /// Of this version, but not readable.
    Malformed(postcard::Error),
    /// Readable, with more behind it.
    Trailing(usize),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there is nothing"),
            Self::UnknownVersion { found, known } => {
                write!(f, "it has format {found}, this version knows {known}: run the version that wrote it")
            }
            Self::Malformed(error) => write!(f, "it can't be read: {error}"),
            Self::Trailing(bytes) => write!(f, "{bytes} bytes are left over"),
        }
    }
}

impl core::error::Error for DecodeError {}

fn encode<T: Serialize>(version: u8, value: &T) -> Vec<u8> {
    postcard::to_extend(value, alloc::vec![version])
        .expect("postcard writes maps, sets and numbers into memory")
}

fn decode<T: DeserializeOwned>(known: u8, bytes: &[u8]) -> Result<T, DecodeError> {
    let (&found, body) = bytes.split_first().ok_or(DecodeError::Empty)?;
    if found != known {
        return Err(DecodeError::UnknownVersion { found, known });
    }
    let (value, rest) = postcard::take_from_bytes(body).map_err(DecodeError::Malformed)?;
    if rest.is_empty() { Ok(value) } else { Err(DecodeError::Trailing(rest.len())) }
}

impl Command {
    /// As an entry of the log.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        encode(COMMAND_VERSION, self)
    }

    /// From an entry of the log.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(COMMAND_VERSION, bytes)
    }
}

impl State {
    /// As a snapshot: equal states give equal bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        encode(STATE_VERSION, self)
    }

    /// From a snapshot.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(STATE_VERSION, bytes)
    }
}
