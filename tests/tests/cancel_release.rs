//! A release whose caller is dropped goes on without it.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::time::Duration;

use lockrt::{LockPolicy, ReleaseMode};
use lockrt_tests::{
    Call, Fate, Faulty, Setup as _, Traced, dropped_at_every_poll, key, on_each_backend, polled, until,
};

/// So long that a key which is free soon was released. Doubt, which a busy machine makes, ends with it.
const LONG: LockPolicy = LockPolicy::new(Duration::from_secs(15));

on_each_backend! {
    a_release_of_a_guard_that_is_dropped_at_any_poll_goes_on,
    a_release_of_a_lease_that_is_dropped_at_any_poll_goes_on,
    a_release_that_is_only_started_goes_on_wherever_its_caller_is_dropped,
    a_shutdown_that_is_dropped_at_any_poll_goes_on,
}

async fn a_release_of_a_guard_that_is_dropped_at_any_poll_goes_on(setup: &impl Traced) {
    let polls = dropped_at_every_poll(setup, async |manager| {
        let guard = manager.acquire(&key("orders:7"), &LONG).await.unwrap();
        guard.release().await
    });
    assert!(polls.await >= 3, "two of the acquire, one or more of the release");
}

async fn a_release_of_a_lease_that_is_dropped_at_any_poll_goes_on(setup: &impl Traced) {
    let polls = dropped_at_every_poll(setup, async |manager| {
        let guard = manager.acquire(&key("orders:7"), &LONG).await.unwrap();
        let lease = guard.lease().clone();
        let released = lease.release().await;
        drop(guard);
        released
    });
    assert!(polls.await >= 3, "two of the acquire, one or more of the release");
}

async fn a_release_that_is_only_started_goes_on_wherever_its_caller_is_dropped(setup: &impl Traced) {
    let policy = LONG.release(ReleaseMode::Started);
    let polls = dropped_at_every_poll(setup, async |manager| {
        manager.run(&key("orders:7"), &policy, async |_| tokio::task::yield_now().await).await
    });
    assert!(polls.await >= 3);
}

async fn a_shutdown_that_is_dropped_at_any_poll_goes_on(setup: &impl Traced) {
    let polls = dropped_at_every_poll(setup, async |manager| {
        let guard = manager.acquire(&key("orders:7"), &LONG).await.unwrap();
        manager.shutdown(Duration::from_millis(5)).await;
        drop(guard);
    });
    assert!(polls.await >= 3);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_dropped_before_its_answer_is_repeated_until_there_is_one() {
    for fate in [Fate::Silent, Fate::Unknown, Fate::NotApplied, Fate::Panics] {
        let service = Faulty::start(move |call, number| match call {
            Call::Release if number < 3 => fate,
            _ => Fate::Answered,
        });
        let manager = service.manager();
        let guard = manager.acquire(&key("orders:7"), &LONG).await.unwrap();
        assert!(polled(1, guard.release(), async {}).await.is_none());
        until("the lock is free", async || service.held().await == 0).await;
        assert_eq!(service.calls(Call::Release), 3, "{fate:?}");
    }
}
