//! Wake-ups: hints that save a waiter the time until its next look.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use super::Service;
use super::asking::{LONG, SHORT, freed, granted, granted_soon, held, key, soon};
use crate::backend::contract::Backend;
use crate::testing::{claim, waiting_claim};

/// With a lease of a minute, only a wake-up can be this quick.
pub async fn a_waiter_wakes_soon_after_a_release(service: &impl Service) {
    let (one, two) = (service.client().await, Arc::new(service.client().await));
    if !one.capabilities().wakes() {
        return;
    }
    let key = key("wake");
    let (holder, waiter) = (claim(&key, LONG), waiting_claim(&key, LONG));
    granted(&one, &holder).await;
    held(&*two, &waiter).await;
    let waiting = tokio::spawn({
        let (two, waiter) = (Arc::clone(&two), waiter.clone());
        async move { two.freed(&waiter).await }
    });
    sleep(Duration::from_millis(50)).await;
    freed(&one, &holder).await;
    let woken = soon("a wake-up", waiting).await;
    assert!(woken.is_ok());
    granted_soon(&*two, &waiter).await;
}

/// A release between a refused attempt and the wait that follows must not be missed.
pub async fn a_release_at_any_moment_of_a_waiters_round_wakes_it(service: &impl Service) {
    let (one, two) = (service.client().await, Arc::new(service.client().await));
    if !one.capabilities().wakes() {
        return;
    }
    let key = key("race");
    for round in 0..200_u64 {
        let (holder, waiter) = (claim(&key, LONG), waiting_claim(&key, LONG));
        granted_soon(&one, &holder).await;
        let waiting = tokio::spawn({
            let (two, waiter) = (Arc::clone(&two), waiter.clone());
            async move {
                while let Ok(crate::Attempt::Held { .. }) = two.try_acquire(&waiter).await {
                    two.freed(&waiter).await;
                }
            }
        });
        // Over the first round trips of a local server; a sleep would be a millisecond at least.
        let (start, moment) = (Instant::now(), Duration::from_micros(round * 3));
        while start.elapsed() < moment {
            yield_now().await;
        }
        freed(&one, &holder).await;
        assert!(soon("a waiter's turn", waiting).await.is_ok());
        freed(&*two, &waiter).await;
    }
}

/// Giving up a wait at any moment changes nothing, for the key and for other waiters.
pub async fn dropping_a_wait_has_no_effect(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("dropped");
    let (holder, waiter) = (claim(&key, LONG), waiting_claim(&key, LONG));
    granted(&one, &holder).await;
    for _ in 0..50 {
        held(&two, &waiter).await;
        let _ = timeout(Duration::from_micros(300), two.freed(&waiter)).await;
    }
    drop(two.release(&waiter).await);
    freed(&one, &holder).await;
    granted(&two, &claim(&key, LONG)).await;
}

/// Nobody tells of an expiry; the time that a refusal names, if any, is enough.
pub async fn a_waiter_without_a_wake_up_gets_in_when_the_lease_ends(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("silent");
    granted(&one, &claim(&key, SHORT)).await;
    let waiter = waiting_claim(&key, LONG);
    let free_in = held(&two, &waiter).await.unwrap_or(SHORT);
    assert!(free_in <= SHORT, "{free_in:?} are left of {SHORT:?}");
    let _ = timeout(free_in, two.freed(&waiter)).await;
    granted_soon(&two, &waiter).await;
}
