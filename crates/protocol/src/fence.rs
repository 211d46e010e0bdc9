//! The fence: a number that only grows over the whole life of a cluster.
use core::{fmt, num::NonZeroU64};
use serde::{Deserialize, Deserializer, Serialize, de};

/// A fence number, 1 ≤ fence < 2^53, so that every JSON reader keeps it whole.
///
/// A later grant of a cluster has a greater fence than every earlier one, restores included. Fences are
/// compared, never counted with: a lease id can't be passed for one (distributed lock clients that handed out
/// random version ids could not order two holders).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Fence(NonZeroU64);

impl Fence {
    /// The greatest fence there can be.
    pub const MAX: u64 = (1 << 53) - 1;

    /// Takes a number in range.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number > Self::MAX {
            return None;
        }
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Fence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(deserializer)?;
        Self::new(number).ok_or_else(|| de::Error::custom("a fence is an integer from 1 to 2^53 - 1"))
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Fence {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, SchemaFormat, Type};
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::Custom("int64".into())))
            .minimum(Some(1_u64))
            .maximum(Some(Self::MAX))
            .description(Some("A fence: strictly increasing over the whole life of a cluster, below 2^53."))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Fence {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_that_json_keeps_whole_are_fences() {
        assert!(Fence::new(0).is_none());
        assert!(Fence::new(Fence::MAX).is_some());
        assert!(Fence::new(Fence::MAX + 1).is_none());
        for bad in ["0", "-1", "1.0", "\"7\"", "9007199254740992", "null"] {
            assert!(serde_json::from_str::<Fence>(bad).is_err(), "{bad}");
        }
        assert_eq!(serde_json::from_str::<Fence>("1042").unwrap().get(), 1042);
    }
}
