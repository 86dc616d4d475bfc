//! Shutting a manager down.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::cell::Cell;
use std::sync::LazyLock;
use std::time::Duration;

use lockrt::{LockError, LockKey, LockPolicy, LossReason, OnCancel};
use lockrt_tests::{Call, Fate, Faulty, Setup, on_each_backend, polled, soon, until, with_thread_keepers};
use tokio::time::{Instant, sleep};

const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(60)).named("worker");
const SOME: Duration = Duration::from_millis(300);
/// Within this the next owner gets in.
const HANDOVER: Duration = Duration::from_millis(100);

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());
static OTHER: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:8").unwrap());

on_each_backend! {
    a_shutdown_lets_bodies_end_and_the_next_owner_in,
    a_shutdown_takes_the_leases_of_bodies_that_go_on_too_long,
    a_shutdown_releases_guards_taken_by_hand,
    a_shutdown_refuses_new_acquires,
    a_shutdown_ends_waits_at_once,
    a_shutdown_with_nothing_to_do_is_over_at_once,
    a_shutdown_keeps_what_cancellation_keeps_and_says_so,
    a_shutdown_may_be_asked_for_twice,
}

with_thread_keepers! {
    a_manager_that_is_dropped_finishes_its_releases,
}

async fn a_shutdown_lets_bodies_end_and_the_next_owner_in<S: Setup>(setup: &S) {
    let (manager, next) = (setup.manager(), setup.manager());
    let begun = Cell::new(false);
    let body = async {
        let ended = manager.run(&KEY, &POLICY, async |lease| {
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
        let guard = next.acquire(&KEY, &POLICY.wait_forever()).await.unwrap();
        (guard, Instant::now())
    };
    let (ended, down, (_guard, taken)) = tokio::join!(body, shuts_down, takes_over);
    assert!(taken <= ended + HANDOVER + S::SLACK, "{:?}", taken - ended);
    assert!(down >= ended - Duration::from_millis(20), "it waits for the body");
    assert!(down <= ended + S::SLACK, "{:?}", down - ended);
}

async fn a_shutdown_takes_the_leases_of_bodies_that_go_on_too_long<S: Setup>(setup: &S) {
    let manager = setup.manager();
    let begun = Cell::new(false);
    let body = manager.run(&KEY, &POLICY, async |_| {
        begun.set(true);
        std::future::pending::<()>().await;
    });
    let shuts_down = async {
        until("the body runs", async || begun.get()).await;
        let asked = Instant::now();
        let report = manager.shutdown(SOME).await;
        assert!(report.is_clean(), "{report}");
        let took = asked.elapsed();
        assert!(took >= SOME && took <= SOME + S::SLACK, "{took:?}");
        assert_eq!(setup.held().await, 0);
    };
    let (ended, ()) = tokio::join!(body, shuts_down);
    let refusal = ended.unwrap_err();
    assert!(matches!(refusal, LockError::Lost { reason: LossReason::ShuttingDown, .. }), "{refusal:?}");
}

async fn a_shutdown_releases_guards_taken_by_hand(setup: &impl Setup) {
    let manager = setup.manager();
    let guards =
        [manager.acquire(&KEY, &POLICY).await.unwrap(), manager.acquire(&OTHER, &POLICY).await.unwrap()];
    assert_eq!(setup.held().await, 2);
    let report = manager.shutdown(Duration::ZERO).await;
    assert!(report.is_clean(), "{report}");
    assert_eq!(setup.held().await, 0);
    for guard in guards {
        let refusal = guard.lease().check().unwrap_err();
        assert!(matches!(refusal, LockError::Lost { reason: LossReason::ShuttingDown, .. }), "{refusal:?}");
        soon("a release", guard.release()).await;
    }
}

async fn a_shutdown_refuses_new_acquires(setup: &impl Setup) {
    let manager = setup.manager();
    let holder = manager.acquire(&OTHER, &POLICY).await.unwrap();
    let shuts_down = manager.shutdown(SOME);
    let asks = async {
        // The shutdown has begun by its first poll, and the held lock keeps it from ending.
        for policy in [POLICY, POLICY.wait(SOME), POLICY.wait_forever()] {
            let refusal = soon("a refusal", manager.acquire(&KEY, &policy)).await.unwrap_err();
            assert!(matches!(refusal, LockError::ShuttingDown), "{refusal:?}");
        }
    };
    tokio::join!(shuts_down, asks);
    let refusal = soon("a refusal", manager.acquire(&KEY, &POLICY)).await.unwrap_err();
    assert!(matches!(refusal, LockError::ShuttingDown), "for good: {refusal:?}");
    let refusal = soon("a refusal", manager.run(&KEY, &POLICY, async |_| ())).await.unwrap_err();
    assert!(matches!(refusal, LockError::ShuttingDown), "{refusal:?}");
    assert_eq!(setup.held().await, 0);
    drop(holder);
}

async fn a_shutdown_ends_waits_at_once(setup: &impl Setup) {
    let _holder = setup.manager().acquire(&KEY, &POLICY).await.unwrap();
    let manager = setup.manager();
    let policy = POLICY.wait_forever();
    let asked = Instant::now();
    // One waits at the service, the others in line behind it.
    let waits = async || {
        let refusal = manager.acquire(&KEY, &policy).await.unwrap_err();
        assert!(matches!(refusal, LockError::ShuttingDown), "{refusal:?}");
    };
    let shuts_down = async {
        sleep(SOME).await;
        let report = manager.shutdown(Duration::from_secs(30)).await;
        assert!(report.is_clean(), "{report}");
    };
    soon("the end of all waits", async { tokio::join!(waits(), waits(), waits(), shuts_down) }).await;
    assert!(asked.elapsed() >= SOME);
    assert_eq!(setup.held().await, 1, "the holder's");
}

async fn a_shutdown_with_nothing_to_do_is_over_at_once<S: Setup>(setup: &S) {
    let manager = setup.manager();
    drop(manager.acquire(&KEY, &POLICY).await.unwrap());
    let asked = Instant::now();
    assert!(manager.shutdown(Duration::from_secs(30)).await.is_clean());
    assert!(asked.elapsed() <= S::SLACK, "{:?}", asked.elapsed());
    assert_eq!(setup.held().await, 0, "what was dropped before is released");
}

async fn a_shutdown_keeps_what_cancellation_keeps_and_says_so(setup: &impl Setup) {
    let manager = setup.manager();
    let policy = POLICY.on_cancel(OnCancel::Hold);
    let begun = Cell::new(false);
    let body = manager.run(&KEY, &policy, async |_| {
        begun.set(true);
        std::future::pending::<()>().await;
    });
    let shuts_down = async {
        until("the body runs", async || begun.get()).await;
        manager.shutdown(SOME).await
    };
    let (ended, report) = tokio::join!(body, shuts_down);
    assert!(ended.unwrap_err().is_lost());
    assert_eq!(report.kept().collect::<Vec<_>>(), [("worker", &*KEY)]);
    assert_eq!(setup.held().await, 1);
}

async fn a_shutdown_may_be_asked_for_twice(setup: &impl Setup) {
    let manager = setup.manager();
    let guard = manager.acquire(&KEY, &POLICY).await.unwrap();
    let (first, second) = (manager.shutdown(SOME), manager.shutdown(SOME));
    let (first, second) = soon("both", async { tokio::join!(first, second) }).await;
    assert!(first.is_clean() && second.is_clean());
    assert!(soon("a third", manager.shutdown(SOME)).await.is_clean());
    assert_eq!(setup.held().await, 0);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_goes_on_when_its_caller_has_gone() {
    let service = Faulty::start(|_, _| Fate::Answered);
    let manager = service.manager();
    let guard = manager.acquire(&KEY, &POLICY).await.unwrap();
    assert!(polled(1, manager.shutdown(SOME), async {}).await.is_none());
    until("the lease is taken", async || service.held().await == 0).await;
    assert!(guard.lease().check().unwrap_err().is_lost());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_says_what_it_could_not_release() {
    for fate in [Fate::Silent, Fate::NotApplied, Fate::Unknown, Fate::Panics] {
        let service = Faulty::start(move |call, _| if call == Call::Release { fate } else { Fate::Answered });
        let manager = service.manager();
        let _guard = manager.acquire(&KEY, &POLICY).await.unwrap();
        let asked = Instant::now();
        let report = manager.shutdown(SOME).await;
        // A second more, to release what it took.
        assert!(asked.elapsed() <= SOME + Duration::from_secs(1) + Faulty::SLACK, "{:?}", asked.elapsed());
        assert_eq!(report.unreleased().collect::<Vec<_>>(), [("worker", &*KEY)], "{fate:?}");
        assert_eq!(report.kept().count(), 0);
        assert!(report.to_string().contains("may still be held"), "{report}");
        assert_eq!(service.held().await, 1);
    }
}

fn a_manager_that_is_dropped_finishes_its_releases(setup: &impl Setup) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let manager = setup.manager();
        let guard = manager.acquire(&KEY, &POLICY).await.unwrap();
        drop(manager);
        guard.lease().check().unwrap();
        drop(guard);
        until("the lock is free", async || setup.held().await == 0).await;
    });
}
