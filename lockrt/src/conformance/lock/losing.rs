//! The signal that a lease is lost.

use std::future::pending;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::Locks;
use super::faulty::{Call, Fate};
use super::polled::polled;
use super::watching::{together, until};
use crate::conformance::Service;
use crate::conformance::asking::{LONG, key, soon};
use crate::error::{LockError, LossReason};
use crate::policy::LockPolicy;

/// Watchers of a lease that was given back hear nothing, past its deadline too.
pub async fn a_normal_release_is_no_loss(locks: &Locks<impl Service>) {
    let ttl = locks.short();
    let guard = locks.manager().await.acquire(&key("released"), &LockPolicy::new(ttl)).await.unwrap();
    let lease = guard.lease().clone();
    let mut lost = std::pin::pin!(lease.lost());
    assert!(timeout(Duration::ZERO, &mut lost).await.is_err());
    guard.release().await;
    assert!(timeout(ttl * 2, &mut lost).await.is_err(), "past the deadline too");
    assert!(timeout(ttl, lease.lost()).await.is_err(), "nor for those who ask later");
    assert!(matches!(lease.check(), Err(LockError::Released { .. })));
    assert_eq!(lease.remaining(), Duration::ZERO);
}

/// Late watchers need not wait, reading it never blocks, and a loss is final.
pub async fn a_lease_is_lost_at_its_deadline_and_stays_lost(locks: &Locks<impl Service>) {
    let (manager, ttl) = (locks.manager().await, locks.short());
    let asked = Instant::now();
    let guard = manager.acquire(&key("lost"), &LockPolicy::new(ttl)).await.unwrap();
    let lease = guard.lease().clone();
    lease.check().unwrap();
    assert_eq!(reason(&soon("the deadline", lease.lost()).await), LossReason::Expired);
    assert!(asked.elapsed() <= ttl + locks.slack(), "{:?}", asked.elapsed());
    assert_eq!(reason(&polled(1, lease.lost(), async {}).await.unwrap()), LossReason::Expired);
    assert_eq!(reason(&lease.check().unwrap_err()), LossReason::Expired);
    assert_eq!(lease.remaining(), Duration::ZERO);
    guard.release().await;
    assert_eq!(reason(&lease.check().unwrap_err()), LossReason::Expired, "a loss is final");
}

/// No earlier than that margin before the end which bad clocks need.
pub async fn a_lease_is_held_until_its_deadline(locks: &Locks<impl Service>) {
    let (manager, ttl) = (locks.manager().await, locks.short());
    let asked = Instant::now();
    let guard = manager.acquire(&key("held"), &LockPolicy::new(ttl)).await.unwrap();
    guard.lease().lost().await;
    assert!(asked.elapsed() >= locks.lasting(ttl), "{:?}", asked.elapsed());
}

/// The owner gives up before the service does, however long the answer took.
pub async fn a_deadline_is_counted_from_before_the_request_left(locks: &Locks<impl Service>) {
    let (key, ttl) = (key("late"), locks.short() * 2);
    // An attempt may take a third of the TTL.
    let late = ttl / 6;
    let plan = move |call, _| match call {
        Call::Acquire => Fate::AnsweredAfter(late),
        _ => Fate::Answered,
    };
    let (_, manager) = locks.faulty(plan).await;
    let asked = Instant::now();
    let guard = manager.acquire(&key, &LockPolicy::new(ttl)).await.unwrap();
    // Read before what is left, so that a machine which stalls in between changes nothing.
    let took = asked.elapsed();
    let left = guard.lease().remaining();
    assert!(took >= late && took + left < ttl, "{left:?} left after {took:?}");
    guard.lease().lost().await;
    // On the real clock the question may come too late.
    assert!(!locks.is_paused() || locks.holds(&key).await, "the service was first");
}

/// The same for a renewal: the deadline moves to where the request left, and not further.
pub async fn a_deadline_is_counted_from_before_the_renewal_left(locks: &Locks<impl Service>) {
    let ttl = locks.short() * 2;
    // A renewal may take a sixth of the TTL.
    let late = ttl / 10;
    let plan = move |call, number| match call {
        Call::Renew if number == 1 => Fate::AnsweredAfter(late),
        Call::Renew => Fate::Silent,
        _ => Fate::Answered,
    };
    let (service, manager) = locks.faulty(plan).await;
    let guard = manager.acquire(&key("late"), &LockPolicy::new(ttl).renew(LONG)).await.unwrap();
    let deadline = || Instant::now() + guard.lease().remaining();
    let first = deadline();
    until("the renewal leaves", async || service.calls(Call::Renew) == 1).await;
    let left = Instant::now();
    until("the renewal is answered", async || deadline() > first + ttl / 6).await;
    let took = left.elapsed();
    let remaining = guard.lease().remaining();
    assert!(took + remaining <= ttl, "{remaining:?} left after {took:?}");
    guard.lease().lost().await;
}

/// Whatever way they fail in.
pub async fn a_lease_whose_renewals_fail_is_lost_at_its_deadline_and_not_earlier(
    locks: &Locks<impl Service>,
) {
    let fates = [Fate::Unknown, Fate::NotApplied, Fate::Applied, Fate::Silent, Fate::Panics];
    together(fates.map(|fate| fails_to_renew(locks, fate))).await;
}

async fn fails_to_renew(locks: &Locks<impl Service>, fate: Fate) {
    let ttl = locks.short() * 2;
    let plan = move |call, _| if call == Call::Renew { fate } else { Fate::Answered };
    let (service, manager) = locks.faulty(plan).await;
    let asked = Instant::now();
    let guard = manager.acquire(&key("fails"), &LockPolicy::new(ttl).renew(LONG)).await.unwrap();
    assert_eq!(reason(&guard.lease().lost().await), LossReason::Expired, "{fate:?}");
    let took = asked.elapsed();
    assert!(took >= locks.lasting(ttl) && took <= ttl + locks.slack(), "{fate:?}: {took:?}");
    assert!(service.calls(Call::Renew) >= 3, "{fate:?}: {}", service.calls(Call::Renew));
}

/// Proof of the loss need not wait for the deadline.
pub async fn a_lease_that_the_service_denies_is_lost_at_once(locks: &Locks<impl Service>) {
    // So long that its deadline is far.
    let ttl = locks.short() * 6;
    let plan = |call, _| if call == Call::Renew { Fate::Denied } else { Fate::Answered };
    let (_, manager) = locks.faulty(plan).await;
    let (key, policy) = (key("denied"), LockPolicy::new(ttl).renew(LONG));
    let asked = Instant::now();
    let ended = manager.run(&key, &policy, async |_| pending::<()>().await).await;
    assert_eq!(reason(&ended.unwrap_err()), LossReason::Gone);
    assert!(asked.elapsed() <= ttl / 3 + locks.slack(), "{:?}", asked.elapsed());
}

/// An `Extended` that comes too late is ignored: what is lost stays lost.
pub async fn an_extension_that_comes_after_the_deadline_revives_nothing(locks: &Locks<impl Service>) {
    let (ttl, key) = (locks.short(), key("revived"));
    // The renewals of the last tenth of the lease are answered after it, those before not at all.
    let mut acquired = Instant::now();
    let plan = move |call, _| match call {
        Call::Acquire => {
            acquired = Instant::now();
            Fate::Answered
        }
        Call::Renew if acquired.elapsed() >= ttl * 9 / 10 => Fate::AnsweredAfter(ttl / 8),
        Call::Renew => Fate::Unknown,
        Call::Release => Fate::Answered,
    };
    let (_, manager) = locks.faulty(plan).await;
    let guard = manager.acquire(&key, &LockPolicy::new(ttl).renew(LONG)).await.unwrap();
    let lease = guard.lease().clone();
    lease.lost().await;
    let watched = Instant::now();
    while watched.elapsed() < ttl {
        assert_eq!(reason(&lease.check().unwrap_err()), LossReason::Expired);
        sleep(ttl / 50).await;
    }
    drop(guard);
    until("the lock is free", async || !locks.holds(&key).await).await;
}

/// Ten of them, each in a task of its own.
pub async fn every_watcher_hears_of_a_loss(locks: &Locks<impl Service>) {
    let plan = |call, _| if call == Call::Renew { Fate::Denied } else { Fate::Answered };
    let (_, manager) = locks.faulty(plan).await;
    let policy = LockPolicy::new(locks.short()).renew(LONG);
    let guard = manager.acquire(&key("watched"), &policy).await.unwrap();
    let mut watchers = JoinSet::new();
    for _ in 0..10 {
        let lease = guard.lease().clone();
        watchers.spawn(async move { reason(&lease.lost().await) });
    }
    while let Some(heard) = soon("a watcher", watchers.join_next()).await {
        assert_eq!(heard.unwrap(), LossReason::Gone);
    }
}

fn reason(loss: &LockError) -> LossReason {
    match loss {
        LockError::Lost { reason, .. } => *reason,
        other => panic!("{other:?}"),
    }
}
