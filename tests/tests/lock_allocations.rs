//! What a lock that nobody else wants costs its process in allocations, on a connection that is used for it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::alloc::System;
use std::time::Duration;

use lockrt::{LockManager, LockPolicy, Released};
use lockrt_tests::{RedisServer, key};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(30));

/// What the labels of the numbers take that feature `metrics` tells of a lock; these tests have it.
const NUMBERS: usize = 8;

/// How many cycles are counted together, and how often; what else goes on in the process is not in all of them.
const CYCLES: usize = 200;
const ROUNDS: usize = 7;

/// The least of several rounds, of allocations and of bytes that stay, by cycle.
async fn counted(manager: &LockManager) -> (usize, isize) {
    let lock = key("orders:7");
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let region = Region::new(ALLOCATOR);
        for _ in 0..CYCLES {
            let guard = manager.acquire(&lock, &POLICY).await.unwrap();
            assert_eq!(guard.release().await, Released::Freed);
        }
        let change = region.change();
        let stays = isize::try_from(change.bytes_allocated).unwrap()
            - isize::try_from(change.bytes_deallocated).unwrap();
        rounds.push((
            (change.allocations + change.reallocations + CYCLES / 2) / CYCLES,
            stays / isize::try_from(CYCLES).unwrap(),
        ));
    }
    // The first rounds make what the later ones use again.
    rounds.into_iter().min().unwrap()
}

#[tokio::test]
async fn a_lock_on_redis_is_at_most_nineteen_allocations_beside_its_numbers() {
    let server = RedisServer::start();
    let manager = LockManager::from_url(&server.url()).await.unwrap();
    let (allocations, stays) = counted(&manager).await;
    assert!(allocations <= 19 + NUMBERS, "{allocations} allocations to acquire and release");
    assert_eq!(stays, 0, "bytes stay behind");
}

#[tokio::test]
async fn a_lock_in_memory_is_at_most_twelve_allocations_beside_its_numbers() {
    let manager = LockManager::from_url("memory:").await.unwrap();
    let (allocations, stays) = counted(&manager).await;
    assert!(allocations <= 12 + NUMBERS, "{allocations} allocations to acquire and release");
    assert_eq!(stays, 0, "bytes stay behind");
}
