//! Only the owner can do anything to a lock.

use super::Service;
use super::asking::{LONG, SHORT, extended, freed, gone, granted, granted_soon, held, key, released};
use crate::claim::Released;
use crate::testing::claim;

/// A release that arrives twice, or late, frees nothing of anybody else.
pub async fn release_twice_is_harmless_also_when_somebody_else_holds_the_key(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("late");
    let (first, second) = (claim(&key, LONG), claim(&key, LONG));
    granted(&one, &first).await;
    freed(&one, &first).await;
    assert_eq!(released(&one, &first).await, Released::NotHeld);
    granted(&two, &second).await;
    assert_eq!(released(&one, &first).await, Released::NotHeld);
    held(&one, &claim(&key, LONG)).await;
    extended(&two, &second).await;
}

/// Knowing the key is not enough.
pub async fn a_stranger_can_neither_release_nor_renew(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("stranger");
    let (holder, stranger) = (claim(&key, LONG), claim(&key, LONG));
    granted(&one, &holder).await;
    assert_eq!(released(&two, &stranger).await, Released::NotHeld);
    gone(&two, &stranger).await;
    held(&two, &claim(&key, LONG)).await;
    extended(&one, &holder).await;
    freed(&one, &holder).await;
}

/// A lease still ends when it would have ended without the stranger.
pub async fn a_strangers_renewal_does_not_move_the_expiry(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("unmoved");
    granted(&one, &claim(&key, SHORT)).await;
    gone(&two, &claim(&key, LONG)).await;
    granted_soon(&two, &claim(&key, LONG)).await;
}
