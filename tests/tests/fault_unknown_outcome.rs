//! Calls that the server carries out and whose answers never arrive.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use lockrt::{LockError, LockKey, LockManager, LockPolicy, LossReason, Redis, Released};
use lockrt_tests::{End, Fault, Proxy, RedisServer, Setup, Step, Toxic, Way, soon, together, until};

const SLACK: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_millis(1_500);
const POLICY: LockPolicy = LockPolicy::new(TTL);
const LOST: Toxic = Toxic::Lose { way: Way::Answer };

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

/// A manager that is connected through the proxy.
async fn behind(proxy: &Proxy) -> LockManager {
    let manager = LockManager::builder().build(Redis::from_url(&proxy.url()).unwrap()).unwrap();
    let warm = LockKey::new("warm").unwrap();
    soon("the connection", manager.acquire(&warm, &POLICY)).await.unwrap().release().await;
    manager
}

/// The ways in which an answer goes missing.
fn losses() -> [(&'static str, Step); 4] {
    let limit = |bytes, end| [Toxic::Limit { way: Way::Answer, bytes, end }];
    [
        ("silence", Step::requests(1, [LOST])),
        ("a closed connection", Step::requests(1, limit(0, End::Close))),
        ("a reset", Step::requests(1, limit(0, End::Reset))),
        ("a reset within the answer", Step::requests(1, limit(3, End::Reset))),
    ]
}

#[tokio::test]
async fn an_acquire_whose_answer_is_lost_is_asked_again_and_is_one_grant() {
    for (loss, step) in losses() {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port(), 1).await;
        let (manager, other) = (behind(&proxy).await, server.manager());
        proxy.play([step]);
        let guard = soon("the grant", manager.acquire(&KEY, &POLICY)).await.unwrap();
        guard.lease().check().unwrap();
        assert_eq!(server.held().await, 1, "{loss}");
        assert!(other.try_acquire(&KEY, &POLICY).await.unwrap_err().is_contended(), "{loss}");
        assert_eq!(guard.release().await, Released::Freed, "{loss}");
        let next = other.acquire(&KEY, &POLICY).await.unwrap();
        next.lease().check().unwrap();
    }
}

#[tokio::test]
async fn an_acquire_that_is_never_answered_is_unavailable_and_leaves_nothing() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let manager = behind(&proxy).await;
    let policy = LockPolicy::new(Duration::from_secs(60));
    proxy.set(Fault::DropReplies);
    let asked = Instant::now();
    let refusal = manager.acquire(&KEY, &policy).await.unwrap_err();
    assert!(refusal.is_unavailable(), "{refusal}");
    let took = asked.elapsed();
    assert!(took >= Duration::from_secs(1) && took <= Duration::from_secs(3) + SLACK, "{took:?}");
    // It may have been granted in between, and its release was carried out in the same silence.
    proxy.set(Fault::None);
    until("the key is free", async || server.held().await == 0).await;
    let next = server.manager().acquire(&KEY, &POLICY).await.unwrap();
    next.lease().check().unwrap();
}

/// One lease, renewed for one and a half TTLs while an answer goes missing.
async fn renewed_over(loss: &'static str, step: Step) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let manager = behind(&proxy).await;
    let guard = manager.acquire(&KEY, &POLICY.renew(Duration::from_secs(60))).await.unwrap();
    let begun = Instant::now();
    proxy.play([step]);
    while begun.elapsed() < TTL + TTL / 2 {
        guard.lease().check().unwrap_or_else(|refusal| panic!("{loss}: {refusal}"));
        tokio::time::sleep(TTL / 50).await;
    }
    assert_eq!(guard.release().await, Released::Freed, "{loss}");
}

#[tokio::test]
async fn a_renewal_whose_answer_is_lost_costs_nothing() {
    together(losses(), |(loss, step)| renewed_over(loss, step)).await;
}

#[tokio::test]
async fn a_lease_whose_renewals_are_carried_out_and_never_answered_is_lost_at_its_deadline() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let (manager, other) = (behind(&proxy).await, server.manager());
    let started = Instant::now();
    let guard = manager.acquire(&KEY, &POLICY.renew(Duration::from_secs(60))).await.unwrap();
    proxy.set(Fault::DropReplies);
    let loss = guard.lease().lost().await;
    assert!(matches!(loss, LockError::Lost { reason: LossReason::Expired, .. }), "{loss}");
    let took = started.elapsed();
    assert!(took >= TTL * 98 / 100 && took <= TTL + SLACK, "{took:?}");
    // The owner gives up before the server does, which has counted its renewals.
    drop(guard);
    let next = soon("the lock", other.acquire(&KEY, &POLICY.wait_forever())).await.unwrap();
    next.lease().check().unwrap();
}

#[tokio::test]
async fn a_release_whose_answer_is_lost_is_repeated_and_spares_the_next_owner() {
    for (loss, step) in losses() {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port(), 1).await;
        let (manager, other) = (behind(&proxy).await, server.manager());
        let policy = LockPolicy::new(Duration::from_secs(60));
        let guard = manager.acquire(&KEY, &policy).await.unwrap();
        proxy.play([step]);
        let asked = Instant::now();
        let released = guard.release().await;
        // `NotHeld` would be an alarm: the lock was ours until it was released.
        assert!(matches!(released, Released::Freed | Released::Deferred), "{loss}: {released:?}");
        assert!(asked.elapsed() <= Duration::from_millis(250) + SLACK, "{loss}: {:?}", asked.elapsed());
        let next = soon("the lock", other.acquire(&KEY, &policy.wait_forever())).await.unwrap();
        lockrt_tests::settled(manager, loss).await;
        assert_eq!(server.held().await, 1, "{loss}: the next owner's");
        next.lease().check().unwrap();
    }
}
