//! A process that holds very many locks: how they are renewed, by the server's own count.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::HashMap;
use std::time::Duration;

use lockrt::{LockGuard, LockKey, LockManager, LockPolicy};
use lockrt_tests::{Proxy, RedisServer};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// How many leases one call renews at most.
const BATCH: u64 = 64;

/// How many acquires are made at a time.
const AT_A_TIME: u64 = 250;

async fn hold(manager: &LockManager, locks: u64, ttl: Duration) -> Vec<LockGuard> {
    let policy = LockPolicy::new(ttl).renew(Duration::from_secs(3_600));
    let mut guards = Vec::new();
    for first in (0..locks).step_by(usize::try_from(AT_A_TIME).unwrap()) {
        let mut taking = JoinSet::new();
        for number in first..first + AT_A_TIME {
            let manager = manager.clone();
            let key = LockKey::of("renewed:").part(&number).build().unwrap();
            taking.spawn(async move { manager.acquire(&key, &policy).await.unwrap() });
        }
        guards.extend(taking.join_all().await);
    }
    guards
}

/// Calls of scripts, and leases that they have renewed, so far.
async fn counted(server: &RedisServer) -> (u64, u64) {
    let calls: HashMap<String, u64> = server.commandstats().await;
    let of = |name: &str| calls.get(name).copied().unwrap_or_default();
    (of("evalsha"), of("pexpire"))
}

/// Waits until so many leases have been renewed; the calls that it took, and the leases.
async fn renewed(server: &RedisServer, leases: u64, within: Duration) -> (u64, u64) {
    let (before, deadline) = (counted(server).await, Instant::now() + within);
    loop {
        let now = counted(server).await;
        let (calls, renewed) = (now.0 - before.0, now.1 - before.1);
        if renewed >= leases {
            return (calls, renewed);
        }
        assert!(Instant::now() < deadline, "{renewed} of {leases} leases were renewed within {within:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Holds so many locks on a real server, for a renewal of each, and then for as long behind a line on which every
/// answer takes far longer than the time from one call to the next.
async fn every_lease_stays_alive(locks: u64, ttl: Duration) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let manager = LockManager::from_url(&proxy.url()).await.unwrap();
    let guards = hold(&manager, locks, ttl).await;

    let (calls, leases) = renewed(&server, locks, ttl).await;
    assert!(calls * BATCH >= leases, "{calls} calls for {leases} leases: more than {BATCH} in one");
    assert!(calls * BATCH * 2 <= leases * 3, "{calls} calls for {leases} leases: hardly any is full");

    proxy.delay(100..150);
    renewed(&server, 2 * locks, 2 * ttl).await;
    let lost = guards.iter().filter(|guard| guard.lease().check().is_err()).count();
    assert_eq!(lost, 0, "leases were lost while others were renewed");
    proxy.clear();
}

#[tokio::test]
async fn thousands_of_leases_are_renewed_by_full_calls_of_which_none_waits_for_another() {
    every_lease_stays_alive(5_000, Duration::from_secs(6)).await;
}

#[tokio::test]
#[ignore = "takes a minute; cargo test -- --ignored a_hundred_thousand_leases"]
async fn a_hundred_thousand_leases_are_renewed_by_full_calls_of_which_none_waits_for_another() {
    every_lease_stays_alive(100_000, Duration::from_secs(30)).await;
}
