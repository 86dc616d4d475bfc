//! Renewal: for as long as the body runs, at most to its cap, and no longer.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::Duration;

use lockrt::{LockError, LockKey, LockPolicy, LossReason, OnCancel};
use lockrt_tests::{Call, Fate, Faulty, Setup, caught, on_each_backend, soon, until, with_thread_keepers};
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_millis(400);
const DAY: Duration = Duration::from_secs(86_400);
const RENEWED: LockPolicy = LockPolicy::new(TTL).renew(DAY);

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

on_each_backend! {
    a_renewed_body_outlives_twenty_ttls,
    a_renewed_lease_ends_at_its_cap,
}

with_thread_keepers! {
    a_body_that_blocks_its_thread_keeps_a_renewed_lease,
    a_body_that_blocks_its_thread_loses_a_lease_that_nobody_renews_and_is_not_polled_again,
}

async fn a_renewed_body_outlives_twenty_ttls(setup: &impl Setup) {
    let manager = setup.manager();
    let rival = setup.manager();
    let started = Instant::now();
    let ended = manager.run(&KEY, &RENEWED, async |lease| {
        while started.elapsed() < TTL * 21 {
            lease.check().unwrap();
            assert!(rival.try_acquire(&KEY, &RENEWED).await.unwrap_err().is_contended());
            sleep(TTL / 3).await;
        }
        lease.fencing()
    });
    assert!(ended.await.unwrap().is_some());
    assert_eq!(setup.held().await, 0);
}

async fn a_renewed_lease_ends_at_its_cap<S: Setup>(setup: &S) {
    let cap = TTL * 4;
    let policy = RENEWED.renew(cap);
    let manager = setup.manager();
    let started = Instant::now();
    let ended = manager.run(&KEY, &policy, async |_| std::future::pending::<()>().await);
    let refusal = soon("the cap", ended).await.unwrap_err();
    let took = started.elapsed();
    assert!(matches!(refusal, LockError::Lost { reason: LossReason::RenewalCap, .. }), "{refusal:?}");
    assert!(took >= cap && took <= cap + S::SLACK, "{took:?}");
    until("the lock is free", async || setup.held().await == 0).await;
}

/// Blocks the thread for three TTLs, then awaits, then counts one more poll.
fn blocking(setup: &impl Setup, policy: &LockPolicy) -> (Result<(), LockError>, u32) {
    let mut polls = 1;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let ended = runtime.block_on(setup.manager().run(&KEY, policy, async |lease| {
        let blocked = std::time::Instant::now();
        while blocked.elapsed() < TTL * 3 {
            std::thread::sleep(TTL / 10);
        }
        if policy.renewal() != lockrt::Renewal::Off {
            lease.check().unwrap();
        }
        tokio::task::yield_now().await;
        polls += 1;
    }));
    (ended, polls)
}

fn a_body_that_blocks_its_thread_keeps_a_renewed_lease(setup: &impl Setup) {
    let (ended, polls) = blocking(setup, &RENEWED);
    ended.unwrap();
    assert_eq!(polls, 2);
}

fn a_body_that_blocks_its_thread_loses_a_lease_that_nobody_renews_and_is_not_polled_again(
    setup: &impl Setup,
) {
    let (ended, polls) = blocking(setup, &LockPolicy::new(TTL));
    assert!(ended.unwrap_err().is_lost());
    assert_eq!(polls, 1);
}

#[tokio::test(start_paused = true)]
async fn a_lease_survives_two_renewal_errors_in_a_row() {
    for fate in [Fate::Unknown, Fate::NotApplied, Fate::Applied, Fate::Silent, Fate::Panics] {
        let service = Faulty::start(move |call, number| match call {
            // Of every three the last one is answered.
            Call::Renew if number % 3 != 0 => fate,
            _ => Fate::Answered,
        });
        let manager = service.manager();
        let ended = manager.run(&KEY, &RENEWED, async |_| sleep(TTL * 21).await);
        ended.await.unwrap_or_else(|lost| panic!("{fate:?}: {lost}"));
        assert!(service.calls(Call::Renew) >= 60, "{}", service.calls(Call::Renew));
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_are_sent_every_third_of_the_ttl() {
    let service = Faulty::start(|_, _| Fate::Answered);
    let manager = service.manager();
    manager.run(&KEY, &RENEWED, async |_| sleep(TTL * 10).await).await.unwrap();
    let renewals = service.calls(Call::Renew);
    assert!((28..=30).contains(&renewals), "{renewals}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_renewed_unless_the_policy_says_so() {
    let service = Faulty::start(|_, _| Fate::Answered);
    let policy = LockPolicy::new(TTL);
    service.manager().run(&KEY, &policy, async |_| sleep(TTL * 9 / 10).await).await.unwrap();
    assert_eq!(service.calls(Call::Renew), 0);
}

/// Watches for ten TTLs that nothing is renewed.
async fn nothing_is_renewed(service: &Faulty, after: &str) {
    let renewals = service.calls(Call::Renew);
    assert!(renewals > 0, "it was renewed before");
    let watched = Instant::now();
    while watched.elapsed() < TTL * 10 {
        sleep(TTL / 10).await;
        assert_eq!(service.calls(Call::Renew), renewals, "renewed after {after}");
    }
    assert_eq!(service.held().await, 0, "after {after}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_renewed_after_release_drop_panic_or_loss() {
    let service = Faulty::start(|_, _| Fate::Answered);
    let manager = service.manager();
    manager.run(&KEY, &RENEWED, async |_| sleep(TTL).await).await.unwrap();
    nothing_is_renewed(&service, "the body's end").await;

    let guard = manager.acquire(&KEY, &RENEWED).await.unwrap();
    sleep(TTL).await;
    guard.release().await;
    nothing_is_renewed(&service, "a release").await;

    for policy in [RENEWED, RENEWED.on_cancel(OnCancel::Hold)] {
        let guard = manager.acquire(&KEY, &policy).await.unwrap();
        sleep(TTL).await;
        drop(guard);
        nothing_is_renewed(&service, "a drop").await;

        let body = manager.run(&KEY, &policy, async |_| std::future::pending::<()>().await);
        timeout(TTL, body).await.unwrap_err();
        nothing_is_renewed(&service, "an outer time-out").await;

        let panics = manager.run(&KEY, &policy, async |_| {
            sleep(TTL).await;
            panic!("a body that panics on purpose")
        });
        let ended: Result<Result<(), LockError>, _> = caught(panics).await;
        assert!(ended.is_err());
        nothing_is_renewed(&service, "a panic").await;
    }

    let guard = manager.acquire(&KEY, &RENEWED.renew(TTL * 2)).await.unwrap();
    assert!(guard.lease().lost().await.is_lost());
    nothing_is_renewed(&service, "the cap").await;
    drop(guard);

    // Releases fail: the release has begun, so nothing renews behind it.
    service.follow(|call, _| if call == Call::Release { Fate::NotApplied } else { Fate::Answered });
    let guard = manager.acquire(&KEY, &RENEWED).await.unwrap();
    sleep(TTL).await;
    drop(guard);
    nothing_is_renewed(&service, "a release that failed").await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_counted_from_before_its_renewal_was_sent() {
    // A renewal gets a sixth of the TTL.
    let late = TTL / 7;
    let service = Faulty::start(move |call, number| match call {
        Call::Renew if number == 1 => Fate::AnsweredAfter(late),
        Call::Renew => Fate::Silent,
        _ => Fate::Answered,
    });
    let started = Instant::now();
    let guard = service.manager().acquire(&KEY, &RENEWED).await.unwrap();
    guard.lease().lost().await;
    // The one renewal that was answered left after a third of the TTL.
    let most = TTL / 3 + TTL;
    assert!(started.elapsed() < most, "{:?}", started.elapsed());
    assert!(started.elapsed() + TTL / 10 > most, "{:?}", started.elapsed());
}
