//! Shutting a manager down.

use std::cell::Cell;
use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Locks;
use super::faulty::{Call, Fate};
use super::polled::polled;
use super::watching::{apart, together, until};
use crate::conformance::Service;
use crate::conformance::asking::{LONG, key, soon};
use crate::error::{LockError, LossReason};
use crate::policy::{LockPolicy, OnCancel};

const POLICY: LockPolicy = LockPolicy::new(LONG).named("worker");
const SOME: Duration = Duration::from_millis(300);
/// Within this the next owner gets in.
const HANDOVER: Duration = Duration::from_millis(100);

/// Bodies that run may end; whoever waits elsewhere gets in behind the last one.
pub async fn a_shutdown_lets_bodies_end_and_the_next_owner_in(locks: &Locks<impl Service>) {
    let (manager, next, key) = (locks.manager().await, locks.manager().await, key("handover"));
    let begun = Cell::new(false);
    let body = async {
        let ended = manager.run(&key, &POLICY, async |lease| {
            begun.set(true);
            sleep(SOME).await;
            lease.check().unwrap();
            Instant::now()
        });
        ended.await.unwrap()
    };
    let shuts_down = async {
        until("the body runs", async || begun.get()).await;
        let report = manager.shutdown(Duration::from_secs(30)).await;
        assert!(report.is_clean(), "{report}");
        assert_eq!(report.to_string(), "every lock was released");
        Instant::now()
    };
    let takes_over = async {
        until("the body runs", async || begun.get()).await;
        let patient = if locks.capabilities().wakes() { POLICY } else { LockPolicy::new(locks.short()) };
        let guard = next.acquire(&key, &patient.wait_forever()).await.unwrap();
        (guard, Instant::now())
    };
    let (ended, down, (_guard, taken)) = tokio::join!(body, shuts_down, takes_over);
    let polls = if locks.capabilities().wakes() { Duration::ZERO } else { locks.short() };
    assert!(taken <= ended + HANDOVER + polls + locks.slack(), "{:?}", taken - ended);
    assert!(down >= ended - Duration::from_millis(20), "it waits for the body");
    assert!(down <= ended + locks.slack(), "{:?}", down - ended);
}

/// Their leases are lost then, and their keys free.
pub async fn a_shutdown_takes_the_leases_of_bodies_that_go_on_too_long(locks: &Locks<impl Service>) {
    let (manager, key) = (locks.manager().await, key("endless"));
    let begun = Cell::new(false);
    let body = manager.run(&key, &POLICY, async |_| {
        begun.set(true);
        pending::<()>().await;
    });
    let shuts_down = async {
        until("the body runs", async || begun.get()).await;
        let asked = Instant::now();
        let report = manager.shutdown(SOME).await;
        assert!(report.is_clean(), "{report}");
        let took = asked.elapsed();
        assert!(took >= SOME && took <= SOME + locks.slack(), "{took:?}");
        assert!(!locks.holds(&key).await);
    };
    let (ended, ()) = tokio::join!(body, shuts_down);
    let refusal = ended.unwrap_err();
    assert!(matches!(refusal, LockError::Lost { reason: LossReason::ShuttingDown, .. }), "{refusal:?}");
}

/// They are leases like others.
pub async fn a_shutdown_releases_guards_taken_by_hand(locks: &Locks<impl Service>) {
    let manager = locks.manager().await;
    let keys = [key("one"), key("two")];
    let guards = [
        manager.acquire(&keys[0], &POLICY).await.unwrap(),
        manager.acquire(&keys[1], &POLICY).await.unwrap(),
    ];
    assert!(locks.holds(&keys[0]).await && locks.holds(&keys[1]).await);
    let report = manager.shutdown(Duration::ZERO).await;
    assert!(report.is_clean(), "{report}");
    assert!(!locks.holds(&keys[0]).await && !locks.holds(&keys[1]).await);
    for guard in guards {
        let refusal = guard.lease().check().unwrap_err();
        assert!(matches!(refusal, LockError::Lost { reason: LossReason::ShuttingDown, .. }), "{refusal:?}");
        soon("a release", guard.release()).await;
    }
}

/// From the moment it begins, and for good.
pub async fn a_shutdown_refuses_new_acquires(locks: &Locks<impl Service>) {
    let (manager, key, other) = (locks.manager().await, key("new"), key("held"));
    let holder = manager.acquire(&other, &POLICY).await.unwrap();
    let shuts_down = manager.shutdown(SOME);
    let asks = async {
        // The shutdown has begun by its first poll, and the held lock keeps it from ending.
        for policy in [POLICY, POLICY.wait(SOME), POLICY.wait_forever()] {
            let refusal = soon("a refusal", manager.acquire(&key, &policy)).await.unwrap_err();
            assert!(matches!(refusal, LockError::ShuttingDown), "{refusal:?}");
        }
    };
    tokio::join!(biased; shuts_down, asks);
    let refusal = soon("a refusal", manager.acquire(&key, &POLICY)).await.unwrap_err();
    assert!(matches!(refusal, LockError::ShuttingDown), "for good: {refusal:?}");
    let refusal = soon("a refusal", manager.run(&key, &POLICY, async |_| ())).await.unwrap_err();
    assert!(matches!(refusal, LockError::ShuttingDown), "{refusal:?}");
    assert!(!locks.holds(&key).await && !locks.holds(&other).await);
    drop(holder);
}

/// One waits at the service, the others in line behind it.
pub async fn a_shutdown_ends_waits_at_once(locks: &Locks<impl Service>) {
    let key = key("waits");
    let holder = locks.manager().await.acquire(&key, &POLICY).await.unwrap();
    let (manager, policy) = (locks.manager().await, POLICY.wait_forever());
    let asked = Instant::now();
    let waits = async || {
        let refusal = manager.acquire(&key, &policy).await.unwrap_err();
        assert!(matches!(refusal, LockError::ShuttingDown), "{refusal:?}");
    };
    let shuts_down = async {
        sleep(SOME).await;
        let report = manager.shutdown(Duration::from_secs(30)).await;
        assert!(report.is_clean(), "{report}");
    };
    soon("the end of all waits", async { tokio::join!(waits(), waits(), waits(), shuts_down) }).await;
    assert!(asked.elapsed() >= SOME);
    drop(holder);
    until("nobody waits in a queue", async || !locks.holds(&key).await).await;
}

/// Of the locks that were dropped before, none is left by then.
pub async fn a_shutdown_with_nothing_to_do_is_over_at_once(locks: &Locks<impl Service>) {
    let (manager, key) = (locks.manager().await, key("idle"));
    drop(manager.acquire(&key, &POLICY).await.unwrap());
    let asked = Instant::now();
    assert!(manager.shutdown(Duration::from_secs(30)).await.is_clean());
    assert!(asked.elapsed() <= locks.slack(), "{:?}", asked.elapsed());
    assert!(!locks.holds(&key).await);
}

/// A body that is cut off may have an effect in flight.
pub async fn a_shutdown_keeps_what_cancellation_keeps_and_says_so(locks: &Locks<impl Service>) {
    let (manager, key) = (locks.manager().await, key("kept"));
    let begun = Cell::new(false);
    let policy = POLICY.on_cancel(OnCancel::Hold);
    let body = manager.run(&key, &policy, async |_| {
        begun.set(true);
        pending::<()>().await;
    });
    let shuts_down = async {
        until("the body runs", async || begun.get()).await;
        manager.shutdown(SOME).await
    };
    let (ended, report) = tokio::join!(body, shuts_down);
    assert!(ended.unwrap_err().is_lost());
    assert_eq!(report.kept().collect::<Vec<_>>(), [("worker", &key)]);
    assert!(locks.holds(&key).await);
}

/// At the same time, and once more later.
pub async fn a_shutdown_may_be_asked_for_twice(locks: &Locks<impl Service>) {
    let (manager, key) = (locks.manager().await, key("twice"));
    let guard = manager.acquire(&key, &POLICY).await.unwrap();
    let (first, second) = (manager.shutdown(SOME), manager.shutdown(SOME));
    let (first, second) = soon("both", async { tokio::join!(first, second) }).await;
    assert!(first.is_clean() && second.is_clean());
    assert!(soon("a third", manager.shutdown(SOME)).await.is_clean());
    assert!(!locks.holds(&key).await);
    drop(guard);
}

/// Who asked for it may be cancelled.
pub async fn a_shutdown_goes_on_when_its_caller_has_gone(locks: &Locks<impl Service>) {
    let (manager, key) = (locks.manager().await, key("gone"));
    let guard = manager.acquire(&key, &POLICY).await.unwrap();
    assert!(polled(1, manager.shutdown(SOME), async {}).await.is_none());
    until("the lease is taken", async || !locks.holds(&key).await).await;
    assert!(guard.lease().check().unwrap_err().is_lost());
}

/// By name and key, a second after its time-out.
pub async fn a_shutdown_says_what_it_could_not_release(locks: &Locks<impl Service>) {
    let fates = [Fate::Silent, Fate::NotApplied, Fate::Unknown, Fate::Panics];
    together(fates.map(|fate| unreleased(locks, fate))).await;
}

async fn unreleased(locks: &Locks<impl Service>, fate: Fate) {
    let plan = move |call, _| if call == Call::Release { fate } else { Fate::Answered };
    let ((_, manager), key) = (locks.faulty(plan).await, key("unreleased"));
    let _guard = manager.acquire(&key, &POLICY).await.unwrap();
    let asked = Instant::now();
    let report = manager.shutdown(SOME).await;
    let took = asked.elapsed();
    assert!(took <= SOME + Duration::from_secs(1) + locks.slack(), "{took:?}");
    assert_eq!(report.unreleased().collect::<Vec<_>>(), [("worker", &key)], "{fate:?}");
    assert_eq!(report.kept().count(), 0);
    assert!(report.to_string().contains("may still be held"), "{report}");
    assert!(locks.holds(&key).await);
}

/// The last clone is gone, and a guard still lives: the keeper goes on for it.
pub async fn a_manager_that_is_dropped_finishes_its_releases(locks: &Locks<impl Service>) {
    let (manager, key) = (locks.manager().await, key("dropped"));
    let guard = manager.acquire(&key, &POLICY).await.unwrap();
    drop(manager);
    guard.lease().check().unwrap();
    apart(move || drop(guard)).await;
    until("the lock is free", async || !locks.holds(&key).await).await;
}
