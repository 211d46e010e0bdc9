//! Ids: opaque on the wire, a prefix and a 26-character ULID.
//!
//! Inside they are 128 bits, so that a hundred thousand of them stay cheap. They are made outside of the
//! replicated state and come in with a command.
use alloc::borrow::Cow;
use core::{fmt, str::FromStr};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Why a text is no id of the kind asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdError {
    prefix: &'static str,
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected `{}` and 26 characters of a ULID", self.prefix)
    }
}

impl core::error::Error for IdError {}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            /// What the text form begins with.
            pub const PREFIX: &'static str = $prefix;

            /// Takes 128 bits that the caller drew (a ULID's time and randomness).
            #[must_use]
            pub const fn from_bits(bits: u128) -> Self {
                Self(bits)
            }

            /// The 128 bits.
            #[must_use]
            pub const fn bits(self) -> u128 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut buffer = [0; ulid::ULID_LEN];
                let text: &str = ulid::Ulid(self.0).array_to_str(&mut buffer);
                f.write_str($prefix)?;
                f.write_str(text)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let error = IdError { prefix: $prefix };
                let Some(ulid_text) = text.strip_prefix($prefix) else { return Err(error) };
                let parsed = ulid::Ulid::from_string(ulid_text).map_err(|_| error.clone())?;
                // One spelling an id: lower case and overlong forms would make two texts of one thing.
                let mut buffer = [0; ulid::ULID_LEN];
                let canonical: &str = parsed.array_to_str(&mut buffer);
                if canonical == ulid_text { Ok(Self(parsed.0)) } else { Err(error) }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() { serializer.collect_str(self) } else { self.0.serialize(serializer) }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    Cow::<str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
                } else {
                    u128::deserialize(deserializer).map(Self)
                }
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                crate::body::schema::string(concat!("An opaque id: `", $prefix, "` and a ULID."),
                    concat!("^", $prefix, "[0-9A-HJKMNP-TV-Z]{26}$"), concat!($prefix, "01JD5ZJ5H6S9W3V4R0K2M8N7QX"))
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {}
    };
}

id!(
    /// One agent run: who acts.
    RunId,
    "run_"
);
id!(
    /// One lease: what a run may write, and until when.
    LeaseId,
    "lse_"
);
id!(
    /// One secret of a principal with a role.
    TokenId,
    "tok_"
);
id!(
    /// One cluster, for its whole life, restores included.
    ClusterId,
    "cls_"
);
id!(
    /// One life of a cluster: a restore starts another one under the same [`ClusterId`].
    Incarnation,
    "inc_"
);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};

    #[test]
    fn an_id_survives_text_and_binary() {
        let id = LeaseId::from_bits(0x0192_0000_0000_0000_0000_0000_0000_0001);
        assert_eq!(id.to_string().len(), 30);
        assert_eq!(id.to_string().parse::<LeaseId>().unwrap(), id);
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<LeaseId>(&json).unwrap(), id);
        let bytes = postcard::to_allocvec(&id).unwrap();
        assert_eq!(postcard::from_bytes::<LeaseId>(&bytes).unwrap(), id);
    }

    #[test]
    fn another_kind_or_spelling_is_no_id() {
        let good = RunId::from_bits(0xABCD_EF01_2345).to_string();
        for bad in [
            good.replace("run_", "lse_"),
            good.to_lowercase(),
            good[..29].to_string(),
            alloc::format!("{good}0"),
            "run_ZZZZZZZZZZZZZZZZZZZZZZZZZZ".to_string(),
            String::new(),
        ] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
    }
}
