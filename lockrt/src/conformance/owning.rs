//! Only the owner can do anything to a lock.

use std::time::Duration;

use tokio::time::sleep;

use super::Service;
use super::asking::{LONG, extended, freed, gone, granted, granted_within, held, key, not_held, short};
use crate::backend::contract::Backend;
use crate::claim::Expiry;
use crate::testing::claim;

/// Knowing the key is not enough.
pub async fn a_stranger_can_neither_release_nor_renew(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("stranger");
    let (holder, stranger) = (claim(&key, LONG), claim(&key, LONG));
    granted(&one, &holder).await;
    not_held(&two, &stranger).await;
    gone(&two, &stranger).await;
    held(&two, &claim(&key, LONG)).await;
    extended(&one, &holder).await;
    freed(&one, &holder).await;
}

/// A lease still ends when it would have ended without the stranger.
pub async fn a_strangers_renewal_does_not_move_the_expiry(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let (key, ttl) = (key("unmoved"), short(&one));
    granted(&one, &claim(&key, ttl)).await;
    for _ in 0..3 {
        gone(&two, &claim(&key, LONG)).await;
        sleep(Duration::from_millis(5)).await;
    }
    if one.capabilities().expiry() == Expiry::PerSession {
        drop(one);
    }
    granted_within(ttl, &two, &claim(&key, LONG)).await;
}

/// Renewing is no way to a lock.
pub async fn a_renewal_without_a_grant_is_gone_and_takes_nothing(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("unowned");
    let (never, former) = (claim(&key, LONG), claim(&key, LONG));
    gone(&one, &never).await;
    granted(&one, &former).await;
    freed(&one, &former).await;
    for claim in [&never, &former] {
        gone(&one, claim).await;
    }
    granted(&two, &claim(&key, LONG)).await;
}
