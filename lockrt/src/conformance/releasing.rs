//! What a release frees, and what it spares.

use super::Service;
use super::asking::{LONG, ended, extended, freed, granted, granted_within, held, key, not_held, short};
use crate::backend::contract::Backend;
use crate::testing::claim;

/// A release that arrives twice, or late, frees nothing of anybody else.
pub async fn release_twice_is_harmless_also_when_somebody_else_holds_the_key(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("late");
    let (first, second) = (claim(&key, LONG), claim(&key, LONG));
    granted(&one, &first).await;
    freed(&one, &first).await;
    not_held(&one, &first).await;
    granted(&two, &second).await;
    not_held(&one, &first).await;
    held(&one, &claim(&key, LONG)).await;
    extended(&two, &second).await;
}

/// A holder that comes too late frees nothing, neither before nor after the next one is in.
pub async fn a_release_after_expiry_spares_the_next_holder(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let (key, ttl) = (key("expired"), short(&one));
    let (first, second) = (claim(&key, ttl), claim(&key, LONG));
    granted(&one, &first).await;
    let one = ended(service, one, ttl).await;
    not_held(&one, &first).await;
    granted_within(ttl, &two, &second).await;
    not_held(&one, &first).await;
    held(&one, &claim(&key, LONG)).await;
    extended(&two, &second).await;
}

/// Whoever knows the claim can clean up behind it, from any client.
pub async fn releasing_a_grant_that_nobody_saw_frees_it(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("unseen");
    let lost = claim(&key, LONG);
    drop(one.try_acquire(&lost).await);
    freed(&two, &lost).await;
    granted(&two, &claim(&key, LONG)).await;
}

/// A claim that was never granted has nothing to free, and frees nothing.
pub async fn releasing_a_claim_that_was_never_granted_spares_the_holder(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("never");
    not_held(&one, &claim(&key, LONG)).await;
    let holder = claim(&key, LONG);
    granted(&one, &holder).await;
    let refused = claim(&key, LONG);
    held(&two, &refused).await;
    for claim in [refused, claim(&key, LONG)] {
        not_held(&two, &claim).await;
    }
    held(&two, &claim(&key, LONG)).await;
    freed(&one, &holder).await;
}
