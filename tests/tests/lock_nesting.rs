//! Locks within locks.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::Duration;

use lockrt::{LockError, LockKey, LockManager, LockPolicy, current_lease};
use lockrt_tests::{Call, Fate, Faulty, Setup, on_each_backend, soon, until};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::Instant;

const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(60)).named("outer");
const FOREVER: LockPolicy = POLICY.named("inner").wait_forever();

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());
static OTHER: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:8").unwrap());

on_each_backend! {
    a_nested_acquire_of_the_same_key_is_refused_at_once,
    different_keys_nest,
    another_task_is_ordinary_contention,
    another_branch_of_a_join_is_ordinary_contention,
    a_guard_taken_by_hand_is_ordinary_contention,
    another_manager_is_ordinary_contention,
    a_body_that_gave_its_lease_back_may_take_the_key_again,
    the_current_lease_is_the_innermost_one_of_the_running_body,
}

fn assert_reentrant(refusal: &LockError) {
    assert!(matches!(refusal, LockError::Reentrant { name: "inner", key } if *key == *KEY), "{refusal:?}");
}

async fn a_nested_acquire_of_the_same_key_is_refused_at_once(setup: &impl Setup) {
    let manager = setup.manager();
    let body = manager.run(&KEY, &POLICY, async |lease| {
        yield_now().await;
        for policy in [POLICY.named("inner"), FOREVER, FOREVER.wait(Duration::from_secs(9))] {
            let asked = Instant::now();
            assert_reentrant(&manager.acquire(&KEY, &policy).await.unwrap_err());
            assert_reentrant(&manager.clone().try_acquire(&KEY, &policy).await.unwrap_err());
            assert_reentrant(&manager.run(&KEY, &policy, async |_| ()).await.unwrap_err());
            assert!(asked.elapsed() < Duration::from_millis(500), "{:?}", asked.elapsed());
        }
        // A branch within the body that holds the key is within the body.
        let branch = async {
            yield_now().await;
            manager.acquire(&KEY, &FOREVER).await
        };
        let (nested, ()) = tokio::join!(branch, yield_now());
        assert_reentrant(&nested.unwrap_err());
        // Two bodies deep.
        let deep = manager.run(&OTHER, &POLICY, async |_| manager.acquire(&KEY, &FOREVER).await);
        assert_reentrant(&deep.await.unwrap().unwrap_err());
        lease.check().unwrap();
    });
    soon("the body", body).await.unwrap();
    // It is over with the body.
    drop(soon("the lock", manager.acquire(&KEY, &FOREVER)).await.unwrap());
}

async fn different_keys_nest(setup: &impl Setup) {
    let manager = setup.manager();
    let body = manager.run(&KEY, &POLICY, async |_| {
        let held = manager.run(&OTHER, &FOREVER, async |_| setup.held().await).await.unwrap();
        assert_eq!(setup.held().await, 1, "the inner one is free again");
        held
    });
    assert_eq!(soon("the body", body).await.unwrap(), 2);
    assert_eq!(setup.held().await, 0);
}

async fn another_task_is_ordinary_contention(setup: &impl Setup) {
    let manager = setup.manager();
    let other = manager.clone();
    let body = manager.run(&KEY, &POLICY, async |_| {
        tokio::spawn(async move { other.try_acquire(&KEY, &POLICY).await.map(drop) }).await.unwrap()
    });
    assert!(body.await.unwrap().unwrap_err().is_contended());
}

async fn another_branch_of_a_join_is_ordinary_contention(setup: &impl Setup) {
    let manager = setup.manager();
    let mut order = Vec::new();
    let refused = Notify::new();
    let outer = manager.run(&KEY, &POLICY, async |_| refused.notified().await);
    let sibling = async {
        until("the other branch holds the lock", async || setup.held().await == 1).await;
        let refusal = manager.try_acquire(&KEY, &POLICY).await.unwrap_err();
        assert!(refusal.is_contended(), "{refusal:?}");
        refused.notify_one();
        manager.run(&KEY, &FOREVER, async |_| order.push("sibling")).await
    };
    let (outer, sibling) = soon("both branches", async { tokio::join!(outer, sibling) }).await;
    outer.unwrap();
    sibling.unwrap();
    assert_eq!(order, ["sibling"], "it waited and got its turn");
}

async fn a_guard_taken_by_hand_is_ordinary_contention(setup: &impl Setup) {
    let manager = setup.manager();
    let guard = manager.acquire(&KEY, &POLICY).await.unwrap();
    assert!(current_lease().is_none());
    let refusal = manager.try_acquire(&KEY, &FOREVER).await.unwrap_err();
    assert!(refusal.is_contended(), "{refusal:?}");
    drop(guard);
    // Taken by hand within the body of another key: no body runs under it either.
    let body = manager.run(&OTHER, &POLICY, async |_| {
        let _guard = manager.acquire(&KEY, &FOREVER).await.unwrap();
        manager.try_acquire(&KEY, &FOREVER).await.unwrap_err()
    });
    assert!(soon("the body", body).await.unwrap().is_contended());
}

async fn another_manager_is_ordinary_contention(setup: &impl Setup) {
    let (manager, other) = (setup.manager(), setup.manager());
    let body = manager.run(&KEY, &POLICY, async |_| other.try_acquire(&KEY, &POLICY).await.map(drop));
    assert!(body.await.unwrap().unwrap_err().is_contended());
}

async fn a_body_that_gave_its_lease_back_may_take_the_key_again(setup: &impl Setup) {
    let manager = setup.manager();
    let body = manager.run(&KEY, &POLICY, async |lease| {
        lease.release().await;
        let again = manager.acquire(&KEY, &FOREVER).await.unwrap();
        assert!(again.lease().fencing() > lease.fencing());
    });
    soon("the body", body).await.unwrap();
}

async fn the_current_lease_is_the_innermost_one_of_the_running_body(setup: &impl Setup) {
    fn current() -> Option<LockKey> {
        current_lease().map(|lease| lease.key().clone())
    }
    async fn outer(manager: &LockManager) {
        assert_eq!(current().as_ref(), Some(&*KEY));
        yield_now().await;
        assert_eq!(current().as_ref(), Some(&*KEY), "after a suspension, too");
        manager.run(&OTHER, &POLICY, async |_| assert_eq!(current().as_ref(), Some(&*OTHER))).await.unwrap();
        assert_eq!(current().as_ref(), Some(&*KEY));
        let elsewhere = tokio::spawn(async { current() });
        assert_eq!(elsewhere.await.unwrap(), None);
    }
    let manager = setup.manager();
    assert_eq!(current(), None);
    let beside = async {
        for _ in 0..20 {
            assert_eq!(current(), None);
            yield_now().await;
        }
    };
    let body = manager.run(&KEY, &POLICY, async |_| outer(&manager).await);
    let (body, ()) = tokio::join!(body, beside);
    body.unwrap();
    assert_eq!(current(), None);
}

#[tokio::test(start_paused = true)]
async fn a_nested_acquire_asks_the_service_nothing() {
    let service = Faulty::start(|_, _| Fate::Answered);
    let manager = service.manager();
    let nested = manager.run(&KEY, &POLICY, async |_| manager.acquire(&KEY, &FOREVER).await.map(drop));
    assert_reentrant(&nested.await.unwrap().unwrap_err());
    assert_eq!(service.calls(Call::Acquire), 1);
}
