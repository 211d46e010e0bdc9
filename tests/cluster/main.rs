//! Three real processes, real disks, real kills.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that can't go on has failed, and says why"
)]
mod cluster;
mod damage;
mod kills;
mod repetition;
mod time;

/// How many rounds of a test that kills processes at random.
fn rounds(default: u64) -> u64 {
    std::env::var("RINGFENCE_KILL_ROUNDS").ok().map_or(default, |rounds| rounds.parse().unwrap())
}
