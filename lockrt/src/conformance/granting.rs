//! Who gets a lock, and who does not.

use std::time::Duration;

use tokio::time::Instant;

use super::Service;
use super::asking::{LONG, SHORT, freed, granted, held, key, released};
use crate::backend::contract::Backend;
use crate::claim::Released;
use crate::testing::{claim, waiting_claim};

/// A free key is granted; a second owner is `Held`, and does not wait for that answer.
pub async fn a_free_key_is_granted_and_a_second_owner_is_held_at_once(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("granted");
    granted(&one, &claim(&key, LONG)).await;
    // The first call of a client may have to connect.
    held(&two, &claim(&key, LONG)).await;
    let start = Instant::now();
    held(&two, &claim(&key, LONG)).await;
    held(&one, &claim(&key, LONG)).await;
    assert!(start.elapsed() < Duration::from_secs(1), "an attempt has waited for the holder");
}

/// A failed attempt, even with a longer TTL, leaves value and expiry of the holder as they were.
pub async fn a_failed_attempt_changes_nothing_for_the_holder_and_leaves_nothing_behind(
    service: &impl Service,
) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("untouched");
    let holder = claim(&key, LONG);
    let first = granted(&one, &holder).await;
    let contender = claim(&key, LONG * 10);
    let free_in = held(&two, &contender).await;
    assert!(free_in.is_none_or(|free_in| free_in <= LONG), "the holder's lease has grown: {free_in:?}");
    let again = held(&two, &contender).await;
    assert!(again <= free_in, "the holder's lease has grown from {free_in:?} to {again:?}");
    assert_eq!(released(&two, &contender).await, Released::NotHeld);
    freed(&one, &holder).await;
    let next = granted(&two, &claim(&key, LONG)).await;
    assert!(next > first || next.is_none());
}

/// Repeating an attempt whose answer was lost is no second grant: one release frees it.
pub async fn the_same_claim_twice_is_one_grant(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("twice");
    let owner = claim(&key, LONG);
    let first = granted(&one, &owner).await;
    let second = granted(&one, &owner).await;
    let third = granted(&two, &owner).await;
    assert!(first <= second && second <= third, "{first:?} {second:?} {third:?}");
    freed(&one, &owner).await;
    assert_eq!(released(&two, &owner).await, Released::NotHeld);
    granted(&two, &claim(&key, LONG)).await;
}

/// A repeated attempt gives the whole TTL, as its answer promises.
pub async fn a_repeated_attempt_starts_the_ttl_again(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("again");
    let owner = claim(&key, SHORT);
    granted(&one, &owner).await;
    let start = Instant::now();
    while start.elapsed() < SHORT * 2 {
        tokio::time::sleep(SHORT / 8).await;
        // First the contender: a repetition after the lease's end would be a new grant.
        held(&two, &claim(&key, LONG)).await;
        granted(&one, &owner).await;
    }
}

/// Ten rounds, in each of which a contender is refused first.
pub async fn release_lets_the_next_one_in_ten_rounds_in_a_row(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("rounds");
    for _ in 0..10 {
        let (first, second) = (claim(&key, LONG), claim(&key, LONG));
        granted(&one, &first).await;
        held(&two, &second).await;
        freed(&one, &first).await;
        granted(&two, &second).await;
        freed(&two, &second).await;
    }
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
    assert_eq!(released(&one, &claim(&key, LONG)).await, Released::NotHeld);
    let holder = claim(&key, LONG);
    granted(&one, &holder).await;
    assert_eq!(released(&two, &claim(&key, LONG)).await, Released::NotHeld);
    held(&two, &claim(&key, LONG)).await;
    freed(&one, &holder).await;
}

/// A waiter that has given up gets nothing later, also where waiters queue.
pub async fn a_released_waiter_stands_in_nobodys_way(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("queue");
    let (holder, waiter) = (claim(&key, LONG), waiting_claim(&key, LONG));
    granted(&one, &holder).await;
    held(&two, &waiter).await;
    released(&one, &waiter).await;
    freed(&one, &holder).await;
    granted(&two, &claim(&key, LONG)).await;
}
