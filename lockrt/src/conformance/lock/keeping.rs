//! `min_hold` keeps a key after a body that was too quick.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Locks;
use super::faulty::{Call, Fate};
use super::watching::until;
use crate::claim::Released;
use crate::conformance::Service;
use crate::conformance::asking::{LONG, key};
use crate::key::LockKey;
use crate::policy::LockPolicy;

const HOLD: Duration = Duration::from_millis(800);
const POLICY: LockPolicy = LockPolicy::new(LONG).named("cron").min_hold(HOLD);
/// Of somebody else, who has no minimum.
const PLAIN: LockPolicy = LockPolicy::new(LONG);

/// The call returns at once; the key stays.
pub async fn a_key_is_kept_after_an_early_return_and_keeps_nobody_waiting(locks: &Locks<impl Service>) {
    let (manager, key) = (locks.manager().await, key("early"));
    let asked = Instant::now();
    assert_eq!(manager.run(&key, &POLICY, async |_| 17).await.unwrap(), 17);
    assert!(asked.elapsed() < HOLD, "{:?}", asked.elapsed());
    is_kept(locks, &key, asked).await;
    let guard = manager.acquire(&key, &POLICY).await.unwrap();
    assert_eq!(guard.release().await, Released::Deferred);
}

/// A drop is no way around it.
pub async fn a_key_is_kept_after_its_guard_was_dropped(locks: &Locks<impl Service>) {
    let key = key("dropped");
    let asked = Instant::now();
    drop(locks.manager().await.acquire(&key, &POLICY).await.unwrap());
    is_kept(locks, &key, asked).await;
}

/// The minimum counts from the grant.
pub async fn a_body_that_takes_longer_frees_its_key_at_once(locks: &Locks<impl Service>) {
    let key = key("longer");
    locks.manager().await.run(&key, &POLICY, async |_| sleep(HOLD).await).await.unwrap();
    assert!(!locks.holds(&key).await);
}

/// A key whose TTL ends before the minimum does is given its TTL again, once.
pub async fn a_key_that_would_not_live_long_enough_is_renewed_once(locks: &Locks<impl Service>) {
    let ttl = locks.short();
    // Longer than its owner's lease lasts, which ends earlier than the service's.
    let least = ttl.saturating_sub(Duration::from_millis(1));
    let ((service, manager), key) = (locks.faulty(|_, _| Fate::Answered).await, key("renewed"));
    let asked = Instant::now();
    manager.run(&key, &LockPolicy::new(ttl).min_hold(least), async |_| sleep(ttl / 2).await).await.unwrap();
    loop {
        let held = locks.holds(&key).await;
        if asked.elapsed() >= least {
            break;
        }
        assert!(held, "{:?}", asked.elapsed());
        sleep(Duration::from_millis(1)).await;
    }
    until("the key is free", async || !locks.holds(&key).await).await;
    assert!(asked.elapsed() <= least + locks.slack(), "{:?}", asked.elapsed());
    assert_eq!(service.calls(Call::Renew), 1);
}

/// The shutdown waits for no minimum.
pub async fn a_shutdown_leaves_a_kept_key_and_reports_it(locks: &Locks<impl Service>) {
    let (manager, key) = (locks.manager().await, key("shutdown"));
    let asked = Instant::now();
    manager.run(&key, &POLICY, async |_| ()).await.unwrap();
    let report = manager.shutdown(Duration::from_secs(5)).await;
    assert!(asked.elapsed() < HOLD, "it waits for nobody: {:?}", asked.elapsed());
    assert_eq!(report.kept().collect::<Vec<_>>(), [("cron", &key)]);
    assert_eq!(report.unreleased().count(), 0);
    assert!(!report.is_clean());
    assert!(report.to_string().contains("cron"), "{report}");
    assert!(locks.holds(&key).await);
}

/// The key stays until `HOLD` after its grant, far before its TTL.
async fn is_kept(locks: &Locks<impl Service>, key: &LockKey, asked: Instant) {
    let rival = locks.manager().await;
    loop {
        let refused = rival.try_acquire(key, &PLAIN).await;
        // Read after the question: a machine may stall in between.
        if asked.elapsed() >= HOLD * 9 / 10 {
            break;
        }
        let refused = refused.map(drop).expect_err("given back too early");
        assert!(refused.is_contended(), "{refused:?}");
        sleep(Duration::from_millis(10)).await;
    }
    until("the key is free", async || !locks.holds(key).await).await;
    let took = asked.elapsed();
    assert!(took >= HOLD && took <= HOLD + locks.slack(), "{took:?}");
}
