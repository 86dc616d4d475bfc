//! Fifty managers, each with a connection and a keeper of its own, that reconnect at the same moment.
//!
//! To the server they are fifty processes; that they share one here saves the memory of the others.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::time::{Duration, Instant};

use lockrt::{LockGuard, LockKey, LockManager, LockPolicy, Redis};
use lockrt_tests::{Fault, Proxy, RedisServer, until};
use tokio::task::JoinSet;
use tokio::time::sleep;

const MANAGERS: u64 = 50;
const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(6));
const OUTAGE: Duration = Duration::from_secs(1);
/// Within this all of them work again.
const RECOVERY: Duration = Duration::from_secs(3);

/// Managers that hold a lock each, on connections through the proxy.
async fn herd(proxy: &Proxy) -> Vec<(LockManager, LockGuard)> {
    let mut starting = JoinSet::new();
    for number in 0..MANAGERS {
        let manager = LockManager::builder().build(Redis::from_url(&proxy.url()).unwrap()).unwrap();
        starting.spawn(async move {
            let key = LockKey::of("held:").part(&number).build().unwrap();
            let guard = manager.acquire(&key, &POLICY.renew(Duration::from_secs(600))).await.unwrap();
            (manager, guard)
        });
    }
    starting.join_all().await
}

/// Lets each manager take a lock that it needs a connection for, as callers ask all the time; how long
/// the slowest took.
async fn all_recover(herd: &[(LockManager, LockGuard)]) -> Duration {
    let (begun, mut asking) = (Instant::now(), JoinSet::new());
    for (number, (manager, _)) in herd.iter().enumerate() {
        let manager = manager.clone();
        asking.spawn(async move {
            let key = LockKey::of("wanted:").part(&number).build().unwrap();
            while let Err(refusal) = manager.acquire(&key, &POLICY).await {
                assert!(refusal.is_unavailable(), "{refusal}");
            }
        });
    }
    asking.join_all().await;
    begun.elapsed()
}

#[tokio::test]
async fn a_herd_that_is_cut_off_knocks_seldom_and_comes_back_by_one_connection_each() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let herd = herd(&proxy).await;
    assert_eq!(proxy.accepted(), MANAGERS);
    proxy.set(Fault::Refuse);
    proxy.cut();
    let cut = Instant::now();
    let asking = all_recover(&herd);
    let heals = async {
        sleep(OUTAGE).await;
        let knocks = proxy.accepted() - MANAGERS;
        // Pauses of 10, 20, ... 250 ms, up to a quarter shorter, fit about 10 times into a second.
        let most = MANAGERS * 16 * u64::try_from(cut.elapsed().as_millis()).unwrap() / 1_000;
        assert!(knocks >= MANAGERS && knocks <= most, "{knocks} connections in {:?}", cut.elapsed());
        proxy.set(Fault::None);
        proxy.accepted()
    };
    let (took, before) = tokio::join!(asking, heals);
    assert!(took <= OUTAGE + RECOVERY, "{took:?}");
    let made = proxy.accepted() - before;
    assert!((MANAGERS..MANAGERS * 3 / 2).contains(&made), "{made} connections for {MANAGERS} managers");
    // The server kept answering, or the leases would be gone.
    for (_, guard) in &herd {
        guard.lease().check().unwrap();
    }
}

#[tokio::test]
async fn a_herd_recovers_from_a_restart_of_its_server() {
    let mut server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let herd = herd(&proxy).await;
    server.kill();
    server.restart();
    let took = all_recover(&herd).await;
    assert!(took <= RECOVERY, "{took:?}");
    // Nobody keeps a lock that the server has forgotten.
    until("every holder knows", async || herd.iter().all(|(_, guard)| guard.lease().check().is_err())).await;
}
