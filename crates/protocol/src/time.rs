//! Instants for people and logs. Nothing is decided by them.
use alloc::{borrow::Cow, string::String};
use chrono::{DateTime, SecondsFormat};
use core::fmt;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A wall-clock instant in milliseconds since the Unix epoch; RFC 3339 UTC with milliseconds on the wire.
///
/// For people and logs: leases live by the cluster's log time, never by this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

/// 9999-12-31T23:59:59.999Z, the last instant that RFC 3339 can write.
const LAST_MS: u64 = 253_402_300_799_999;

impl Timestamp {
    /// Takes Unix milliseconds; later than the year 9999 becomes its end.
    #[must_use]
    pub const fn from_unix_ms(ms: u64) -> Self {
        Self(if ms > LAST_MS { LAST_MS } else { ms })
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn unix_ms(self) -> u64 {
        self.0
    }

    /// This instant and `ms` milliseconds.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self::from_unix_ms(self.0.saturating_add(ms))
    }

    fn text(self) -> String {
        i64::try_from(self.0)
            .ok()
            .and_then(DateTime::from_timestamp_millis)
            .map(|at| at.to_rfc3339_opts(SecondsFormat::Millis, true))
            .unwrap_or_default()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&self.text())
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return u64::deserialize(deserializer).map(Self::from_unix_ms);
        }
        let text = Cow::<str>::deserialize(deserializer)?;
        let at = DateTime::parse_from_rfc3339(&text).map_err(de::Error::custom)?;
        u64::try_from(at.timestamp_millis()).map(Self::from_unix_ms).map_err(de::Error::custom)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Timestamp {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("RFC 3339, UTC, milliseconds. For people and logs only."))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Timestamp {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn instants_are_utc_with_milliseconds() {
        let at = Timestamp::from_unix_ms(1_764_547_200_005);
        assert_eq!(at.to_string(), "2025-12-01T00:00:00.005Z");
        let json = serde_json::to_string(&at).unwrap();
        assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), at);
        assert_eq!(postcard::from_bytes::<Timestamp>(&postcard::to_allocvec(&at).unwrap()).unwrap(), at);
    }

    #[test]
    fn an_instant_beyond_what_rfc_3339_can_write_becomes_its_end() {
        assert_eq!(Timestamp::from_unix_ms(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
        assert!(serde_json::from_str::<Timestamp>("\"yesterday\"").is_err());
    }
}
