//! The client against clusters that misbehave: in memory on a clock turned by hand, and on real sockets.
//!
//! What is promised is judged at the cluster's side, by its own table of leases and its log of what it received.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a script names what it breaks; all other requests are answered"
)]
#[cfg(test)]
mod calls;
#[cfg(test)]
mod keeping;
#[cfg(test)]
mod outages;
#[cfg(test)]
mod ownership;
#[cfg(test)]
mod sockets;
#[cfg(test)]
mod support;
#[cfg(test)]
mod waiting;
#[cfg(test)]
mod work;
