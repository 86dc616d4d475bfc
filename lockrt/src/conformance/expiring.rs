//! When a lease ends.

use tokio::time::{Instant, sleep};

use super::Service;
use super::asking::{
    LONG, ROUNDING, SOON, ended, extended, freed, gone, granted, granted_within, held, key, short,
};
use crate::backend::contract::Backend;
use crate::claim::Expiry;
use crate::testing::claim;

/// A lease lasts for its TTL, then ends by itself.
pub async fn expiry_lets_the_next_one_in_and_not_before(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let (key, ttl) = (key("expiry"), short(&one));
    let start = Instant::now();
    granted(&one, &claim(&key, ttl)).await;
    if one.capabilities().expiry() == Expiry::PerSession {
        // It lasts as long as its session, however long that is.
        sleep(ttl).await;
        held(&two, &claim(&key, LONG)).await;
        drop(one);
    }
    granted_within(ttl, &two, &claim(&key, LONG)).await;
    let lasted = start.elapsed() + ROUNDING;
    assert!(lasted >= ttl, "the lease ended after {lasted:?} of {ttl:?}");
}

/// A lease that is renewed outlives its first TTL.
pub async fn renewal_moves_the_expiry(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let (key, ttl) = (key("moved"), short(&one));
    let owner = claim(&key, ttl);
    granted(&one, &owner).await;
    let start = Instant::now();
    while start.elapsed() < ttl * 2 {
        extended(&one, &owner).await;
        held(&two, &claim(&key, LONG)).await;
        sleep(ttl / 8).await;
    }
    freed(&one, &owner).await;
}

/// Ten renewals in a row give one TTL, and a shorter one makes the lease shorter.
pub async fn renewal_sets_the_remaining_time_and_does_not_add_to_it(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let (added, shortened) = (key("added"), key("shortened"));
    let ttl = short(&one);
    let (owner, other) = (claim(&added, ttl), claim(&shortened, LONG));
    granted(&one, &owner).await;
    granted(&one, &other).await;
    for _ in 0..20 {
        extended(&one, &owner).await;
    }
    extended(&one, &other.with_ttl(ttl)).await;
    let start = Instant::now();
    if one.capabilities().expiry() == Expiry::PerSession {
        drop(one);
    }
    for key in [added, shortened] {
        granted_within(ttl, &two, &claim(&key, LONG)).await;
    }
    assert!(start.elapsed() < ttl + SOON, "renewals have added up to {:?}", start.elapsed());
}

/// Nothing brings an ended lease back.
pub async fn renewal_after_expiry_is_gone_and_does_not_create_the_key(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let (key, ttl) = (key("ended"), short(&one));
    let owner = claim(&key, ttl);
    granted(&one, &owner).await;
    let one = ended(service, one, ttl).await;
    gone(&one, &owner).await;
    gone(&two, &owner.with_ttl(LONG)).await;
    granted(&two, &claim(&key, LONG)).await;
}

/// A renewal that comes too late does nothing to who holds the key by then.
pub async fn renewal_after_expiry_spares_the_next_holder(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let (key, ttl) = (key("next"), short(&one));
    let (first, second) = (claim(&key, ttl), claim(&key, LONG));
    granted(&one, &first).await;
    let one = ended(service, one, ttl).await;
    granted_within(ttl, &two, &second).await;
    gone(&one, &first).await;
    extended(&two, &second).await;
    held(&one, &first).await;
    freed(&two, &second).await;
}
