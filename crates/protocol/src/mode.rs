//! How a lease uses a scope, and which uses go together.
use serde::{Deserialize, Serialize};

/// How an entry of a write set uses its scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Nobody else may write it or rely on it.
    Exclusive,
    /// The run relies on it not changing; it does not write it.
    Shared,
    /// The run will write it under version checks only.
    Optimistic,
}

impl Mode {
    /// All modes, in the order of the three marks a store keeps a scope.
    pub const ALL: [Self; 3] = [Self::Exclusive, Self::Shared, Self::Optimistic];

    /// Whether two overlapping entries of different leases can be held at once: only shared with shared and
    /// optimistic with optimistic.
    #[must_use]
    pub const fn is_compatible(self, other: Self) -> bool {
        matches!((self, other), (Self::Shared, Self::Shared) | (Self::Optimistic, Self::Optimistic))
    }

    /// Whether a write may be made under an entry of this mode.
    #[must_use]
    pub const fn may_write(self) -> bool {
        matches!(self, Self::Exclusive | Self::Optimistic)
    }

    /// The letter in a signed grant: `x`, `s` or `o`.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Exclusive => 'x',
            Self::Shared => 's',
            Self::Optimistic => 'o',
        }
    }

    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
            Self::Optimistic => "optimistic",
        }
    }
}

impl core::fmt::Display for Mode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.as_str())
    }
}

impl core::str::FromStr for Mode {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or("expected exclusive, shared or optimistic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compatibility_is_symmetric_and_exclusive_goes_with_nothing() {
        for a in Mode::ALL {
            assert!(!Mode::Exclusive.is_compatible(a));
            for b in Mode::ALL {
                assert_eq!(a.is_compatible(b), b.is_compatible(a));
            }
        }
        assert!(Mode::Shared.is_compatible(Mode::Shared));
        assert!(Mode::Optimistic.is_compatible(Mode::Optimistic));
        assert!(!Mode::Shared.is_compatible(Mode::Optimistic));
    }
}
