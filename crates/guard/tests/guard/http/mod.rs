//! The example target over real HTTP, with a signer in place of the cluster.
mod abrupt;
mod late_holders;
mod preconditions;
mod target;
mod writes;
