//! Who gets a lock, and who does not.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::Service;
use super::asking::{
    LONG, ROUNDING, SOON, attempted, freed, granted, granted_within, held, key, not_held, rises, short,
};
use crate::backend::contract::Backend;
use crate::claim::{Attempt, Expiry};
use crate::testing::claim;

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

/// Of attempts that are made at the same moment one is granted, whatever they do to each other.
pub async fn of_many_attempts_at_once_one_is_granted(service: &impl Service) {
    let mut clients = Vec::new();
    for _ in 0..8 {
        let client = Arc::new(service.client().await);
        freed_after_grant(&*client).await;
        clients.push(client);
    }
    for _ in 0..50 {
        let key = key("race");
        let mut attempts = JoinSet::new();
        for client in &clients {
            let (client, owner) = (Arc::clone(client), claim(&key, LONG));
            attempts.spawn(async move { attempted(&*client, &owner).await });
        }
        let answers = attempts.join_all().await;
        let granted = answers.iter().filter(|answer| matches!(answer, Attempt::Granted { .. }));
        assert_eq!(granted.count(), 1, "{answers:?}");
    }
}

/// A failed attempt, even with a longer TTL, leaves value and expiry of the holder as they were.
pub async fn a_failed_attempt_changes_nothing_for_the_holder_and_leaves_nothing_behind(
    service: &impl Service,
) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("untouched");
    let holder = claim(&key, LONG);
    let first = granted(&one, &holder).await;
    let stored = service.stored().await;
    let contender = claim(&key, LONG * 10);
    let free_in = held(&two, &contender).await;
    assert!(free_in.is_none_or(|free_in| free_in <= LONG), "the holder's lease has grown: {free_in:?}");
    let again = held(&two, &contender).await;
    assert!(again <= free_in, "the holder's lease has grown from {free_in:?} to {again:?}");
    assert_eq!(service.stored().await, stored, "a failed attempt has left something behind");
    not_held(&two, &contender).await;
    freed(&one, &holder).await;
    rises(first, granted(&two, &claim(&key, LONG)).await);
}

/// Whoever asks in vain, and for how long, moves no expiry.
pub async fn failed_attempts_neither_end_nor_extend_a_lease(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let (key, ttl) = (key("asked"), short(&one));
    let start = Instant::now();
    granted(&one, &claim(&key, ttl)).await;
    if one.capabilities().expiry() == Expiry::PerSession {
        drop(one);
    }
    let mut refused = 0;
    while let Attempt::Held { free_in } = attempted(&two, &claim(&key, LONG)).await {
        refused += 1;
        assert!(free_in.is_none_or(|free_in| free_in <= ttl), "{free_in:?} are left of {ttl:?}");
        assert!(start.elapsed() < ttl + SOON, "the lease does not end");
        sleep(Duration::from_millis(5)).await;
    }
    let lasted = start.elapsed() + ROUNDING;
    assert!(
        refused > 0 && (lasted >= ttl || two.capabilities().expiry() == Expiry::PerSession),
        "{lasted:?}"
    );
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
    not_held(&two, &owner).await;
    rises(third, granted(&two, &claim(&key, LONG)).await);
}

/// A repeated attempt gives the whole TTL, as its answer promises.
pub async fn a_repeated_attempt_starts_the_ttl_again(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let (key, ttl) = (key("again"), short(&one));
    let owner = claim(&key, ttl);
    granted(&one, &owner).await;
    let start = Instant::now();
    while start.elapsed() < ttl * 2 {
        sleep(ttl / 8).await;
        // First the contender: a repetition after the lease's end would be a new grant.
        held(&two, &claim(&key, LONG)).await;
        granted(&one, &owner).await;
    }
    if one.capabilities().expiry() == Expiry::PerSession {
        drop(one);
    }
    granted_within(ttl, &two, &claim(&key, LONG)).await;
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
        held(&one, &claim(&key, LONG)).await;
        freed(&two, &second).await;
    }
}

/// One round on a key of its own, so that a client is connected.
async fn freed_after_grant(client: &impl Backend) {
    let owner = claim(&key("connected"), LONG);
    granted(client, &owner).await;
    freed(client, &owner).await;
}
