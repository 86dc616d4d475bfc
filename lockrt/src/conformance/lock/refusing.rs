//! The body runs under a grant or not at all, and each refusal says what it is.

use std::cell::Cell;
use std::future::pending;
use std::time::Duration;

use tokio::time::Instant;

use super::Locks;
use super::faulty::{Call, Fate};
use super::watching::{together, until};
use crate::conformance::Service;
use crate::conformance::asking::{LONG, key, soon};
use crate::error::{LockError, LossReason};
use crate::key::LockKey;
use crate::manager::LockManager;
use crate::policy::LockPolicy;

/// Somebody else has it: `Contended`, with the time that the holder has left.
pub async fn the_body_does_not_run_while_somebody_else_holds_the_lock(locks: &Locks<impl Service>) {
    let (key, policy) = (key("contended"), policy(locks));
    let holder = locks.manager().await.acquire(&key, &LockPolicy::new(LONG)).await.unwrap();
    for policy in [policy, policy.wait(Duration::from_millis(100))] {
        match refused(&locks.manager().await, &key, &policy).await {
            LockError::Contended { name: "refusals", key: told, retry_after, .. } => {
                assert_eq!(told, key);
                let right = |left: Duration| left <= LONG && left > LONG / 2;
                assert!(retry_after.is_none_or(right), "{retry_after:?}");
            }
            other => panic!("{other:?}"),
        }
    }
    holder.lease().check().unwrap();
}

/// It was taken away: `Lost`, and the body has been dropped by then.
pub async fn a_body_that_outlives_its_lease_is_dropped_as_lost(locks: &Locks<impl Service>) {
    struct Dropped<'a>(&'a Cell<bool>);
    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let (manager, key, policy) = (locks.manager().await, key("lost"), policy(locks));
    let (dropped, asked) = (Cell::new(false), Instant::now());
    let ended = manager.run(&key, &policy, async |_| {
        let _dropped = Dropped(&dropped);
        pending::<()>().await;
    });
    match soon("the deadline", ended).await.unwrap_err() {
        LockError::Lost { name: "refusals", reason: LossReason::Expired, .. } => {}
        other => panic!("{other:?}"),
    }
    assert!(dropped.get());
    let took = asked.elapsed();
    assert!(took >= policy.ttl() * 9 / 10 && took <= policy.ttl() + locks.slack(), "{took:?}");
}

/// Nobody answers, or too late: `Unavailable`. What was granted on the way is given back.
pub async fn a_service_that_answers_nobody_is_unavailable_and_never_contended(locks: &Locks<impl Service>) {
    let policy = policy(locks);
    let fates = [
        Fate::Silent,
        Fate::AppliedInSilence,
        Fate::NotApplied,
        Fate::Unknown,
        Fate::Applied,
        Fate::Panics,
        Fate::AnsweredAfter(policy.ttl()),
    ];
    let policies = [policy, policy.wait(LONG), policy.wait_forever()];
    together(fates.into_iter().flat_map(|fate| policies.map(|policy| unavailable(locks, fate, policy))))
        .await;
}

async fn unavailable(locks: &Locks<impl Service>, fate: Fate, policy: LockPolicy) {
    let key = key("unavailable");
    let plan = move |call, _| if call == Call::Acquire { fate } else { Fate::Answered };
    let (service, manager) = locks.faulty(plan).await;
    let refusal = soon("a refusal", refused(&manager, &key, &policy)).await;
    assert!(matches!(refusal, LockError::Unavailable { name: "refusals", .. }), "{fate:?}: {refusal:?}");
    assert!(service.calls(Call::Acquire) > 1, "{fate:?}: an unanswered attempt is repeated");
    // Whatever it did apply is freed, long before the TTL would do it.
    manager.shutdown(policy.ttl() * 3).await;
    assert!(!locks.holds(&key).await, "{fate:?}");
}

/// Attempts without an answer before the one that is granted are not grants of their own.
pub async fn a_grant_behind_unanswered_attempts_runs_the_body_once(locks: &Locks<impl Service>) {
    let policy = policy(locks);
    for fate in [Fate::NotApplied, Fate::Unknown, Fate::Applied, Fate::AppliedInSilence, Fate::Panics] {
        let plan = move |call, number| match call {
            Call::Acquire if number <= 2 => fate,
            _ => Fate::Answered,
        };
        let ((_, manager), key) = (locks.faulty(plan).await, key("late"));
        let mut runs = 0;
        let held = manager.run(&key, &policy, async |_| {
            runs += 1;
            locks.holds(&key).await
        });
        assert!(held.await.unwrap(), "{fate:?}");
        assert_eq!(runs, 1);
        until("the lock is free", async || !locks.holds(&key).await).await;
    }
}

fn policy(locks: &Locks<impl Service>) -> LockPolicy {
    LockPolicy::new(locks.short()).named("refusals")
}

/// The refusal of a call whose body must not run.
async fn refused(manager: &LockManager, key: &LockKey, policy: &LockPolicy) -> LockError {
    let ran = Cell::new(false);
    let ended = manager.run(key, policy, async |_| ran.set(true)).await;
    assert!(!ran.get(), "the body ran without a grant");
    ended.unwrap_err()
}
