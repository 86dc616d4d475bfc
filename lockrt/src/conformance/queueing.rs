//! Waiting claims: their places, and the grants that a release may hand on to them.
//!
//! A backend may give the lock to a waiter while it releases it; the waiter's next attempt then
//! confirms that grant. One that does not is held to the same, since nothing here says who gets in.

use std::time::Duration;

use tokio::time::sleep;

use super::Service;
use super::asking::{
    LONG, extended, freed, granted, granted_within, held, key, not_held, released, rises, short,
};
use crate::backend::contract::Backend;
use crate::claim::Claim;
use crate::key::LockKey;
use crate::testing::{claim, waiting_claim};
use crate::token::FencingToken;

/// A waiter that has given up gets nothing later, also where waiters queue.
pub async fn a_released_waiter_stands_in_nobodys_way(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("queue");
    let (holder, waiter) = (claim(&key, LONG), waiting_claim(&key, LONG));
    granted(&one, &holder).await;
    for client in [&one, &two] {
        held(&two, &waiter).await;
        held(&two, &waiter).await;
        released(client, &waiter).await;
    }
    freed(&one, &holder).await;
    granted(&two, &claim(&key, LONG)).await;
}

/// A waiter that comes for its turn late, even after the turn has lapsed, gets a later token than
/// the holder before, and one grant.
pub async fn a_grant_that_is_confirmed_late_has_a_later_token(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let ttl = short(&one);
    for late in [Duration::ZERO, ttl / 4, ttl + Duration::from_millis(50)] {
        let (key, waiter, first) = released_to_a_waiter(&one, &two, ttl).await;
        sleep(late).await;
        let second = granted_within(ttl, &two, &waiter).await;
        rises(first, second);
        let next = claim(&key, LONG);
        held(&one, &next).await;
        freed(&two, &waiter).await;
        rises(second, granted(&one, &next).await);
    }
}

/// A waiter that confirms twice has one grant, and never a smaller token.
pub async fn a_grant_that_is_confirmed_twice_is_one_grant(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let (key, waiter, first) = released_to_a_waiter(&one, &two, LONG).await;
    let second = granted_within(Duration::ZERO, &two, &waiter).await;
    rises(first, second);
    let third = granted(&two, &waiter).await;
    let fourth = granted(&one, &waiter).await;
    assert!(second <= third && third <= fourth, "{second:?} {third:?} {fourth:?}");
    freed(&one, &waiter).await;
    not_held(&two, &waiter).await;
    rises(fourth, granted(&one, &claim(&key, LONG)).await);
}

/// A waiter that never comes for its turn holds up the others for its TTL at most, and can still be
/// cleaned up behind.
pub async fn a_grant_that_is_never_confirmed_ends_by_itself(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let ttl = short(&one);
    let (key, waiter, first) = released_to_a_waiter(&one, &two, ttl).await;
    let next = claim(&key, LONG);
    let second = granted_within(ttl, &one, &next).await;
    rises(first, second);
    released(&two, &waiter).await;
    extended(&one, &next).await;
    freed(&one, &next).await;
    // As its attempt would, if it came now.
    rises(second, granted_within(ttl, &two, &waiter).await);
}

/// A waiter that is released when it may have its turn already leaves the key to the others.
pub async fn a_waiter_that_gives_up_at_its_turn_frees_the_key(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let (key, waiter, first) = released_to_a_waiter(&one, &two, LONG).await;
    released(&one, &waiter).await;
    rises(first, granted(&one, &claim(&key, LONG)).await);
}

/// Who was there first is served first, where the backend says that it queues; strangers who come or
/// clean up, and holders who release twice, change no place. Without a queue, each gets in somehow.
pub async fn waiters_are_served_in_order_where_the_backend_says_so(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let (key, fair) = (key("order"), one.capabilities().is_fair());
    let mut holder = claim(&key, LONG);
    granted(&one, &holder).await;
    let waiters = [(); 4].map(|()| waiting_claim(&key, LONG));
    for waiter in &waiters {
        held(&two, waiter).await;
    }
    // Asking again is no loss of a place.
    held(&two, &waiters[0]).await;
    not_held(&two, &claim(&key, LONG)).await;
    for place in 0..waiters.len() {
        freed(&one, &holder).await;
        not_held(&one, &holder).await;
        if fair {
            held(&one, &claim(&key, LONG)).await;
            for later in &waiters[place + 1..] {
                held(&two, later).await;
            }
        }
        granted_within(Duration::ZERO, &two, &waiters[place]).await;
        holder = waiters[place].clone();
    }
    freed(&one, &holder).await;
}

/// A key whose holder has released it while a claim of this TTL waited, which has not asked since.
/// Gives also the holder's token.
async fn released_to_a_waiter<B: Backend>(
    one: &B,
    two: &B,
    ttl: Duration,
) -> (LockKey, Claim, Option<FencingToken>) {
    let key = key("handed");
    let (holder, waiter) = (claim(&key, LONG), waiting_claim(&key, ttl));
    let token = granted(one, &holder).await;
    held(two, &waiter).await;
    freed(one, &holder).await;
    (key, waiter, token)
}
