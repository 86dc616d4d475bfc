//! What stays at the service.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::asking::{LONG, SOON, freed, granted, held, key, named, renewed, short};
use super::crowding::finished;
use super::{Service, Stored};
use crate::key::LockKey;
use crate::testing::{claim, waiting_claim};

/// How many keys are taken at the same time.
const WORKERS: u32 = 50;

/// As many as there are slots in a Redis cluster, each of which has a last token.
const MOST_SHARED: usize = 16_384;

/// Whatever is left of a lock, a queue or a message ends by itself, also if everybody dies now.
pub async fn nothing_is_stored_without_an_expiry(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let before = service.stored().await;
    let keys: Vec<LockKey> = (0..200).map(|_| key("kept")).collect();
    for (number, key) in keys.iter().enumerate() {
        let (holder, waiters) = (claim(key, LONG), [waiting_claim(key, LONG), waiting_claim(key, LONG)]);
        granted(&one, &holder).await;
        for waiter in &waiters {
            held(&two, waiter).await;
        }
        renewed(&one, &[&holder]).await;
        if number % 2 == 0 {
            freed(&one, &holder).await;
        }
    }
    let stored = service.stored().await;
    assert_eq!(stored.endless, before.endless, "this stays for ever: {stored:?}");
    assert!(stored.per_key >= before.per_key + keys.len() / 2, "held locks are not counted: {stored:?}");
}

/// Keys that are released and keys that expire are both forgotten.
pub async fn twenty_thousand_keys_leave_nothing_behind(service: &impl Service) {
    leave_nothing_behind(service, 20_000).await;
}

/// The same for as many keys as a busy week has.
pub async fn a_million_keys_leave_nothing_behind(service: &impl Service) {
    leave_nothing_behind(service, 1_000_000).await;
}

async fn leave_nothing_behind(service: &impl Service, keys: u32) {
    let client = Arc::new(service.client().await);
    let (before, unique, ttl) = (service.stored().await, key("many"), short(&*client));
    let mut tasks = JoinSet::new();
    for worker in 0..WORKERS {
        let (client, unique) = (Arc::clone(&client), unique.clone());
        tasks.spawn(async move {
            for number in (worker..keys).step_by(WORKERS as usize) {
                let name = named(&format!("{}:{number}", unique.as_str()));
                if number % 2 == 0 {
                    let owner = claim(&name, LONG);
                    granted(&*client, &owner).await;
                    freed(&*client, &owner).await;
                } else {
                    granted(&*client, &claim(&name, ttl)).await;
                }
            }
        });
    }
    finished(tasks).await;
    drop(client);
    let start = Instant::now();
    loop {
        let stored = service.stored().await;
        if is_back_to(before, stored) {
            break;
        }
        assert!(start.elapsed() < ttl + SOON, "of {keys} keys this is left: {stored:?}, after {before:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

fn is_back_to(before: Stored, stored: Stored) -> bool {
    stored.per_key <= before.per_key && stored.endless <= before.endless && stored.shared <= MOST_SHARED
}
