//! Leases that were waited for: their life counts from the grant.
use crate::support::{Act, What, ms, wish, world};
use ringfence_client::{Hold, KeepAlive};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_waited_for_is_not_over_at_birth_and_not_good_for_too_long() {
    let world = world();
    world.cluster.free_at(Instant::now() + ms(8000));
    world.cluster.script(|seen| match seen.what {
        What::Acquire => Act::Slow { there: ms(0), back: ms(1500) },
        _ => Act::Answer,
    });
    let mut wish = wish("svc/orders", 5000);
    wish.wait_ms = Some(20_000);
    let hold = Hold::new(wish, KeepAlive::default()).unwrap();
    let lease = world.client.hold(hold).await.unwrap();
    let remaining = lease.remaining();
    assert!(remaining >= ms(3450 - 250) && remaining <= ms(3500), "{remaining:?}");
    assert!(world.cluster.is_held(lease.id()));
}
