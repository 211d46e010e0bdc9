//! Until when a lease is good here: the arithmetic alone.
use crate::clock::BootInstant;
use std::time::Duration;

/// When the request that an answer belongs to was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sending {
    /// When the first try of it was sent.
    pub first: BootInstant,
    /// When the try that was answered was sent.
    pub answered: BootInstant,
}

/// How much of a wait is not counted on, as a fraction of it: the cluster's clock may tick faster than ours.
const WAIT_DRIFT: u32 = 1_000;

/// The moment from which a lease must not be used here any more.
///
/// The cluster counts `expires_in` from the moment of answering. That moment isn't known here, but two earlier
/// ones are: the sending of the try that was answered, and, where the lease was waited for, the first sending and
/// `waited`. The later of the two is taken. Counting from the return of the call would be too late by the way of the
/// answer; counting from the first try alone would make a lease end at birth that was long waited for.
///
/// With clocks that tick equally within 500 ppm and a margin of at least a thousandth of `expires_in`, the moment is
/// never after the lease's end at the cluster. `waited` must have been measured for a request whose first try was sent
/// at `first`, not for an earlier one with the same key.
#[must_use]
pub fn local_deadline(
    sending: Sending,
    waited: Duration,
    expires_in: Duration,
    margin: Duration,
) -> BootInstant {
    let after_wait = sending.first.plus(waited.saturating_sub(waited / WAIT_DRIFT));
    sending.answered.max(after_wait).plus(expires_in).minus(margin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn at(ms: u64) -> BootInstant {
        BootInstant::since_boot(Duration::from_millis(ms))
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_lease_that_was_waited_for_has_its_ttl_less_the_way_of_the_answer() {
        let sending = Sending { first: at(100), answered: at(100) };
        let deadline = local_deadline(sending, ms(8000), ms(5000), ms(250));
        let returned = at(100 + 8000 + 1500);
        let remaining = deadline.since(returned);
        assert!(remaining >= ms(3450 - 250) && remaining <= ms(3500), "{remaining:?}");
    }

    #[test]
    fn a_try_that_was_answered_late_counts_from_its_own_sending() {
        let sending = Sending { first: at(0), answered: at(7000) };
        assert_eq!(local_deadline(sending, ms(0), ms(5000), ms(250)), at(11_750));
    }

    /// A world in microseconds of true time, in which the cluster's clock and ours tick at their own rates.
    #[derive(Debug, Clone)]
    struct World {
        our_ppm: i64,
        cluster_ppm: i64,
        first_sent: i64,
        /// From the first sending to its arrival.
        there: i64,
        /// In the queue, true time; 0: not waited for.
        waited: i64,
        /// From the first sending to that of the try that was answered; at most until the answer left.
        retried_after: i64,
        /// From the grant to the moment of answering, as in a replay.
        answered_after: i64,
        /// The way of the answer.
        back: i64,
        /// By the cluster's clock.
        ttl_ms: i64,
    }

    fn by_clock(ppm: i64, true_us: i64) -> i64 {
        true_us + true_us * ppm / 1_000_000
    }

    fn moment(ppm: i64, true_us: i64) -> BootInstant {
        BootInstant::since_boot(Duration::from_micros(by_clock(ppm, true_us).unsigned_abs()))
    }

    fn whole_ms(us: i64) -> Duration {
        ms((us / 1000).unsigned_abs())
    }

    /// The end of the lease at the cluster, our deadline, and when the answer is here: all by our clock.
    fn play(world: &World, margin: Duration) -> (BootInstant, BootInstant, BootInstant) {
        let granted = world.first_sent + world.there + world.waited;
        // Of a lease that is over there is no such answer.
        let answered_after = world.answered_after.min(world.ttl_ms * 999);
        let answered = granted + answered_after;
        let resent = world.first_sent + world.retried_after.min(answered - world.first_sent);
        let age = by_clock(world.cluster_ppm, answered_after);
        let expires_in = whole_ms(world.ttl_ms * 1000 - age);
        let end = granted + world.ttl_ms * 1000 * 1_000_000 / (1_000_000 + world.cluster_ppm);
        let sending = Sending {
            first: moment(world.our_ppm, world.first_sent),
            answered: moment(world.our_ppm, resent),
        };
        let waited = whole_ms(by_clock(world.cluster_ppm, world.waited));
        let deadline = local_deadline(sending, waited, expires_in, margin);
        (moment(world.our_ppm, end), deadline, moment(world.our_ppm, answered + world.back))
    }

    prop_compose! {
        fn worlds()(
            our_ppm in -200_i64..=200,
            cluster_ppm in -200_i64..=200,
            first_sent in 0_i64..1_000_000_000_000,
            there in prop_oneof![Just(0), 0_i64..5_000_000],
            waited in prop_oneof![Just(0), 0_i64..300_000_000],
            retried_after in 0_i64..300_000_000,
            answered_after in prop_oneof![Just(0), 0_i64..20_000_000],
            back in 0_i64..5_000_000,
            ttl_ms in prop_oneof![1_000_i64..10_000, 1_000_i64..3_600_000],
        ) -> World {
            World { our_ppm, cluster_ppm, first_sent, there, waited, retried_after, answered_after, back, ttl_ms }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_deadline_here_is_never_after_the_end_at_the_cluster(world in worlds()) {
            let margin = Duration::from_micros(world.ttl_ms.unsigned_abs());
            let (end, deadline, _) = play(&world, margin);
            prop_assert!(deadline <= end, "{deadline:?} after {end:?}");
        }

        #[test]
        fn a_lease_that_outlives_the_way_of_its_answer_can_be_used(world in worlds()) {
            let world = World { retried_after: 0, answered_after: 0, ..world };
            let margin = ms(50);
            let (_, deadline, returned) = play(&world, margin);
            let way = world.there + world.back;
            let drift = world.waited / 700 + world.ttl_ms + way / 1000 + 3_000;
            if world.ttl_ms * 1000 > way + drift + 50_000 {
                prop_assert!(deadline > returned);
            }
        }
    }
}
