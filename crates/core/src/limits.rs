//! What is bounded, and by how much.

/// The shortest and the longest life of a lease without a renewal.
pub const TTL_MS: core::ops::RangeInclusive<u64> = 1000..=3_600_000;
/// The shortest and the longest life of a run: at most 30 days.
pub const LIFETIME_MS: core::ops::RangeInclusive<u64> = 1000..=2_592_000_000;
/// The least segments of the resource id in a scope.
pub const MIN_SEGMENTS: usize = 2;
/// The most scopes in a run's `allow`.
pub const MAX_ALLOW: usize = 256;
/// The most live leases of one run.
pub const LEASES_PER_RUN: usize = 10_000;
/// The most live leases of all.
pub const LIVE_LEASES: u64 = 2_000_000;
/// The most active runs of a tenant.
pub const RUNS_PER_TENANT: u64 = 100_000;
/// The most tokens of a tenant.
pub const TOKENS_PER_TENANT: usize = 1000;
/// The most request records; at the bound new keys are refused until old ones are forgotten.
pub const REQUEST_RECORDS: usize = 2_000_000;
/// How long ended leases, and the keys that they were asked for with, are remembered.
pub const REMEMBER_LEASE_MS: u64 = 600_000;
/// How long ended runs, revoked tokens and other keys are remembered.
pub const REMEMBER_MS: u64 = 86_400_000;
/// The most ended leases that are remembered; of more, those that ended first are forgotten early.
pub const ENDED_LEASES: usize = 250_000;
/// The most entries of write sets of ended leases that are remembered; of more, likewise.
pub const ENDED_ENTRIES: u64 = 500_000;
/// The most ended runs that are remembered.
pub const ENDED_RUNS: usize = 250_000;
/// The fences that are kept back for ends: no grant takes one of them.
pub const RESERVED_FENCES: u64 = 1 << 32;
