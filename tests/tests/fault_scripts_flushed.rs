//! A server whose script cache is flushed again and again while locks are in use.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::Duration;

use lockrt::{LockKey, LockPolicy};
use lockrt_tests::{RedisServer, Setup, Store};
use tokio::task::JoinSet;
use tokio::time::sleep;

const CLIENTS: u64 = 4;
const TURNS: u64 = 15;
const POLICY: LockPolicy =
    LockPolicy::new(Duration::from_secs(10)).wait_forever().renew(Duration::from_secs(60));

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

/// How often the server has refused a call for want of its script.
async fn refused(server: &RedisServer) -> u64 {
    let stats: String =
        redis::cmd("INFO").arg("errorstats").query_async(&mut server.raw().await).await.unwrap();
    let count = stats.lines().find_map(|line| line.trim().strip_prefix("errorstat_NOSCRIPT:count="));
    count.map_or(0, |count| count.parse().unwrap())
}

#[tokio::test]
async fn scripts_flushed_under_load_change_no_outcome() {
    let (server, stored) = (RedisServer::start(), RedisServer::start());
    let mut store = Store::at(&stored.url());
    store.write(0, "0");
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (manager, url) = (server.manager(), stored.url());
        clients.spawn(async move {
            let mut store = Store::at(&url);
            for _ in 0..TURNS {
                let guard = manager.acquire(&KEY, &POLICY).await.unwrap();
                let read: u64 = store.fenced().parse().unwrap();
                sleep(Duration::from_millis(1)).await;
                assert!(store.write(guard.lease().fencing().unwrap().get(), &(read + 1).to_string()));
                guard.release().await;
            }
        });
    }
    let mut raw = server.raw().await;
    let flushes = tokio::spawn(async move {
        loop {
            redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut raw).await.unwrap();
            sleep(Duration::from_millis(3)).await;
        }
    });
    while let Some(done) = clients.join_next().await {
        done.unwrap();
    }
    flushes.abort();
    assert_eq!(store.fenced(), (CLIENTS * TURNS).to_string());
    assert!(refused(&server).await >= CLIENTS, "{} calls met a flushed cache", refused(&server).await);
}
