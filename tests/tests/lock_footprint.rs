//! What a lock that is held, and a caller that waits for one, take of their process's memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::alloc::System;
use std::future::Future as _;
use std::task::{Context, Waker};
use std::time::Duration;

use lockrt::{LockKey, LockManager, LockPolicy};
use lockrt_tests::RedisServer;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::task::JoinSet;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(300)).renew(Duration::from_secs(3_600));

/// Tables grow by doubling: at this number they are three quarters full, which is in between.
const LOCKS: usize = 12_500;
const WAITERS: usize = 2_000;

/// What this process has allocated and not given back.
fn live() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

fn key(number: usize) -> LockKey {
    LockKey::new(format!("footprint:{number:012}")).unwrap()
}

/// Bytes by lock, of so many that are held; their guards are the caller's.
async fn by_lock(manager: &LockManager) -> usize {
    let mut guards = Vec::with_capacity(LOCKS);
    let before = live();
    for first in (0..LOCKS).step_by(100) {
        let mut taking = JoinSet::new();
        for number in first..first + 100 {
            let manager = manager.clone();
            taking.spawn(async move { manager.acquire(&key(number), &POLICY).await.unwrap() });
        }
        guards.extend(taking.join_all().await);
    }
    let each = (live() - before) / LOCKS;
    assert_eq!(guards.len(), LOCKS);
    each
}

/// Bytes by waiter, of so many that wait for one key; their futures are the callers'.
async fn by_waiter(manager: &LockManager) -> usize {
    let waits = POLICY.wait_forever();
    // None of those that are held later: what is dropped here is given back behind.
    let key = key(LOCKS);
    let held = manager.acquire(&key, &POLICY).await.unwrap();
    let mut waiters: Vec<_> =
        (0..WAITERS).map(|_| Box::pin(async { manager.acquire(&key, &waits).await.map(drop) })).collect();
    let before = live();
    let mut nobody = Context::from_waker(Waker::noop());
    for waiter in &mut waiters {
        assert!(waiter.as_mut().poll(&mut nobody).is_pending(), "a waiter has not waited");
    }
    let each = (live() - before) / WAITERS;
    drop((waiters, held));
    each
}

#[tokio::test]
async fn a_lock_on_redis_takes_at_most_660_bytes_and_a_waiter_160() {
    let server = RedisServer::start();
    let manager = LockManager::from_url(&server.url()).await.unwrap();
    // First, since what is given back afterwards is cleaned up behind.
    let waiting = by_waiter(&manager).await;
    assert!(waiting <= 160, "{waiting} bytes for each waiter beside its future");
    let held = by_lock(&manager).await;
    assert!(held <= 660, "{held} bytes for each lock beside its guard");
}
