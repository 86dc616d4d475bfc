//! `on_cancel = hold` keeps the key of a dropped body to its ttl: not shorter, and not longer.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::time::Duration;

use lockrt::{LockManager, LockPolicy, OnCancel, Redis};
use lockrt_tests::{Call, Fate, Fault, Faulty, Proxy, RedisServer, Setup as _, Watch, key, until};
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_millis(1_500);
const KEPT: LockPolicy = LockPolicy::new(TTL).on_cancel(OnCancel::Hold);
/// When the server gets the attempt that was cut off: shortly before the end of the grant.
const LATE: Duration = Duration::from_millis(1_200);

#[tokio::test]
async fn an_attempt_that_arrives_late_does_not_keep_the_key_past_its_ttl() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let mut watch = Watch::start(&server).await;
    let manager = LockManager::builder().build(Redis::from_url(&proxy.url()).unwrap()).unwrap();
    // Connects, so that the next request is the attempt.
    manager.acquire(&key("warm"), &KEPT).await.unwrap().release().await;
    proxy.set(Fault::CutAtRequest { deliver_after: LATE });
    let asked = Instant::now();
    let guard = manager.acquire(&key("orders:7"), &KEPT).await.unwrap();
    let granted = Instant::now();
    assert_eq!(proxy.accepted(), 2, "the second attempt was granted, on another connection");
    drop(guard);
    loop {
        let stored = watch.count().await.stored;
        // Read after the question: a machine may stall in between.
        if asked.elapsed() >= TTL * 9 / 10 {
            break;
        }
        assert_eq!(stored, 1, "given back after {:?}", asked.elapsed());
        sleep(Duration::from_millis(10)).await;
    }
    assert!(asked.elapsed() >= LATE, "the late attempt has arrived");
    until("the key is free", async || watch.count().await.stored == 0).await;
    let kept = granted.elapsed();
    assert!(kept < LATE + TTL, "kept for {kept:?}");
    assert!(kept < TTL + Duration::from_secs(1), "kept for {kept:?}");
    drop(manager);
    watch.nothing_is_left("the keeper ends").await;
}

#[tokio::test(start_paused = true)]
async fn a_key_in_doubt_is_kept_for_its_ttl_and_given_back_once() {
    // The first attempt gets no answer, as far as its caller knows.
    for fate in [Fate::Applied, Fate::Unknown, Fate::AppliedInSilence, Fate::Silent] {
        let service = Faulty::start(move |call, number| match call {
            Call::Acquire if number == 1 => fate,
            _ => Fate::Answered,
        });
        let manager = service.manager();
        let key = key("orders:7");
        let (asked, body) = (Instant::now(), std::future::pending::<()>());
        let run = manager.run(&key, &KEPT, async |_| body.await);
        assert!(timeout(Duration::from_millis(1_100), run).await.is_err());
        let others = service.honest();
        assert!(
            others.try_acquire(&key, &KEPT).await.is_err_and(|refusal| refusal.is_contended()),
            "{fate:?}"
        );
        sleep((asked + TTL - Duration::from_millis(50)) - Instant::now()).await;
        assert_eq!(service.held().await, 1, "{fate:?}");
        until("the key is free", async || service.held().await == 0).await;
        // The next owner is not disturbed by what the keeper still sends.
        let next = others.acquire(&key, &KEPT).await.unwrap();
        sleep(TTL * 9 / 10).await;
        next.lease().check().unwrap();
        assert_eq!(service.held().await, 1, "{fate:?}");
        next.release().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_says_that_it_keeps_a_key_in_doubt_and_the_keeper_ends_later() {
    let service = Faulty::start(|call, number| match call {
        Call::Acquire if number == 1 => Fate::Applied,
        _ => Fate::Answered,
    });
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let manager = service.manager();
    let key = key("orders:7");
    let run = manager.run(&key, &KEPT, async |_| std::future::pending::<()>().await);
    assert!(timeout(TTL / 3, run).await.is_err(), "the body runs");
    let report = manager.shutdown(Duration::ZERO).await;
    assert_eq!(report.kept().count(), 1, "{report}");
    assert_eq!(report.unreleased().count(), 0, "{report}");
    drop(manager);
    assert_eq!(service.held().await, 1);
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    until("the keeper ends", async || alive() == before).await;
    assert_eq!(service.held().await, 0);
}
