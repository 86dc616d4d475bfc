//! An acquire that is dropped leaves nothing behind: no key, no place in a queue.

use std::time::Duration;

use tokio::time::sleep;

use super::Locks;
use super::faulty::{Call, Fate};
use super::polled::polled;
use super::watching::{settled, until};
use crate::claim::Released;
use crate::conformance::Service;
use crate::conformance::asking::{LONG, key};
use crate::key::LockKey;
use crate::policy::{LockPolicy, OnCancel};

/// So long that a key which is free soon was released.
const POLICY: LockPolicy = LockPolicy::new(LONG);
const WAIT: LockPolicy = POLICY.wait(Duration::from_millis(200));

/// Dropped before, in and after its one attempt.
pub async fn an_acquire_of_a_free_key_that_is_dropped_at_any_poll_leaves_nothing(
    locks: &Locks<impl Service>,
) {
    assert!(dropped_at_any_poll(locks, &key("free"), &POLICY, false).await >= 2);
}

/// The same for a claim that may wait.
pub async fn a_wait_for_a_free_key_that_is_dropped_at_any_poll_leaves_nothing(locks: &Locks<impl Service>) {
    assert!(dropped_at_any_poll(locks, &key("free"), &WAIT, false).await >= 2);
}

/// Who is refused has nothing to leave, and spares the holder.
pub async fn an_acquire_of_a_held_key_that_is_dropped_at_any_poll_leaves_nothing(
    locks: &Locks<impl Service>,
) {
    let key = key("held");
    let holder = locks.manager().await.acquire(&key, &POLICY).await.unwrap();
    assert!(dropped_at_any_poll(locks, &key, &POLICY, true).await >= 2);
    assert_eq!(holder.release().await, Released::Freed);
    assert!(!locks.holds(&key).await, "somebody else stands in the queue");
}

/// Dropped in an attempt, in a pause or at its end; a place in a queue goes with it.
pub async fn a_wait_for_a_held_key_that_is_dropped_at_any_poll_leaves_nothing(locks: &Locks<impl Service>) {
    let key = key("held");
    let holder = locks.manager().await.acquire(&key, &POLICY).await.unwrap();
    assert!(dropped_at_any_poll(locks, &key, &WAIT, true).await >= 3, "attempt, pause, end");
    assert_eq!(holder.release().await, Released::Freed);
    assert!(!locks.holds(&key).await, "somebody else stands in the queue");
}

/// No body ran, so nothing keeps the key.
pub async fn an_acquire_that_is_dropped_leaves_nothing_even_if_cancellation_keeps_keys(
    locks: &Locks<impl Service>,
) {
    dropped_before_its_body(locks, &POLICY.on_cancel(OnCancel::Hold)).await;
}

/// The same for a minimum that begins with the grant.
pub async fn an_acquire_that_is_dropped_leaves_nothing_even_if_keys_are_held_for_a_minimum(
    locks: &Locks<impl Service>,
) {
    dropped_before_its_body(locks, &POLICY.min_hold(LONG / 2)).await;
}

/// A slow network delivers it when its caller has given up and cleaned up: that is cleaned up as well.
pub async fn an_acquire_that_arrives_after_its_release_leaves_nothing(locks: &Locks<impl Service>) {
    let plan = |call, number| match (call, number) {
        (Call::Acquire, 1) => Fate::AppliedLate(Duration::from_millis(300)),
        // So that the caller gives up.
        (Call::Acquire, _) => Fate::Denied,
        _ => Fate::Answered,
    };
    let ((service, manager), key) = (locks.faulty(plan).await, key("arrives"));
    assert!(manager.acquire(&key, &POLICY).await.unwrap_err().is_contended());
    until("it was cleaned up in vain", async || service.calls(Call::Release) > 0).await;
    assert_eq!(service.arrived_late(), 0);
    until("it arrives", async || service.arrived_late() == 1).await;
    settled(manager, "arrives").await;
    assert!(!locks.holds(&key).await, "an acquire has arrived after its clean-up");
}

/// Drops an acquire after its first poll, its second, and so on until it is ready, both at once
/// and after the answers have come that it never sees. `held` says whether others hold the key.
async fn dropped_at_any_poll(
    locks: &Locks<impl Service>,
    key: &LockKey,
    policy: &LockPolicy,
    held: bool,
) -> usize {
    let mut most = 0;
    for linger in [Duration::ZERO, Duration::from_millis(20)] {
        for polls in 0.. {
            let manager = locks.yielding().await;
            let lingers = async {
                if !linger.is_zero() {
                    sleep(linger).await;
                }
            };
            let ended = polled(polls, manager.acquire(key, policy), lingers).await.is_some();
            settled(manager, &format!("dropped after {polls} polls")).await;
            assert_eq!(locks.holds(key).await, held, "dropped after {polls} polls, lingered {linger:?}");
            if ended {
                most = most.max(polls);
                break;
            }
        }
    }
    most
}

/// Drops an acquire whose grant has come and was never seen.
async fn dropped_before_its_body(locks: &Locks<impl Service>, policy: &LockPolicy) {
    let (manager, key) = (locks.yielding().await, key("unseen"));
    let before = locks.stored().await;
    // There is a connection, so the attempt is sent at its first poll. Whoever asked for the key might have it first.
    let granted = until("the lock is granted", async || locks.stored().await > before);
    assert!(polled(1, manager.acquire(&key, policy), granted).await.is_none());
    until("the lock is free", async || !locks.holds(&key).await).await;
}
