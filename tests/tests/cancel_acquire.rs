//! An acquire that is dropped leaves nothing behind, nor in line behind others.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::Duration;

use lockrt::{LockKey, LockPolicy, OnCancel, Released};
use lockrt_tests::{Setup, Traced, dropped_at_every_poll, on_each_backend, polled, soon, until};
use tokio::time::sleep;

/// So long that a key which is free soon was released. Doubt, which a busy machine makes, ends with it.
const LONG: LockPolicy = LockPolicy::new(Duration::from_secs(15));
const WAIT: LockPolicy = LONG.wait(Duration::from_millis(200));

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

on_each_backend! {
    an_acquire_of_a_free_key_that_is_dropped_at_any_poll_leaves_nothing,
    a_wait_for_a_free_key_that_is_dropped_at_any_poll_leaves_nothing,
    an_acquire_of_a_held_key_that_is_dropped_at_any_poll_leaves_nothing,
    a_wait_for_a_held_key_that_is_dropped_at_any_poll_leaves_nothing,
    a_wait_that_gets_its_key_and_is_dropped_at_any_poll_leaves_nothing,
    a_wait_in_line_that_is_dropped_at_any_poll_leaves_nothing_and_stops_nobody,
    an_acquire_that_is_dropped_leaves_nothing_even_if_cancellation_keeps_keys,
    an_acquire_that_is_dropped_leaves_nothing_even_if_keys_are_held_for_a_minimum,
}

async fn an_acquire_of_a_free_key_that_is_dropped_at_any_poll_leaves_nothing(setup: &impl Traced) {
    let polls = dropped_at_every_poll(setup, async |manager| manager.acquire(&KEY, &LONG).await);
    assert!(polls.await >= 2);
}

async fn a_wait_for_a_free_key_that_is_dropped_at_any_poll_leaves_nothing(setup: &impl Traced) {
    let polls = dropped_at_every_poll(setup, async |manager| manager.acquire(&KEY, &WAIT).await);
    assert!(polls.await >= 2);
}

async fn an_acquire_of_a_held_key_that_is_dropped_at_any_poll_leaves_nothing(setup: &impl Traced) {
    let holder = setup.manager().acquire(&KEY, &LONG).await.unwrap();
    let polls = dropped_at_every_poll(setup, async |manager| manager.acquire(&KEY, &LONG).await);
    assert!(polls.await >= 2);
    assert_eq!(holder.release().await, Released::Freed);
}

async fn a_wait_for_a_held_key_that_is_dropped_at_any_poll_leaves_nothing(setup: &impl Traced) {
    let holder = setup.manager().acquire(&KEY, &LONG).await.unwrap();
    let polls = dropped_at_every_poll(setup, async |manager| manager.acquire(&KEY, &WAIT).await);
    assert!(polls.await >= 3, "attempt, pause, end");
    assert_eq!(holder.release().await, Released::Freed);
}

/// The key becomes free while the wait runs.
async fn a_wait_that_gets_its_key_and_is_dropped_at_any_poll_leaves_nothing(setup: &impl Traced) {
    let polls = dropped_at_every_poll(setup, async |manager| {
        let holder = setup.manager().acquire(&KEY, &LONG).await.unwrap();
        let ends = async {
            sleep(Duration::from_millis(5)).await;
            holder.release().await
        };
        let policy = LONG.wait_forever();
        let (_, guard) = tokio::join!(ends, manager.acquire(&KEY, &policy));
        guard.unwrap().release().await
    });
    assert!(polls.await >= 4, "the other acquire, refusal, hand-over, release");
}

async fn a_wait_in_line_that_is_dropped_at_any_poll_leaves_nothing_and_stops_nobody(setup: &impl Setup) {
    let policy = LONG.wait_forever();
    for first in [true, false] {
        for polls in 0..=3 {
            let holder = setup.manager().acquire(&KEY, &LONG).await.unwrap();
            let manager = setup.manager();
            let dropped = async {
                let answers = sleep(Duration::from_millis(20));
                assert!(polled(polls, manager.acquire(&KEY, &policy), answers).await.is_none());
            };
            let stays = async {
                let guard = manager.acquire(&KEY, &policy).await.unwrap();
                assert_eq!(guard.release().await, Released::Freed);
            };
            let ends = async {
                sleep(Duration::from_millis(100)).await;
                assert_eq!(holder.release().await, Released::Freed);
            };
            let all = async {
                if first {
                    tokio::join!(biased; dropped, stays, ends);
                } else {
                    tokio::join!(biased; stays, dropped, ends);
                }
            };
            soon("whoever stays in line", Box::pin(all)).await;
            // None is left in line.
            assert!(format!("{manager:?}").contains("lines: 0"), "{manager:?}");
            assert_eq!(setup.held().await, 0, "first: {first}, {polls} polls");
        }
    }
}

async fn an_acquire_that_is_dropped_leaves_nothing_even_if_cancellation_keeps_keys(setup: &impl Setup) {
    dropped_before_its_body(setup, &LONG.on_cancel(OnCancel::Hold)).await;
}

async fn an_acquire_that_is_dropped_leaves_nothing_even_if_keys_are_held_for_a_minimum(setup: &impl Setup) {
    dropped_before_its_body(setup, &LONG.min_hold(Duration::from_secs(14))).await;
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
