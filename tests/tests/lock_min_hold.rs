//! `min_hold` keeps a key after a body that was too quick.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::Duration;

use lockrt::{LockKey, LockPolicy, Released};
use lockrt_tests::{Call, Fate, Faulty, Setup, on_each_backend, until};
use tokio::time::{Instant, sleep};

const HOLD: Duration = Duration::from_millis(800);
const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(60)).named("cron").min_hold(HOLD);
/// Of somebody else, who has no minimum.
const PLAIN: LockPolicy = LockPolicy::new(Duration::from_secs(60));

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("cron:nightly").unwrap());

on_each_backend! {
    a_key_is_kept_after_an_early_return_and_keeps_nobody_waiting,
    a_key_is_kept_after_its_guard_was_dropped,
    a_body_that_takes_longer_frees_its_key_at_once,
    a_shutdown_leaves_a_kept_key_and_reports_it,
}

/// The key stays until `HOLD` after its grant, far before its TTL.
async fn is_kept<S: Setup>(setup: &S, acquired: Instant) {
    let rival = setup.manager();
    loop {
        let (held, contended) = (setup.held().await, rival.try_acquire(&KEY, &PLAIN).await);
        // Read after the questions: a machine may stall in between.
        if acquired.elapsed() >= HOLD * 9 / 10 {
            break;
        }
        assert_eq!(held, 1, "given back after {:?}", acquired.elapsed());
        assert!(contended.unwrap_err().is_contended());
        sleep(Duration::from_millis(10)).await;
    }
    until("the key is free", async || setup.held().await == 0).await;
    let took = acquired.elapsed();
    assert!(took >= HOLD && took <= HOLD + S::SLACK, "{took:?}");
}

async fn a_key_is_kept_after_an_early_return_and_keeps_nobody_waiting<S: Setup>(setup: &S) {
    let manager = setup.manager();
    let acquired = Instant::now();
    assert_eq!(manager.run(&KEY, &POLICY, async |_| 17).await.unwrap(), 17);
    assert!(acquired.elapsed() < HOLD, "{:?}", acquired.elapsed());
    is_kept(setup, acquired).await;
    let guard = manager.acquire(&KEY, &POLICY).await.unwrap();
    assert_eq!(guard.release().await, Released::Deferred);
}

async fn a_key_is_kept_after_its_guard_was_dropped(setup: &impl Setup) {
    let acquired = Instant::now();
    drop(setup.manager().acquire(&KEY, &POLICY).await.unwrap());
    is_kept(setup, acquired).await;
}

async fn a_body_that_takes_longer_frees_its_key_at_once(setup: &impl Setup) {
    setup.manager().run(&KEY, &POLICY, async |_| sleep(HOLD).await).await.unwrap();
    assert_eq!(setup.held().await, 0);
}

async fn a_shutdown_leaves_a_kept_key_and_reports_it(setup: &impl Setup) {
    let manager = setup.manager();
    let acquired = Instant::now();
    manager.run(&KEY, &POLICY, async |_| ()).await.unwrap();
    let report = manager.shutdown(Duration::from_secs(5)).await;
    assert!(acquired.elapsed() < HOLD, "it waits for nobody: {:?}", acquired.elapsed());
    assert_eq!(report.kept().collect::<Vec<_>>(), [("cron", &*KEY)]);
    assert_eq!(report.unreleased().count(), 0);
    assert!(!report.is_clean());
    assert!(report.to_string().contains("cron"), "{report}");
    assert_eq!(setup.held().await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_would_not_live_long_enough_is_renewed_once() {
    let (ttl, hold) = (Duration::from_millis(300), Duration::from_millis(299));
    let service = Faulty::start(|_, _| Fate::Answered);
    let manager = service.manager();
    let acquired = Instant::now();
    manager.run(&KEY, &LockPolicy::new(ttl).min_hold(hold), async |_| ()).await.unwrap();
    while acquired.elapsed() < hold {
        assert_eq!(service.held().await, 1, "{:?}", acquired.elapsed());
        sleep(Duration::from_millis(1)).await;
    }
    until("the key is free", async || service.held().await == 0).await;
    assert!(acquired.elapsed() <= hold + Faulty::SLACK, "{:?}", acquired.elapsed());
    assert_eq!(service.calls(Call::Renew), 1);
}
