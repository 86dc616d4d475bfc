//! Locks within locks.

use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::Locks;
use super::faulty::{Call, Fate};
use super::watching::until;
use crate::conformance::Service;
use crate::conformance::asking::{LONG, key, soon};
use crate::error::LockError;
use crate::key::LockKey;
use crate::lease::current_lease;
use crate::manager::LockManager;
use crate::policy::LockPolicy;

const POLICY: LockPolicy = LockPolicy::new(LONG).named("outer");
const FOREVER: LockPolicy = POLICY.named("inner").wait_forever();

/// Whatever the policy says of waiting, and however deep: it would wait for itself.
pub async fn a_nested_acquire_of_the_same_key_is_refused_at_once(locks: &Locks<impl Service>) {
    let (manager, key, other) = (locks.manager().await, key("nested"), key("other"));
    let body = manager.run(&key, &POLICY, async |lease| {
        yield_now().await;
        for policy in [POLICY.named("inner"), FOREVER, FOREVER.wait(Duration::from_secs(9))] {
            let asked = Instant::now();
            assert_reentrant(&key, &manager.acquire(&key, &policy).await.unwrap_err());
            assert_reentrant(&key, &manager.clone().try_acquire(&key, &policy).await.unwrap_err());
            assert_reentrant(&key, &manager.run(&key, &policy, async |_| ()).await.unwrap_err());
            assert!(asked.elapsed() < Duration::from_millis(500), "{:?}", asked.elapsed());
        }
        // A branch within the body that holds the key is within the body.
        let branch = async {
            yield_now().await;
            manager.acquire(&key, &FOREVER).await
        };
        let (nested, ()) = tokio::join!(branch, yield_now());
        assert_reentrant(&key, &nested.unwrap_err());
        let deep = manager.run(&other, &POLICY, async |_| manager.acquire(&key, &FOREVER).await);
        assert_reentrant(&key, &deep.await.unwrap().unwrap_err());
        lease.check().unwrap();
    });
    soon("the body", body).await.unwrap();
    // It is over with the body.
    drop(soon("the lock", manager.acquire(&key, &FOREVER)).await.unwrap());
}

/// Known without the service.
pub async fn a_nested_acquire_asks_the_service_nothing(locks: &Locks<impl Service>) {
    let ((service, manager), key) = (locks.faulty(|_, _| Fate::Answered).await, key("nested"));
    let nested = manager.run(&key, &POLICY, async |_| manager.acquire(&key, &FOREVER).await.map(drop));
    assert_reentrant(&key, &soon("the body", nested).await.unwrap().unwrap_err());
    assert_eq!(service.calls(Call::Acquire), 1);
}

/// Each is freed with its own body.
pub async fn different_keys_nest(locks: &Locks<impl Service>) {
    let (manager, key, other) = (locks.manager().await, key("outer"), key("inner"));
    let body = manager.run(&key, &POLICY, async |_| {
        let both = async |_: &crate::lease::Lease| locks.holds(&key).await && locks.holds(&other).await;
        let both = manager.run(&other, &FOREVER, both).await.unwrap();
        assert!(!locks.holds(&other).await && locks.holds(&key).await, "the inner one is free again");
        both
    });
    assert!(soon("the body", body).await.unwrap());
    assert!(!locks.holds(&key).await);
}

/// A task that the body starts is not the body.
pub async fn another_task_is_ordinary_contention(locks: &Locks<impl Service>) {
    let (manager, key) = (locks.manager().await, key("task"));
    let body = manager.run(&key, &POLICY, async |_| {
        let (other, key) = (manager.clone(), key.clone());
        tokio::spawn(async move { other.try_acquire(&key, &POLICY).await.map(drop) }).await.unwrap()
    });
    assert!(body.await.unwrap().unwrap_err().is_contended());
}

/// Siblings are refused as strangers are, or wait for each other.
pub async fn another_branch_of_a_join_is_ordinary_contention(locks: &Locks<impl Service>) {
    let (manager, key) = (locks.manager().await, key("branch"));
    let (mut order, before) = (Vec::new(), locks.stored().await);
    let refused = Notify::new();
    let outer = manager.run(&key, &POLICY, async |_| refused.notified().await);
    let sibling = async {
        // Whoever asked for the key might have it first.
        until("the other branch holds the lock", async || locks.stored().await > before).await;
        let refusal = manager.try_acquire(&key, &POLICY).await.unwrap_err();
        assert!(refusal.is_contended(), "{refusal:?}");
        refused.notify_one();
        manager.run(&key, &FOREVER, async |_| order.push("sibling")).await
    };
    let (outer, sibling) = soon("both branches", async { tokio::join!(outer, sibling) }).await;
    outer.unwrap();
    sibling.unwrap();
    assert_eq!(order, ["sibling"], "it waited and got its turn");
}

/// No body runs under a guard, so nothing is nested in it.
pub async fn a_guard_taken_by_hand_is_ordinary_contention(locks: &Locks<impl Service>) {
    let (manager, key, other) = (locks.manager().await, key("hand"), key("other"));
    let guard = manager.acquire(&key, &POLICY).await.unwrap();
    assert!(current_lease().is_none());
    let refusal = manager.try_acquire(&key, &FOREVER).await.unwrap_err();
    assert!(refusal.is_contended(), "{refusal:?}");
    drop(guard);
    // Taken by hand within the body of another key: no body runs under it either.
    let body = manager.run(&other, &POLICY, async |_| {
        let _guard = manager.acquire(&key, &FOREVER).await.unwrap();
        manager.try_acquire(&key, &FOREVER).await.unwrap_err()
    });
    assert!(soon("the body", body).await.unwrap().is_contended());
}

/// Keys of two managers are not known to be the same lock.
pub async fn another_manager_is_ordinary_contention(locks: &Locks<impl Service>) {
    let (manager, other, key) = (locks.manager().await, locks.manager().await, key("manager"));
    let body = manager.run(&key, &POLICY, async |_| other.try_acquire(&key, &POLICY).await.map(drop));
    assert!(body.await.unwrap().unwrap_err().is_contended());
}

/// Its lease has ended, so this is another one, with a greater token.
pub async fn a_body_that_gave_its_lease_back_may_take_the_key_again(locks: &Locks<impl Service>) {
    let (manager, key) = (locks.manager().await, key("again"));
    let body = manager.run(&key, &POLICY, async |lease| {
        lease.release().await;
        let again = manager.acquire(&key, &FOREVER).await.unwrap();
        assert!(again.lease().fencing() > lease.fencing() || lease.fencing().is_none());
    });
    soon("the body", body).await.unwrap();
}

/// On this thread, in this task, in this branch, and nowhere else.
pub async fn the_current_lease_is_the_innermost_one_of_the_running_body(locks: &Locks<impl Service>) {
    let (manager, key, other) = (locks.manager().await, key("outer"), key("inner"));
    assert_eq!(current(), None);
    let beside = async {
        for _ in 0..20 {
            assert_eq!(current(), None);
            yield_now().await;
        }
    };
    let body = manager.run(&key, &POLICY, async |_| within(&manager, &key, &other).await);
    let (body, ()) = tokio::join!(body, beside);
    body.unwrap();
    assert_eq!(current(), None);
}

async fn within(manager: &LockManager, outer: &LockKey, inner: &LockKey) {
    assert_eq!(current().as_ref(), Some(outer));
    yield_now().await;
    assert_eq!(current().as_ref(), Some(outer), "after a suspension, too");
    let nested = manager.run(inner, &POLICY, async |_| assert_eq!(current().as_ref(), Some(inner)));
    nested.await.unwrap();
    assert_eq!(current().as_ref(), Some(outer));
    let elsewhere = tokio::spawn(async { current() });
    assert_eq!(elsewhere.await.unwrap(), None);
}

fn current() -> Option<LockKey> {
    current_lease().map(|lease| lease.key().clone())
}

fn assert_reentrant(key: &LockKey, refusal: &LockError) {
    assert!(
        matches!(refusal, LockError::Reentrant { name: "inner", key: told } if told == key),
        "{refusal:?}"
    );
}
