//! The signal that a lease is lost.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::Duration;

use lockrt::{LockError, LockKey, LockPolicy, LossReason};
use lockrt_tests::{Call, Fate, Faulty, RedisServer, Setup, on_each_backend, polled, soon, until};
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_millis(600);
const POLICY: LockPolicy = LockPolicy::new(TTL);
const RENEWED: LockPolicy = POLICY.renew(Duration::from_secs(60));

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

on_each_backend! {
    a_normal_release_is_no_loss,
    a_lease_is_lost_at_its_deadline_and_stays_lost,
    a_lease_is_held_until_its_deadline,
}

fn reason(loss: &LockError) -> LossReason {
    match loss {
        LockError::Lost { reason, .. } => *reason,
        other => panic!("{other:?}"),
    }
}

async fn a_normal_release_is_no_loss(setup: &impl Setup) {
    let guard = setup.manager().acquire(&KEY, &POLICY).await.unwrap();
    let lease = guard.lease().clone();
    let mut lost = std::pin::pin!(lease.lost());
    assert!(timeout(Duration::ZERO, &mut lost).await.is_err());
    guard.release().await;
    assert!(timeout(TTL * 2, &mut lost).await.is_err(), "past the deadline too");
    assert!(timeout(TTL, lease.lost()).await.is_err(), "nor for those who ask later");
    assert!(matches!(lease.check(), Err(LockError::Released { .. })));
    assert_eq!(lease.remaining(), Duration::ZERO);
}

async fn a_lease_is_lost_at_its_deadline_and_stays_lost<S: Setup>(setup: &S) {
    let started = Instant::now();
    let guard = setup.manager().acquire(&KEY, &POLICY).await.unwrap();
    let lease = guard.lease().clone();
    lease.check().unwrap();
    assert_eq!(reason(&soon("the deadline", lease.lost()).await), LossReason::Expired);
    assert!(started.elapsed() <= TTL + S::SLACK, "{:?}", started.elapsed());
    // Late subscribers need not wait, and a check does not either.
    assert_eq!(reason(&polled(1, lease.lost(), async {}).await.unwrap()), LossReason::Expired);
    assert_eq!(reason(&lease.check().unwrap_err()), LossReason::Expired);
    assert_eq!(lease.remaining(), Duration::ZERO);
    guard.release().await;
    assert_eq!(reason(&lease.check().unwrap_err()), LossReason::Expired, "a loss is final");
}

async fn a_lease_is_held_until_its_deadline(setup: &impl Setup) {
    let started = Instant::now();
    let guard = setup.manager().acquire(&KEY, &POLICY).await.unwrap();
    guard.lease().lost().await;
    // One percent of the TTL and 2 ms are kept back, and what is lost before the request leaves.
    assert!(started.elapsed() >= TTL * 98 / 100, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_counted_from_before_the_request_left() {
    let late = TTL / 4;
    let service = Faulty::start(move |call, _| match call {
        Call::Acquire => Fate::AnsweredAfter(late),
        _ => Fate::Answered,
    });
    let started = Instant::now();
    let guard = service.manager().acquire(&KEY, &POLICY).await.unwrap();
    assert_eq!(started.elapsed(), late);
    guard.lease().lost().await;
    assert!(started.elapsed() < TTL, "{:?}", started.elapsed());
    assert_eq!(service.held().await, 1, "the owner gives up before the service does");
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_renewals_fail_is_lost_at_its_deadline_and_not_earlier() {
    for fate in [Fate::Unknown, Fate::NotApplied, Fate::Applied, Fate::Silent, Fate::Panics] {
        let service = Faulty::start(move |call, _| if call == Call::Renew { fate } else { Fate::Answered });
        let started = Instant::now();
        let guard = service.manager().acquire(&KEY, &RENEWED).await.unwrap();
        assert_eq!(reason(&guard.lease().lost().await), LossReason::Expired, "{fate:?}");
        let took = started.elapsed();
        assert!(took >= TTL * 98 / 100 && took < TTL, "{fate:?}: {took:?}");
        assert!(service.calls(Call::Renew) >= 3, "{fate:?}: {}", service.calls(Call::Renew));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_the_service_denies_is_lost_at_once() {
    let service = Faulty::start(|call, _| if call == Call::Renew { Fate::Denied } else { Fate::Answered });
    let started = Instant::now();
    let ended = service.manager().run(&KEY, &RENEWED, async |_| std::future::pending::<()>().await).await;
    assert_eq!(reason(&ended.unwrap_err()), LossReason::Gone);
    assert!(started.elapsed() <= TTL / 3 + Faulty::SLACK, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_lease_that_redis_has_dropped_is_lost_at_its_next_renewal() {
    let server = RedisServer::start();
    let policy = LockPolicy::new(Duration::from_secs(3)).renew(Duration::from_secs(60));
    let guard = server.manager().acquire(&KEY, &policy).await.unwrap();
    let started = Instant::now();
    let _: () = ::redis::cmd("FLUSHALL").query_async(&mut server.raw().await).await.unwrap();
    assert_eq!(reason(&guard.lease().lost().await), LossReason::Gone);
    assert!(started.elapsed() <= policy.ttl() / 3 + RedisServer::SLACK, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_comes_after_the_deadline_revives_nothing() {
    let service = Faulty::start(|call, number| match call {
        Call::Renew if number == 3 => Fate::AnsweredAfter(TTL / 7),
        Call::Renew => Fate::Unknown,
        _ => Fate::Answered,
    });
    let guard = service.manager().acquire(&KEY, &RENEWED).await.unwrap();
    let lease = guard.lease().clone();
    lease.lost().await;
    let watched = Instant::now();
    while watched.elapsed() < TTL * 2 {
        assert_eq!(reason(&lease.check().unwrap_err()), LossReason::Expired);
        sleep(TTL / 50).await;
    }
    drop(guard);
    until("the lock is free", async || service.held().await == 0).await;
}

#[tokio::test(start_paused = true)]
async fn every_watcher_hears_of_a_loss() {
    let service = Faulty::start(|call, _| if call == Call::Renew { Fate::Denied } else { Fate::Answered });
    let guard = service.manager().acquire(&KEY, &RENEWED).await.unwrap();
    let mut watchers = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let lease = guard.lease().clone();
        watchers.spawn(async move { reason(&lease.lost().await) });
    }
    while let Some(heard) = soon("a watcher", watchers.join_next()).await {
        assert_eq!(heard.unwrap(), LossReason::Gone);
    }
}
