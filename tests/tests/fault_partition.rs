//! A network that carries data one way only, or not at all, to some of the clients.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use lockrt::{LockError, LockKey, LockManager, LockPolicy, LossReason, Redis};
use lockrt_tests::{Fault, Proxy, RedisServer, Setup, soon, together, until};

const SLACK: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_millis(1_500);
const POLICY: LockPolicy = LockPolicy::new(TTL);
const RENEWED: LockPolicy = POLICY.renew(Duration::from_secs(60));
const PARTITIONS: [Fault; 4] = [Fault::Silence, Fault::DropRequests, Fault::DropReplies, Fault::Stall];

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());
static OTHER: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:8").unwrap());

async fn behind(proxy: &Proxy) -> LockManager {
    let manager = LockManager::builder().build(Redis::from_url(&proxy.url()).unwrap()).unwrap();
    soon("the connection", manager.acquire(&OTHER, &POLICY)).await.unwrap().release().await;
    manager
}

/// A holder with renewal that is cut off, and somebody who is not.
async fn a_holder_is_cut_off_by(partition: Fault) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let (cut_off, reachable) = (behind(&proxy).await, server.manager());
    let started = Instant::now();
    let holder = cut_off.acquire(&KEY, &RENEWED).await.unwrap();
    proxy.set(partition.clone());
    let loses = async {
        let loss = holder.lease().lost().await;
        assert!(matches!(loss, LockError::Lost { reason: LossReason::Expired, .. }), "{loss}");
        let took = started.elapsed();
        assert!(took >= TTL * 98 / 100 && took <= TTL + SLACK, "{partition:?}: {took:?}");
    };
    let takes_over = async {
        let next = soon("the lock", reachable.acquire(&KEY, &RENEWED.wait_forever())).await.unwrap();
        assert!(holder.lease().check().is_err(), "{partition:?}: two at once");
        next
    };
    let ((), next) = tokio::join!(loses, takes_over);
    assert!(next.lease().fencing() > holder.lease().fencing());
    // The network is whole again: what was under way harms nobody, and the client goes on.
    proxy.set(Fault::None);
    drop(holder);
    until("the client is back", async || cut_off.acquire(&OTHER, &POLICY).await.is_ok()).await;
    assert!(cut_off.try_acquire(&KEY, &POLICY).await.unwrap_err().is_contended());
    next.lease().check().unwrap();
}

#[tokio::test]
async fn a_holder_that_is_cut_off_stops_at_its_deadline_before_the_next_one_starts() {
    together(PARTITIONS, a_holder_is_cut_off_by).await;
}

/// Callers that are cut off, with and without patience.
async fn callers_are_cut_off_by(partition: Fault) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let cut_off = behind(&proxy).await;
    proxy.set(partition.clone());
    let wait = Duration::from_secs(1);
    for (policy, bound) in [(POLICY, TTL), (POLICY.wait(wait), wait), (POLICY.wait_forever(), TTL)] {
        let asked = Instant::now();
        let refusal = cut_off.acquire(&KEY, &policy).await.unwrap_err();
        assert!(refusal.is_unavailable(), "{partition:?}: {refusal}");
        assert!(asked.elapsed() <= bound + SLACK, "{partition:?}: {:?}", asked.elapsed());
    }
    // Whatever got through is cleaned up, long before it would expire.
    let asked = Instant::now();
    proxy.set(Fault::None);
    until("no key is left", async || server.held().await == 0).await;
    until("the client is back", async || cut_off.acquire(&KEY, &POLICY).await.is_ok()).await;
    assert!(asked.elapsed() <= Duration::from_secs(3), "{partition:?}: {:?}", asked.elapsed());
}

#[tokio::test]
async fn callers_that_are_cut_off_learn_it_in_time_and_leave_nothing() {
    together(PARTITIONS, callers_are_cut_off_by).await;
}

/// A lease that is renewed over a partition of half its TTL.
async fn a_lease_outlives(partition: Fault) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let manager = behind(&proxy).await;
    let policy = LockPolicy::new(TTL * 4).renew(Duration::from_secs(60));
    let holder = manager.acquire(&KEY, &policy).await.unwrap();
    let begun = Instant::now();
    proxy.set(partition.clone());
    while begun.elapsed() < TTL * 5 {
        if begun.elapsed() >= TTL * 2 {
            proxy.set(Fault::None);
        }
        holder.lease().check().unwrap_or_else(|loss| panic!("{partition:?}: {loss}"));
        tokio::time::sleep(TTL / 100).await;
    }
}

#[tokio::test]
async fn a_partition_shorter_than_the_ttl_costs_no_lease() {
    together(PARTITIONS, a_lease_outlives).await;
}
