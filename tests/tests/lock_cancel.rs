//! An acquire that is dropped leaves nothing behind.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::Duration;

use lockrt::{LockKey, LockPolicy, OnCancel, Released};
use lockrt_tests::{Setup, on_each_backend, polled, settled, until};
use tokio::time::sleep;

/// So long that a key which is free soon was released.
const LONG: LockPolicy = LockPolicy::new(Duration::from_secs(60));
const WAIT: LockPolicy = LONG.wait(Duration::from_millis(200));

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

on_each_backend! {
    an_acquire_of_a_free_key_that_is_dropped_at_any_poll_leaves_nothing,
    a_wait_for_a_free_key_that_is_dropped_at_any_poll_leaves_nothing,
    an_acquire_of_a_held_key_that_is_dropped_at_any_poll_leaves_nothing,
    a_wait_for_a_held_key_that_is_dropped_at_any_poll_leaves_nothing,
    an_acquire_that_is_dropped_leaves_nothing_even_if_cancellation_keeps_keys,
    an_acquire_that_is_dropped_leaves_nothing_even_if_keys_are_held_for_a_minimum,
}

/// Drops an acquire after its first poll, its second, and so on until it is ready, both at once
/// and after the answers have come that it never sees. `others` is how many locks others hold.
async fn dropped_at_any_poll(setup: &impl Setup, policy: &LockPolicy, others: usize) -> usize {
    let mut most = 0;
    for linger in [Duration::ZERO, Duration::from_millis(20)] {
        for polls in 0.. {
            let manager = setup.manager();
            let acquire = manager.acquire(&KEY, policy);
            let ended = polled(polls, acquire, async {
                if !linger.is_zero() {
                    sleep(linger).await;
                }
            });
            let ended = ended.await.is_some();
            settled(manager, &format!("dropped after {polls} polls")).await;
            assert_eq!(setup.held().await, others, "dropped after {polls} polls, lingered {linger:?}");
            if ended {
                most = most.max(polls);
                break;
            }
        }
    }
    most
}

async fn an_acquire_of_a_free_key_that_is_dropped_at_any_poll_leaves_nothing(setup: &impl Setup) {
    assert!(dropped_at_any_poll(setup, &LONG, 0).await >= 2);
}

async fn a_wait_for_a_free_key_that_is_dropped_at_any_poll_leaves_nothing(setup: &impl Setup) {
    assert!(dropped_at_any_poll(setup, &WAIT, 0).await >= 2);
}

async fn an_acquire_of_a_held_key_that_is_dropped_at_any_poll_leaves_nothing(setup: &impl Setup) {
    let holder = setup.manager().acquire(&KEY, &LONG).await.unwrap();
    assert!(dropped_at_any_poll(setup, &LONG, 1).await >= 2);
    assert_eq!(holder.release().await, Released::Freed);
}

async fn a_wait_for_a_held_key_that_is_dropped_at_any_poll_leaves_nothing(setup: &impl Setup) {
    let holder = setup.manager().acquire(&KEY, &LONG).await.unwrap();
    assert!(dropped_at_any_poll(setup, &WAIT, 1).await >= 3, "attempt, pause, end");
    assert_eq!(holder.release().await, Released::Freed);
}

async fn an_acquire_that_is_dropped_leaves_nothing_even_if_cancellation_keeps_keys(setup: &impl Setup) {
    dropped_before_its_body(setup, &LONG.on_cancel(OnCancel::Hold)).await;
}

async fn an_acquire_that_is_dropped_leaves_nothing_even_if_keys_are_held_for_a_minimum(setup: &impl Setup) {
    dropped_before_its_body(setup, &LONG.min_hold(Duration::from_secs(50))).await;
}

/// Drops an acquire whose grant has come and was never seen: no body ran, so nothing keeps the key.
async fn dropped_before_its_body(setup: &impl Setup, policy: &LockPolicy) {
    let manager = setup.manager();
    // From now on there is a connection, so that an attempt is sent at its first poll.
    assert_eq!(manager.acquire(&KEY, &LONG).await.unwrap().release().await, Released::Freed);
    let mut seen = 0;
    loop {
        let key = LockKey::new(format!("orders:{seen}")).unwrap();
        let granted = until("the lock is granted", async || setup.held().await == seen + 1);
        match polled(1, manager.acquire(&key, policy), granted).await {
            None => break,
            // On a busy machine the answer may come within the poll that asks; that key stays.
            Some(guard) => drop(guard.unwrap()),
        }
        seen += 1;
    }
    until("the lock is free", async || setup.held().await == seen).await;
}
