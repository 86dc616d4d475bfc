//! Many clients that want the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Service;
use super::asking::{LONG, attempted, freed, key};
use crate::backend::contract::Backend;
use crate::claim::{Attempt, Claim};
use crate::testing::waiting_claim;

const CLIENTS: usize = 8;
const INCREMENTS: u64 = 25;
const CONTENDERS: usize = 100;

/// Read, sleep, write: each increment that runs beside another one is lost.
pub async fn a_counter_under_two_keys_is_exact(service: &impl Service) {
    let counters = [key("left"), key("right")].map(|key| (key, Arc::new(AtomicU64::new(0))));
    let refused = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..CLIENTS {
        let (client, counters, refused) = (service.client().await, counters.clone(), Arc::clone(&refused));
        tasks.spawn(async move {
            for round in 0..INCREMENTS * 2 {
                let (key, counter) = &counters[usize::from(round % 2 == 0)];
                let owner = waiting_claim(key, LONG);
                refused.fetch_add(entered(&client, &owner).await, Ordering::SeqCst);
                let read = counter.load(Ordering::SeqCst);
                sleep(Duration::from_millis(1)).await;
                counter.store(read + 1, Ordering::SeqCst);
                freed(&client, &owner).await;
            }
        });
    }
    finished(tasks).await;
    for (_, counter) in counters {
        assert_eq!(counter.load(Ordering::SeqCst), INCREMENTS * CLIENTS as u64);
    }
    assert!(refused.load(Ordering::SeqCst) > CLIENTS, "the clients have not met, so nothing was shown");
}

/// One key, a hundred who want it, two clients.
pub async fn a_hundred_contenders_are_never_two_inside_and_all_get_done(service: &impl Service) {
    let clients = [Arc::new(service.client().await), Arc::new(service.client().await)];
    let (key, inside, done) = (key("crowd"), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for number in 0..CONTENDERS {
        let client = Arc::clone(&clients[number % 2]);
        let (key, inside, done) = (key.clone(), Arc::clone(&inside), Arc::clone(&done));
        tasks.spawn(async move {
            let owner = waiting_claim(&key, LONG);
            entered(&*client, &owner).await;
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
            sleep(Duration::from_millis(1)).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            freed(&*client, &owner).await;
            done.fetch_add(1, Ordering::SeqCst);
        });
    }
    finished(tasks).await;
    assert_eq!(done.load(Ordering::SeqCst), CONTENDERS);
}

/// Waits for the lock as a lock does: a wake-up, or a bounded time, then another attempt. Gives how
/// often it was refused.
async fn entered(client: &impl Backend, owner: &Claim) -> usize {
    let mut refused = 0;
    while let Attempt::Held { .. } = attempted(client, owner).await {
        refused += 1;
        let _ = timeout(Duration::from_millis(50), client.freed(owner)).await;
    }
    refused
}

/// Waits for all tasks, and fails with the first that fails.
pub(super) async fn finished(mut tasks: JoinSet<()>) {
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                panic!("a contender has failed: {error}");
            }
        }
    };
    assert!(timeout(Duration::from_secs(90), all).await.is_ok(), "contenders are stuck");
}
