//! The body runs under a grant or not at all, and each refusal says what it is.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::cell::Cell;
use std::sync::LazyLock;
use std::time::Duration;

use lockrt::{LockError, LockKey, LockManager, LockPolicy, LossReason};
use lockrt_tests::{Call, Fate, Faulty, RedisServer, Setup, on_each_backend, soon, until};
use tokio::time::Instant;

const TTL: Duration = Duration::from_millis(900);
const POLICY: LockPolicy = LockPolicy::new(TTL).named("refusals");

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

on_each_backend! {
    the_body_does_not_run_while_somebody_else_holds_the_lock,
    a_body_that_outlives_its_lease_is_dropped_as_lost,
}

/// The refusal of a call whose body must not run.
async fn refused(manager: &LockManager, policy: &LockPolicy) -> LockError {
    let ran = Cell::new(false);
    let ended = manager.run(&KEY, policy, async |_| ran.set(true)).await;
    assert!(!ran.get(), "the body ran without a grant");
    ended.unwrap_err()
}

async fn the_body_does_not_run_while_somebody_else_holds_the_lock(setup: &impl Setup) {
    let long = LockPolicy::new(Duration::from_secs(60));
    let holder = setup.manager().acquire(&KEY, &long).await.unwrap();
    for policy in [POLICY, POLICY.wait(Duration::from_millis(100))] {
        match refused(&setup.manager(), &policy).await {
            LockError::Contended { name: "refusals", key, retry_after: Some(left), .. } => {
                assert_eq!(key, *KEY);
                assert!(left <= long.ttl() && left > long.ttl() / 2, "{left:?}");
            }
            other => panic!("{other:?}"),
        }
    }
    holder.lease().check().unwrap();
}

async fn a_body_that_outlives_its_lease_is_dropped_as_lost<S: Setup>(setup: &S) {
    struct Dropped<'a>(&'a Cell<bool>);
    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let (dropped, started) = (Cell::new(false), Instant::now());
    let manager = setup.manager();
    let ended = manager.run(&KEY, &POLICY, async |_| {
        let _dropped = Dropped(&dropped);
        std::future::pending::<()>().await;
    });
    match soon("the deadline", ended).await.unwrap_err() {
        LockError::Lost { name: "refusals", reason: LossReason::Expired, .. } => {}
        other => panic!("{other:?}"),
    }
    assert!(dropped.get());
    assert!(started.elapsed() >= TTL * 9 / 10, "{:?}", started.elapsed());
    assert!(started.elapsed() <= TTL + S::SLACK, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_answers_nobody_is_unavailable_and_never_contended() {
    let fates = [
        Fate::Silent,
        Fate::AppliedInSilence,
        Fate::NotApplied,
        Fate::Unknown,
        Fate::Applied,
        Fate::Panics,
        Fate::AnsweredAfter(TTL),
    ];
    for fate in fates {
        for policy in [POLICY, POLICY.wait(Duration::from_secs(9)), POLICY.wait_forever()] {
            let service =
                Faulty::start(move |call, _| if call == Call::Acquire { fate } else { Fate::Answered });
            let manager = service.manager();
            let refusal = soon("a refusal", refused(&manager, &policy)).await;
            assert!(
                matches!(refusal, LockError::Unavailable { name: "refusals", .. }),
                "{fate:?}: {refusal:?}"
            );
            assert!(service.calls(Call::Acquire) > 1, "{fate:?}: an unanswered attempt is repeated");
            // Whatever it did apply is freed, long before the TTL would do it.
            manager.shutdown(TTL * 3).await;
            assert_eq!(service.held().await, 0, "{fate:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_behind_unanswered_attempts_runs_the_body_once() {
    for fate in [Fate::NotApplied, Fate::Unknown, Fate::Applied, Fate::AppliedInSilence, Fate::Panics] {
        let service = Faulty::start(move |call, number| match call {
            Call::Acquire if number <= 2 => fate,
            _ => Fate::Answered,
        });
        let manager = service.manager();
        let mut runs = 0;
        let held = manager.run(&KEY, &POLICY, async |_| {
            runs += 1;
            service.held().await
        });
        assert_eq!(held.await.unwrap(), 1, "{fate:?}");
        assert_eq!(runs, 1);
        until("the lock is free", async || service.held().await == 0).await;
    }
}

#[tokio::test]
async fn a_redis_that_is_stopped_or_gone_is_unavailable_within_the_bound() {
    let mut server = RedisServer::start();
    let manager = server.manager();
    manager.run(&KEY, &POLICY, async |_| ()).await.unwrap();
    for gone in [false, true] {
        if gone {
            server.kill();
        } else {
            server.pause();
        }
        for policy in [POLICY, POLICY.wait_forever()] {
            let started = Instant::now();
            let refusal = soon("a refusal", refused(&manager, &policy)).await;
            assert!(refusal.is_unavailable(), "{refusal:?}");
            assert!(started.elapsed() <= TTL + RedisServer::SLACK, "{:?}", started.elapsed());
        }
        server.resume();
    }
}
