//! Calls that are on their way while a lease ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::asking::{LONG, attempted, extended, granted, key, released, renewed, short};
use super::crowding::{PATIENCE, finished};
use super::{Fault, Power};
use crate::backend::contract::Backend;
use crate::claim::{Attempt, Claim, Renewed};
use crate::testing::claim;

/// How long before the end of its lease the holder calls. The service is slower than any of these.
const EARLY_MS: [u64; 5] = [50, 100, 150, 200, 250];

/// Looking who has the lock and doing something to it is one step at the service: when a slow call
/// arrives as its lease ends, the next holder keeps the lock, and no two are told that they have it.
pub async fn a_call_that_arrives_as_its_lease_ends_spares_the_next_holder(service: &impl Power) {
    let [one, two] = [service.client().await, service.client().await].map(Arc::new);
    for client in [&one, &two] {
        granted(&**client, &claim(&key("connected"), LONG)).await;
    }
    service.inflict(Fault::Slow).await;
    let mut tasks = JoinSet::new();
    for early in EARLY_MS.map(Duration::from_millis) {
        tasks.spawn(released_as_it_ends(Arc::clone(&one), Arc::clone(&two), early));
        tasks.spawn(renewed_as_it_ends(Arc::clone(&one), Arc::clone(&two), early));
    }
    finished(tasks, PATIENCE).await;
    service.heal().await;
}

async fn released_as_it_ends<B: Backend>(one: Arc<B>, two: Arc<B>, early: Duration) {
    let (holder, asking) = asked_for_as_it_ends(&*one, &two, early).await;
    released(&*one, &holder).await;
    match next_holder(asking).await {
        Some((next, _)) => extended(&*two, &next).await,
        None => drop(granted(&*two, &claim(holder.key(), LONG)).await),
    }
}

async fn renewed_as_it_ends<B: Backend>(one: Arc<B>, two: Arc<B>, early: Duration) {
    let (holder, asking) = asked_for_as_it_ends(&*one, &two, early).await;
    let sent = Instant::now();
    let extended = matches!(renewed(&*one, &[&holder]).await[..], [Renewed::Extended]);
    if let Some((_, answered)) = next_holder(asking).await.filter(|_| extended) {
        // Later than that, on a machine that has stalled, the renewed lease may be over.
        assert!(
            answered > sent + holder.ttl(),
            "two are told that they have the lock, {early:?} before its end"
        );
    }
}

/// Attempts, each by another owner; who was granted, and when that was known.
type Attempts = JoinSet<Option<(Claim, Instant)>>;

/// A lease that ends in `early`, and the attempts of others around that moment, which have begun.
async fn asked_for_as_it_ends<B: Backend>(one: &B, two: &Arc<B>, early: Duration) -> (Claim, Attempts) {
    let (lock, ttl) = (key("ends"), short(one));
    let holder = claim(&lock, ttl);
    let end = Instant::now() + ttl;
    granted(one, &holder).await;
    let mut attempts = JoinSet::new();
    // None waits for another, so that some arrive soon after the end.
    for number in 0..16 {
        let (two, next) = (Arc::clone(two), claim(&lock, LONG));
        attempts.spawn(async move {
            sleep_until(end + Duration::from_millis(25) * number).await;
            let granted = matches!(attempted(&*two, &next).await, Attempt::Granted { .. });
            granted.then(|| (next, Instant::now()))
        });
    }
    sleep_until(end - early).await;
    (holder, attempts)
}

/// Who was granted the lock, which does not end again.
async fn next_holder(attempts: Attempts) -> Option<(Claim, Instant)> {
    let mut granted: Vec<_> = attempts.join_all().await.into_iter().flatten().collect();
    assert!(granted.len() <= 1, "{} owners have the lock at the same time", granted.len());
    granted.pop()
}
