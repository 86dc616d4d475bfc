//! Wake-ups: hints that save a waiter the time until its next look.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, sleep, timeout};

use super::asking::{LONG, attempted, freed, granted, granted_within, held, key, released, short, soon};
use super::unanswered::answered_again;
use super::{Fault, Power, Service};
use crate::backend::contract::Backend;
use crate::claim::{Attempt, Claim};
use crate::testing::{claim, waiting_claim};

/// How long a waiter listens before it looks again by itself.
const POLL: Duration = Duration::from_millis(200);

/// With a lease of a minute only a wake-up can be this quick; without wake-ups one looks again.
pub async fn a_waiter_wakes_soon_after_a_release(service: &impl Service) {
    let (one, two) = (service.client().await, Arc::new(service.client().await));
    let key = key("wake");
    let (holder, waiter) = (claim(&key, LONG), waiting_claim(&key, LONG));
    granted(&one, &holder).await;
    held(&*two, &waiter).await;
    let waiting = listening(&two, &waiter);
    sleep(Duration::from_millis(50)).await;
    freed(&one, &holder).await;
    if one.capabilities().wakes() {
        assert!(soon("a wake-up", waiting).await.is_ok());
    } else {
        waiting.abort();
    }
    granted_within(Duration::ZERO, &*two, &waiter).await;
}

/// A release between a refused attempt and the wait that follows must not be missed.
pub async fn a_release_at_any_moment_of_a_waiters_round_wakes_it(service: &impl Service) {
    let (one, two) = (service.client().await, Arc::new(service.client().await));
    let poll = if one.capabilities().wakes() { LONG } else { Duration::from_millis(5) };
    let key = key("race");
    for round in 0..200 {
        let (holder, waiter) = (claim(&key, LONG), waiting_claim(&key, LONG));
        granted_within(Duration::ZERO, &one, &holder).await;
        let waiting = tokio::spawn({
            let (two, waiter) = (Arc::clone(&two), waiter.clone());
            async move {
                while let Attempt::Held { .. } = attempted(&*two, &waiter).await {
                    let _ = timeout(poll, two.freed(&waiter)).await;
                }
            }
        });
        // Over the first round trips of a local server; a sleep would be a millisecond at least.
        for _ in 0..round {
            yield_now().await;
        }
        freed(&one, &holder).await;
        assert!(soon("a waiter that has slept through a release", waiting).await.is_ok());
        freed(&*two, &waiter).await;
    }
}

/// Giving up a wait at any moment changes nothing, for the key and for other waiters.
pub async fn dropping_a_wait_has_no_effect(service: &impl Service) {
    let (one, two) = (service.client().await, Arc::new(service.client().await));
    let key = key("dropped");
    let (holder, waiter) = (claim(&key, LONG), waiting_claim(&key, LONG));
    granted(&one, &holder).await;
    let waiting = listening(&two, &waiting_claim(&key, LONG));
    for _ in 0..50 {
        held(&*two, &waiter).await;
        let _ = timeout(Duration::from_micros(300), two.freed(&waiter)).await;
    }
    released(&*two, &waiter).await;
    freed(&one, &holder).await;
    if one.capabilities().wakes() {
        assert!(soon("the wake-up of another waiter", waiting).await.is_ok());
    } else {
        waiting.abort();
    }
    granted(&*two, &claim(&key, LONG)).await;
}

/// Nobody tells of an expiry; the time that a refusal names, if any, is enough.
pub async fn a_waiter_without_a_wake_up_gets_in_when_the_lease_ends(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let (key, ttl) = (key("silent"), short(&one));
    granted(&one, &claim(&key, ttl)).await;
    let waiter = waiting_claim(&key, LONG);
    let free_in = held(&two, &waiter).await.unwrap_or(ttl);
    assert!(free_in <= ttl, "{free_in:?} are left of {ttl:?}");
    drop(one);
    let _ = timeout(free_in, two.freed(&waiter)).await;
    granted_within(ttl, &two, &waiter).await;
}

/// A waiter that nobody wakes is let in at its next look by itself.
pub async fn a_lost_wake_up_costs_a_bounded_poll_and_no_more(service: &impl Power) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("unheard");
    let (holder, waiter) = (claim(&key, LONG), waiting_claim(&key, LONG));
    granted(&one, &holder).await;
    held(&two, &waiter).await;
    service.inflict(Fault::NoWakeUps).await;
    let entering = async {
        while let Attempt::Held { .. } = attempted(&two, &waiter).await {
            let _ = timeout(POLL, two.freed(&waiter)).await;
        }
        Instant::now()
    };
    let freeing = async {
        sleep(POLL / 2).await;
        freed(&one, &holder).await;
        Instant::now()
    };
    let (entry, release) = soon("a waiter's turn", async { tokio::join!(entering, freeing) }).await;
    let late = entry.saturating_duration_since(release);
    // Slack for a machine that does other work too.
    assert!(late <= POLL + Duration::from_secs(1), "it took {late:?}");
    service.heal().await;
    freed(&two, &waiter).await;
}

/// A client that listens, and lost its connection meanwhile, hears of releases again.
pub async fn a_waiter_wakes_also_after_a_restart(service: &impl Power) {
    let (one, two) = (service.client().await, Arc::new(service.client().await));
    let (before, after) = (key("before"), key("after"));
    let (holder, waiter) = (claim(&before, LONG), waiting_claim(&before, LONG));
    granted(&one, &holder).await;
    held(&*two, &waiter).await;
    let waiting = listening(&two, &waiter);
    service.inflict(Fault::Down).await;
    service.heal().await;
    waiting.abort();
    let (holder, waiter) = (claim(&after, LONG), waiting_claim(&after, LONG));
    answered_again(&one, &holder).await;
    answered_again(&*two, &claim(&key("probe"), LONG)).await;
    held(&*two, &waiter).await;
    let waiting = listening(&two, &waiter);
    sleep(Duration::from_millis(50)).await;
    freed(&one, &holder).await;
    if one.capabilities().wakes() {
        assert!(soon("a wake-up", waiting).await.is_ok());
    } else {
        waiting.abort();
    }
    granted_within(Duration::ZERO, &*two, &waiter).await;
}

fn listening<B: Backend>(client: &Arc<B>, waiter: &Claim) -> JoinHandle<()> {
    let (client, waiter) = (Arc::clone(client), waiter.clone());
    tokio::spawn(async move { client.freed(&waiter).await })
}
