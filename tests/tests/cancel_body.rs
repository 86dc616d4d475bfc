//! A body that is dropped at any poll gives its lock back: under `run`, under the attribute, under
//! other locks.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::time::Duration;

use lockrt::{LockError, LockManager, LockPolicy, distributed_lock};
use lockrt_tests::{Traced, dropped_at_every_poll, key, on_each_backend};
use tokio::task::yield_now;
use tokio::time::sleep;

on_each_backend! {
    a_body_under_run_that_is_dropped_at_any_poll_leaves_nothing,
    a_function_that_is_dropped_at_any_poll_leaves_nothing,
    a_function_that_waits_for_its_lock_and_is_dropped_at_any_poll_leaves_nothing,
    nested_functions_that_are_dropped_at_any_poll_leave_nothing,
    functions_side_by_side_that_are_dropped_at_any_poll_leave_nothing,
}

/// Something that waits three times.
async fn work() {
    yield_now().await;
    sleep(Duration::from_millis(1)).await;
    yield_now().await;
}

async fn a_body_under_run_that_is_dropped_at_any_poll_leaves_nothing(setup: &impl Traced) {
    let policy = LockPolicy::new(Duration::from_secs(15));
    let polls = dropped_at_every_poll(setup, async |manager| {
        manager.run(&key("orders:7"), &policy, async |_| work().await).await.unwrap();
    });
    assert!(polls.await >= 6, "two of the acquire, three of the body, one of the release");
}

#[distributed_lock(key = "orders:{id}", ttl_ms = 15_000, manager = manager)]
async fn order(manager: &LockManager, id: u64) -> Result<u64, LockError> {
    work().await;
    Ok(id)
}

async fn a_function_that_is_dropped_at_any_poll_leaves_nothing(setup: &impl Traced) {
    let polls = dropped_at_every_poll(setup, async |manager| order(manager, 7).await.unwrap());
    assert!(polls.await >= 6, "two of the acquire, three of the body, one of the release");
}

#[distributed_lock(key = "orders:{id}", ttl_ms = 15_000, manager = manager, on_contention = wait(timeout_ms = 30_000), release = started)]
async fn order_later(manager: &LockManager, id: u64) -> Result<u64, LockError> {
    work().await;
    Ok(id)
}

async fn a_function_that_waits_for_its_lock_and_is_dropped_at_any_poll_leaves_nothing(setup: &impl Traced) {
    let polls = dropped_at_every_poll(setup, async |manager| {
        let (other, policy) = (setup.manager(), LockPolicy::new(Duration::from_secs(15)));
        let holder = other.acquire(&key("orders:7"), &policy).await.unwrap();
        let ends = async {
            work().await;
            holder.release().await
        };
        let (_, ordered) = tokio::join!(ends, order_later(manager, 7));
        ordered.unwrap();
    });
    assert!(polls.await >= 6, "the other acquire, refusal, hand-over, three of the body");
}

#[distributed_lock(key = "customers:{id}", ttl_ms = 15_000, manager = manager, renew = auto(max_ms = 120_000))]
async fn all_orders(manager: &LockManager, id: u64) -> Result<u64, LockError> {
    order(manager, id).await?;
    order(manager, id + 1).await
}

async fn nested_functions_that_are_dropped_at_any_poll_leave_nothing(setup: &impl Traced) {
    let polls = dropped_at_every_poll(setup, async |manager| all_orders(manager, 7).await.unwrap());
    assert!(polls.await >= 10, "two inner calls, an acquire and a release");
}

async fn functions_side_by_side_that_are_dropped_at_any_poll_leave_nothing(setup: &impl Traced) {
    let polls = dropped_at_every_poll(setup, async |manager| {
        let (one, other) = tokio::join!(order(manager, 7), order_later(manager, 7));
        // Whoever comes first has it: two tasks' worth of contention on one key.
        assert!(one.is_ok() || other.is_ok());
    });
    assert!(polls.await >= 4, "the acquires, the body");
}
