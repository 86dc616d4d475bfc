//! Renewal: for as long as the body runs, at most to its cap, and no longer.

use std::future::pending;
use std::thread;

use tokio::runtime::Builder;
use tokio::select;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::Locks;
use super::faulty::{Call, Fate, Faulty};
use super::locks::connected;
use super::polled::caught;
use super::watching::{apart, together, until};
use crate::backend::contract::Backend;
use crate::conformance::Service;
use crate::conformance::asking::{LONG, key, soon};
use crate::error::{LockError, LossReason};
use crate::key::LockKey;
use crate::manager::LockManager;
use crate::policy::{LockPolicy, OnCancel, Renewal};

fn renewed(locks: &Locks<impl Service>) -> LockPolicy {
    LockPolicy::new(locks.short()).renew(LONG)
}

/// Past twenty TTLs, with a rival that asks all the time.
pub async fn a_renewed_body_outlives_twenty_ttls(locks: &Locks<impl Service>) {
    let (manager, rival, key) = (locks.manager().await, locks.manager().await, key("twenty"));
    let ttl = locks.short();
    let (policy, asked) = (LockPolicy::new(ttl).renew(ttl * 100), Instant::now());
    let ended = manager.run(&key, &policy, async |lease| {
        while asked.elapsed() < ttl * 21 {
            lease.check().unwrap();
            assert!(rival.try_acquire(&key, &policy).await.unwrap_err().is_contended());
            sleep(ttl / 3).await;
        }
        lease.fencing()
    });
    assert_eq!(ended.await.unwrap().is_some(), locks.capabilities().can_fence());
    assert!(!locks.holds(&key).await);
}

/// Then it is lost, and the key free.
pub async fn a_renewed_lease_ends_at_its_cap(locks: &Locks<impl Service>) {
    let (manager, key) = (locks.manager().await, key("cap"));
    let cap = locks.short() * 3;
    let asked = Instant::now();
    let policy = renewed(locks).renew(cap);
    let ended = manager.run(&key, &policy, async |_| pending::<()>().await);
    let refusal = soon("the cap", ended).await.unwrap_err();
    let took = asked.elapsed();
    assert!(matches!(refusal, LockError::Lost { reason: LossReason::RenewalCap, .. }), "{refusal:?}");
    assert!(took >= cap && took <= cap + locks.slack(), "{took:?}");
    until("the lock is free", async || !locks.holds(&key).await).await;
}

/// Of every three renewals the last one is answered.
pub async fn a_lease_survives_two_renewal_errors_in_a_row(locks: &Locks<impl Service>) {
    let fates = [Fate::Unknown, Fate::NotApplied, Fate::Applied, Fate::Silent, Fate::Panics];
    together(fates.map(|fate| survives(locks, fate))).await;
}

async fn survives(locks: &Locks<impl Service>, fate: Fate) {
    let plan = move |call, number| match call {
        Call::Renew if number % 3 != 0 => fate,
        _ => Fate::Answered,
    };
    // On the real clock one such series, with time for a machine that stalls.
    let (ttl, lasts, renewals) = if locks.is_paused() {
        (locks.short(), locks.short() * 21, 60)
    } else {
        (locks.short() * 4, locks.short() * 6, 3)
    };
    let (service, manager) = locks.faulty(plan).await;
    let (key, policy) = (key("errors"), LockPolicy::new(ttl).renew(LONG));
    let ended = manager.run(&key, &policy, async |_| sleep(lasts).await);
    ended.await.unwrap_or_else(|lost| panic!("{fate:?}: {lost}"));
    assert!(service.calls(Call::Renew) >= renewals, "{}", service.calls(Call::Renew));
}

/// A body that blocks the only thread of its runtime does not stop the keeper.
pub async fn a_body_that_blocks_its_thread_keeps_a_renewed_lease(locks: &Locks<impl Service>) {
    let (ended, polls) = blocking(locks, renewed(locks)).await;
    ended.unwrap();
    assert_eq!(polls, 2);
}

/// Without renewal its lease ends, and it gets no further than its next await.
pub async fn a_body_that_blocks_its_thread_past_its_lease_is_not_polled_again(locks: &Locks<impl Service>) {
    let (ended, polls) = blocking(locks, LockPolicy::new(locks.short())).await;
    assert!(ended.unwrap_err().is_lost());
    assert_eq!(polls, 1);
}

/// Blocks a thread for two TTLs, then awaits, then counts one more poll.
async fn blocking(locks: &Locks<impl Service>, policy: LockPolicy) -> (Result<(), LockError>, u32) {
    let client = locks.client().await;
    apart(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut polls = 1;
            let manager = connected(LockManager::builder().build(client).unwrap()).await;
            let key = key("blocking");
            let ended = manager.run(&key, &policy, async |lease| {
                let blocked = std::time::Instant::now();
                while blocked.elapsed() < policy.ttl() * 2 {
                    thread::sleep(policy.ttl() / 10);
                }
                if policy.renewal() != Renewal::Off {
                    lease.check().unwrap();
                }
                yield_now().await;
                polls += 1;
            });
            (ended.await, polls)
        })
    })
    .await
}

/// The lease ends by itself then.
pub async fn nothing_is_renewed_unless_the_policy_says_so(locks: &Locks<impl Service>) {
    let (service, manager) = locks.faulty(|_, _| Fate::Answered).await;
    let (key, policy) = (key("off"), LockPolicy::new(locks.short()));
    let ended = manager.run(&key, &policy, async |lease| lease.lost().await);
    assert!(ended.await.is_err_and(|refusal| refusal.is_lost()));
    assert_eq!(service.calls(Call::Renew), 0);
}

/// By the body's end, and by hand.
pub async fn nothing_is_renewed_after_a_release(locks: &Locks<impl Service>) {
    let (service, manager) = locks.faulty(|_, _| Fate::Answered).await;
    let (key, policy) = (key("over"), renewed(locks));
    manager.run(&key, &policy, async |_| renews(&service).await).await.unwrap();
    nothing_is_renewed(locks, &service, &key, "the body's end").await;

    let guard = manager.acquire(&key, &policy).await.unwrap();
    renews(&service).await;
    guard.release().await;
    nothing_is_renewed(locks, &service, &key, "a release").await;
}

/// Of a guard by hand, and of a body by an outer time-out.
pub async fn nothing_is_renewed_after_a_drop(locks: &Locks<impl Service>) {
    for on_cancel in [OnCancel::Release, OnCancel::Hold] {
        let (service, manager) = locks.faulty(|_, _| Fate::Answered).await;
        let (key, policy) = (key("over"), renewed(locks).on_cancel(on_cancel));
        let guard = manager.acquire(&key, &policy).await.unwrap();
        renews(&service).await;
        drop(guard);
        nothing_is_renewed(locks, &service, &key, "a drop").await;

        let body = manager.run(&key, &policy, async |_| pending::<()>().await);
        select! {
            ended = body => panic!("a body without an end has ended: {ended:?}"),
            () = renews(&service) => {}
        }
        nothing_is_renewed(locks, &service, &key, "a call that was cut off").await;
    }
}

/// Whatever becomes of the key then.
pub async fn nothing_is_renewed_after_a_panic(locks: &Locks<impl Service>) {
    for on_cancel in [OnCancel::Release, OnCancel::Hold] {
        let (service, manager) = locks.faulty(|_, _| Fate::Answered).await;
        let (key, policy) = (key("over"), renewed(locks).on_cancel(on_cancel));
        let panics = manager.run(&key, &policy, async |_| {
            renews(&service).await;
            panic!("a body that panics on purpose")
        });
        let ended: Result<Result<(), LockError>, _> = caught(panics).await;
        assert!(ended.is_err());
        nothing_is_renewed(locks, &service, &key, "a panic").await;
    }
}

/// A lease that has ended is not renewed, though its guard lives on.
pub async fn nothing_is_renewed_after_a_loss(locks: &Locks<impl Service>) {
    let ((service, manager), key) = (locks.faulty(|_, _| Fate::Answered).await, key("over"));
    let policy = renewed(locks).renew(locks.short() * 2);
    let guard = manager.acquire(&key, &policy).await.unwrap();
    assert!(guard.lease().lost().await.is_lost());
    nothing_is_renewed(locks, &service, &key, "the cap").await;
    drop(guard);
}

/// The release has begun, so nothing renews behind it.
pub async fn nothing_is_renewed_after_a_release_that_failed(locks: &Locks<impl Service>) {
    let plan = |call, _| if call == Call::Release { Fate::NotApplied } else { Fate::Answered };
    let ((service, manager), key) = (locks.faulty(plan).await, key("over"));
    let guard = manager.acquire(&key, &renewed(locks)).await.unwrap();
    renews(&service).await;
    drop(guard);
    nothing_is_renewed(locks, &service, &key, "a release that failed").await;
}

/// Waits for one renewal more.
async fn renews(service: &Faulty<impl Backend>) {
    let before = service.calls(Call::Renew);
    until("it is renewed", async || service.calls(Call::Renew) > before).await;
}

/// Watches for three times as long as a renewal takes to be due that there is none; then the key is free.
async fn nothing_is_renewed(
    locks: &Locks<impl Service>,
    service: &Faulty<impl Backend>,
    key: &LockKey,
    after: &str,
) {
    // One that was under way when the lease ended.
    let renewals = service.calls(Call::Renew);
    assert!(renewals > 0, "it was renewed before");
    let watched = Instant::now();
    while watched.elapsed() < locks.short() {
        sleep(locks.short() / 10).await;
        assert_eq!(service.calls(Call::Renew), renewals, "renewed after {after}");
    }
    until("the key is free", async || !locks.holds(key).await).await;
}
