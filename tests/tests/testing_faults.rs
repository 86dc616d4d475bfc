//! Contention, loss and outages that a user's test asks for.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use lockrt::{LockError, LockPolicy, LossReason, distributed_lock, testing};
use lockrt_tests::{key, soon, until};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

#[distributed_lock(key = "invoice:{id}", ttl_ms = 10_000)]
async fn send(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "invoice:{id}", ttl_ms = 10_000, on_contention = wait(timeout_ms = 2_000))]
async fn send_later(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

/// Says when it runs, and never ends.
#[distributed_lock(key = "import:{id}", ttl_ms = 10_000)]
async fn import(id: u64, begun: oneshot::Sender<u64>) -> Result<(), LockError> {
    begun.send(id).unwrap();
    pending().await
}

#[distributed_lock(key = "import:{id}", ttl_ms = 10_000, renew = auto(max_ms = 600_000))]
async fn import_for_long(id: u64, begun: oneshot::Sender<u64>) -> Result<(), LockError> {
    begun.send(id).unwrap();
    pending().await
}

#[distributed_lock(key = "import:{id}", ttl_ms = 10_000, on_lost = report)]
async fn import_anyway(
    id: u64,
    begun: oneshot::Sender<u64>,
    go: oneshot::Receiver<()>,
) -> Result<(), LockError> {
    begun.send(id).unwrap();
    go.await.unwrap();
    Ok(())
}

fn reason(ended: Result<(), LockError>) -> LossReason {
    match ended {
        Err(LockError::Lost { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_is_held_by_somebody_else_until_the_guard_is_dropped() {
    let locks = testing::memory();
    let held = locks.hold(&key("invoice:7"));
    sleep(Duration::from_secs(3_600)).await;
    assert!(send(7).await.is_err_and(|refusal| refusal.is_contended()));
    assert_eq!(send(8).await.unwrap(), 8, "another key is free");
    drop(held);
    assert_eq!(send(7).await.unwrap(), 7, "free at once");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_key_when_somebody_else_lets_go() {
    let locks = testing::memory();
    let held = locks.hold(&key("invoice:7"));
    let started = Instant::now();
    let (sent, ()) = tokio::join!(send_later(7), async {
        sleep(Duration::from_millis(700)).await;
        drop(held);
    });
    assert_eq!(sent.unwrap(), 7);
    assert!(started.elapsed() < Duration::from_millis(800), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gives_up_where_nobody_lets_go() {
    let locks = testing::memory();
    let _held = locks.hold(&key("invoice:7"));
    let started = Instant::now();
    assert!(send_later(7).await.is_err_and(|refusal| refusal.is_contended()));
    assert!(started.elapsed() >= Duration::from_secs(2), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_held_cannot_be_held_by_another() {
    let locks = testing::memory();
    let _held = locks.hold(&key("invoice:7"));
    let again = std::panic::catch_unwind(AssertUnwindSafe(|| locks.hold(&key("invoice:7"))));
    assert!(again.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_stops_its_body_at_once_with_and_without_renewal() {
    let locks = testing::memory();
    let started = Instant::now();
    for renewed in [false, true] {
        let (begun, runs) = oneshot::channel();
        let body = async { if renewed { import_for_long(7, begun).await } else { import(7, begun).await } };
        let (ended, ()) = tokio::join!(body, async {
            runs.await.unwrap();
            locks.lose(&key("import:7")).await;
            assert_eq!(locks.held(), 0, "others may take it");
        });
        assert_eq!(reason(ended), LossReason::Gone, "renewed: {renewed}");
    }
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn only_the_lease_of_that_key_is_lost() {
    let locks = testing::memory();
    let policy = LockPolicy::new(Duration::from_secs(10));
    let lost = locks.acquire(&key("import:7"), &policy).await.unwrap();
    let kept = locks.acquire(&key("import:8"), &policy).await.unwrap();
    locks.lose(&key("import:7")).await;
    assert!(lost.lease().check().is_err_and(|loss| loss.is_lost()));
    kept.lease().check().unwrap();
    assert_eq!(locks.held(), 1);
    let next = locks.acquire(&key("import:7"), &policy).await.unwrap();
    assert!(next.lease().fencing() > lost.lease().fencing(), "a later grant outranks the lost one");
    drop(lost);
    next.lease().check().unwrap();
    assert!(locks.try_acquire(&key("import:7"), &policy).await.is_err(), "the loser releases nothing");
}

#[tokio::test(start_paused = true)]
async fn every_lease_of_the_manager_is_lost_and_nobody_elses() {
    let locks = testing::memory();
    let policy = LockPolicy::new(Duration::from_secs(10));
    let first = locks.acquire(&key("import:7"), &policy).await.unwrap();
    let second = locks.acquire(&key("import:8"), &policy.renew(policy.ttl())).await.unwrap();
    let _elsewhere = locks.hold(&key("import:9"));
    locks.lose_all().await;
    for guard in [&first, &second] {
        assert!(guard.lease().check().is_err_and(|loss| loss.is_lost()));
    }
    assert_eq!(locks.held(), 1, "what somebody else holds");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_may_outlive_its_lease_ends_after_the_loss() {
    let locks = testing::memory();
    let (begun, runs) = oneshot::channel();
    let (go, gone) = oneshot::channel();
    let (ended, ()) = tokio::join!(import_anyway(7, begun, gone), async {
        runs.await.unwrap();
        locks.lose(&key("import:7")).await;
        go.send(()).unwrap();
    });
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "no running lease")]
async fn a_test_that_loses_what_nobody_holds_fails() {
    let locks = testing::memory();
    locks.lose(&key("import:7")).await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "no running lease")]
async fn a_test_that_loses_all_of_nothing_fails() {
    let locks = testing::memory();
    locks.acquire(&key("import:7"), &LockPolicy::new(Duration::from_secs(10))).await.unwrap().release().await;
    locks.lose_all().await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_unavailable_until_it_is_over() {
    let locks = testing::memory();
    locks.fail();
    let started = Instant::now();
    assert!(send(7).await.is_err_and(|refusal| refusal.is_unavailable()));
    assert!(started.elapsed() <= Duration::from_secs(3), "{:?}", started.elapsed());
    locks.recover();
    assert_eq!(send(7).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn an_outage_costs_a_renewed_lease_at_its_deadline() {
    let locks = testing::memory();
    let (begun, runs) = oneshot::channel();
    let started = Instant::now();
    let (ended, ()) = tokio::join!(import_for_long(7, begun), async {
        runs.await.unwrap();
        locks.fail();
    });
    assert_eq!(reason(ended), LossReason::Expired);
    assert!(started.elapsed() >= Duration::from_millis(9_800), "{:?}", started.elapsed());
    assert!(started.elapsed() <= Duration::from_millis(10_300), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_outage_shorter_than_the_ttl_costs_nothing() {
    let locks = testing::memory();
    let policy = LockPolicy::new(Duration::from_secs(10)).renew(Duration::from_secs(600));
    let guard = locks.acquire(&key("import:7"), &policy).await.unwrap();
    locks.fail();
    sleep(Duration::from_secs(7)).await;
    locks.recover();
    sleep(Duration::from_secs(60)).await;
    guard.lease().check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_release_that_an_outage_swallows_is_repeated_after_it() {
    let locks = testing::memory();
    let policy = LockPolicy::new(Duration::from_secs(10));
    let guard = locks.acquire(&key("invoice:7"), &policy).await.unwrap();
    locks.fail();
    guard.release().await;
    assert_eq!(locks.held(), 1);
    locks.recover();
    until("the release is repeated", async || locks.held() == 0).await;
}

#[tokio::test]
async fn faults_need_no_paused_time() {
    let locks = testing::memory();
    let (begun, runs) = oneshot::channel();
    let (ended, ()) = tokio::join!(soon("the loss", import(7, begun)), async {
        runs.await.unwrap();
        locks.lose(&key("import:7")).await;
    });
    assert_eq!(reason(ended), LossReason::Gone);
}

#[test]
fn a_key_can_be_held_outside_a_runtime() {
    let locks = testing::memory();
    let held = locks.hold(&key("invoice:7"));
    assert_eq!(locks.held(), 1);
    drop(held);
    assert_eq!(locks.held(), 0);
}
