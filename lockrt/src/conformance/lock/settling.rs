//! What a call returns when lease, body and release do not end alike.

use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};

use super::Locks;
use super::faulty::{Call, Fate};
use super::watching::{apart, together, until};
use crate::claim::Released;
use crate::conformance::Service;
use crate::conformance::asking::{LONG, key};
use crate::error::{LockError, LossReason};
use crate::policy::{LockPolicy, OnLost, ReleaseMode};
use crate::run::{hold, leave};

const POLICY: LockPolicy = LockPolicy::new(LONG);
/// How long a caller waits for a release.
const AWAITED: Duration = Duration::from_millis(250);

/// A release that fails, goes unanswered or finds nothing replaces no value, and no error either.
pub async fn the_bodys_result_wins_over_a_failed_release(locks: &Locks<impl Service>) {
    let fates = [Fate::NotApplied, Fate::Unknown, Fate::Applied, Fate::Silent, Fate::Denied, Fate::Panics];
    together(fates.map(|fate| wins_over(locks, fate))).await;
}

async fn wins_over(locks: &Locks<impl Service>, fate: Fate) {
    let key = key("wins");
    let plan = move |call, number| match call {
        Call::Release if number == 1 => fate,
        _ => Fate::Answered,
    };
    let (_, manager) = locks.faulty(plan).await;
    let asked = Instant::now();
    assert_eq!(manager.run(&key, &POLICY, async |_| 17).await.unwrap(), 17, "{fate:?}");
    assert!(asked.elapsed() <= AWAITED + locks.slack(), "{fate:?}: {:?}", asked.elapsed());
    // But for a service that denies the grant, the release is repeated until it is answered.
    let left = fate == Fate::Denied;
    until("the release is repeated", async || locks.holds(&key).await == left).await;

    let plan = move |call, _| if call == Call::Release { fate } else { Fate::Answered };
    let ((_, manager), key) = (locks.faulty(plan).await, self::key("wins"));
    let ended = manager.run(&key, &POLICY, async |_| Err::<(), _>("no")).await;
    assert_eq!(ended.unwrap(), Err("no"), "{fate:?}");
}

/// A guard's own release says whether the key was freed, was not ours, or is left to the keeper.
pub async fn a_release_says_what_came_of_it(locks: &Locks<impl Service>) {
    for (fate, released) in [
        (Fate::Answered, Released::Freed),
        (Fate::Denied, Released::NotHeld),
        (Fate::Silent, Released::Deferred),
    ] {
        let plan = move |call, _| if call == Call::Release { fate } else { Fate::Answered };
        let (_, manager) = locks.faulty(plan).await;
        let guard = manager.acquire(&key("says"), &POLICY).await.unwrap();
        let asked = Instant::now();
        assert_eq!(guard.release().await, released);
        assert!(asked.elapsed() <= AWAITED + locks.slack(), "{:?}", asked.elapsed());
    }
}

/// `release = started` returns while the service is still at it.
pub async fn a_release_that_is_only_started_keeps_nobody(locks: &Locks<impl Service>) {
    let late = locks.slack() * 2;
    let plan = move |call, _| match call {
        Call::Release => Fate::AnsweredAfter(late),
        _ => Fate::Answered,
    };
    let ((_, manager), key) = (locks.faulty(plan).await, key("started"));
    let policy = POLICY.release(ReleaseMode::Started);
    let asked = Instant::now();
    assert_eq!(manager.run(&key, &policy, async |_| 17).await.unwrap(), 17);
    assert!(asked.elapsed() < late, "{:?}", asked.elapsed());
    until("the lock is free", async || !locks.holds(&key).await).await;
}

/// `on_lost = report`: the body runs on, and its value stands.
pub async fn a_body_goes_on_after_the_loss_where_it_is_only_reported(locks: &Locks<impl Service>) {
    let (manager, key) = (locks.manager().await, key("report"));
    let policy = LockPolicy::new(locks.short()).on_lost(OnLost::Report);
    let ended = manager.run(&key, &policy, async |lease| {
        let lost = lease.lost().await;
        assert!(lost.is_lost(), "{lost:?}");
        until("the key has expired", async || !locks.holds(&key).await).await;
        lease.check().unwrap_err().kind()
    });
    assert_eq!(ended.await.unwrap(), "lost");
}

/// Claim quickly, then work: the lease that was given back ends nothing.
pub async fn a_body_that_gave_its_lease_back_is_neither_stopped_nor_lost(locks: &Locks<impl Service>) {
    let (manager, key, ttl) = (locks.manager().await, key("back"), locks.short());
    let policy = LockPolicy::new(ttl);
    let ended = manager.run(&key, &policy, async |lease| {
        assert_eq!(lease.release().await, Released::Freed);
        assert!(!locks.holds(&key).await);
        sleep(ttl * 2).await;
        assert_eq!(lease.release().await, Released::Deferred, "the second one has nothing to do");
        lease.check().unwrap_err()
    });
    let refusal = ended.await.unwrap();
    assert!(matches!(refusal, LockError::Released { .. }), "{refusal:?}");
}

/// An `Ok` that came after the lease is `Lost`.
pub async fn a_value_that_came_late_is_lost(locks: &Locks<impl Service>) {
    let refusal = late(locks, OnLost::Cancel, false).await.unwrap_err();
    assert!(matches!(refusal, LockError::Lost { reason: LossReason::Expired, .. }), "{refusal:?}");
}

/// Unless losses are only reported.
pub async fn a_value_that_came_late_stands_where_losses_are_only_reported(locks: &Locks<impl Service>) {
    assert_eq!(late(locks, OnLost::Report, false).await.unwrap(), 17);
}

/// A body that failed by itself says why, lease or no lease.
pub async fn a_bodys_own_error_stays_after_a_loss(locks: &Locks<impl Service>) {
    assert_eq!(late(locks, OnLost::Cancel, true).await.unwrap(), 17);
}

/// What comes of a value that is ready at once, after its lease; `failed` says that it is the
/// body's own error.
async fn late(locks: &Locks<impl Service>, on_lost: OnLost, failed: bool) -> Result<u32, LockError> {
    let (manager, ttl) = (locks.manager().await, locks.short());
    apart(move || {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let policy = LockPolicy::new(ttl).on_lost(on_lost);
            let guard = manager.acquire(&key("late"), &policy).await?;
            let ended = hold(&guard, async {
                thread::sleep(ttl * 3 / 2);
                17
            });
            let ended = ended.await;
            leave(&guard, ended, failed).await
        })
    })
    .await
}
