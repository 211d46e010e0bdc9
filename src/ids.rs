//! The only drawer of randomness for ids and secrets: what goes into the log is drawn here, never in `apply`.
use crate::clock;
use rand::RngExt;

/// 128 bits for an id: a ULID's 48 bits of wall time in milliseconds, then randomness.
#[must_use]
pub fn ulid_bits() -> u128 {
    const RANDOM_BITS: u32 = 80;
    let time = u128::from(clock::wall().unix_ms()) << RANDOM_BITS;
    let random = rand::rng().random::<u128>() & ((1 << RANDOM_BITS) - 1);
    time | random
}

/// A port within a range that is not empty.
#[must_use]
pub fn port_within(range: std::ops::Range<u16>) -> u16 {
    rand::rng().random_range(range)
}

/// 32 random bytes for a secret or a key.
#[must_use]
pub fn secret_bytes() -> [u8; 32] {
    rand::rng().random()
}
