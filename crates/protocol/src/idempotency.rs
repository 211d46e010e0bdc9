//! The `Idempotency-Key` header: an opaque key that names one intended action.
//!
//! The IETF draft (draft-ietf-httpapi-idempotency-key-header) makes it a structured-field string (RFC 9651);
//! many clients send it bare. Both spellings of one key are one identity here.
use alloc::{borrow::ToOwned, string::String};
use core::fmt;
use sfv::{BareItem, Parser};

/// The name of the header.
pub const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";
/// The most bytes a key has.
pub const MAX_KEY_BYTES: usize = 255;

/// A key as the caller chose it: compared as bytes, never parsed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(String);

/// Why a header is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyError {
    /// Empty, or longer than [`MAX_KEY_BYTES`].
    Length(usize),
    /// Neither a structured-field string nor bare characters.
    Syntax,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(bytes) => write!(f, "a key has 1 to {MAX_KEY_BYTES} bytes, this one {bytes}"),
            Self::Syntax => f.write_str("send the key quoted, or bare of `A-Z a-z 0-9 . _ : -`"),
        }
    }
}

impl core::error::Error for KeyError {}

impl IdempotencyKey {
    /// Reads the header's value, quoted or bare.
    ///
    /// # Errors
    /// [`KeyError`] where it is neither, or has no or too many bytes.
    pub fn from_header(value: &[u8]) -> Result<Self, KeyError> {
        let text = core::str::from_utf8(value).map_err(|_| KeyError::Syntax)?.trim_matches([' ', '\t']);
        let key = if text.starts_with('"') { quoted(text)? } else { bare(text)? };
        if (1..=MAX_KEY_BYTES).contains(&key.len()) {
            Ok(Self(key))
        } else {
            Err(KeyError::Length(key.len()))
        }
    }

    /// The key's characters, without quotes.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The header's value, as a structured-field string.
    #[must_use]
    pub fn to_header(&self) -> String {
        let mut value = String::with_capacity(self.0.len() + 2);
        value.push('"');
        for character in self.0.chars() {
            if matches!(character, '"' | '\\') {
                value.push('\\');
            }
            value.push(character);
        }
        value.push('"');
        value
    }
}

fn quoted(text: &str) -> Result<String, KeyError> {
    let item = Parser::new(text).parse::<sfv::Item>().map_err(|_| KeyError::Syntax)?;
    // Parameters would be a second identity beside the key: none are defined, so none are taken.
    if let BareItem::String(key) = item.bare_item
        && item.params.is_empty()
    {
        return Ok(key.as_str().to_owned());
    }
    Err(KeyError::Syntax)
}

fn bare(text: &str) -> Result<String, KeyError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-');
    if text.bytes().all(allowed) { Ok(text.to_owned()) } else { Err(KeyError::Syntax) }
}

impl fmt::Debug for IdempotencyKey {
    // Keys are chosen by callers and may hold anything: they stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdempotencyKey({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Result<String, KeyError> {
        IdempotencyKey::from_header(text.as_bytes()).map(|key| key.0)
    }

    #[test]
    fn quoted_and_bare_are_one_identity() {
        for text in ["8e03978e-40d5-43dd-bc93-6894a57f9324", "run-7f3c-add-backup", "a:b.c_d", "7"] {
            assert_eq!(key(text), key(&alloc::format!("\"{text}\"")));
            assert_eq!(key(text).unwrap(), text);
        }
    }

    #[test]
    fn what_is_neither_is_refused() {
        for bad in
            ["", "\"\"", "a b", "\"a", "a\"", "\"a\";p=1", "\"a\", \"b\"", "ä", "\"ä\"", "\"a\\b\"", "?1"]
        {
            assert!(key(bad).is_err(), "{bad}");
        }
        assert_eq!(key(&"x".repeat(256)), Err(KeyError::Length(256)));
        assert!(key(&"x".repeat(255)).is_ok());
    }

    #[test]
    fn the_header_of_a_key_is_read_back_as_that_key() {
        for text in ["plain", "with \\\" both", "a b"] {
            let parsed = IdempotencyKey(text.to_owned());
            assert_eq!(IdempotencyKey::from_header(parsed.to_header().as_bytes()).unwrap(), parsed);
        }
    }
}
