//! How many calls a lock costs on Redis.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::HashMap;
use std::time::Duration;

use lockrt::testing::claim;
use lockrt::{Backend, Claim, LockManager, LockPolicy, Redis, Released, Renewed};
use lockrt_tests::{RedisServer, granted, key};

const TTL: Duration = Duration::from_secs(10);

/// What commands have been called since `before`, those of the looks themselves left out.
async fn calls_since(server: &RedisServer, before: &HashMap<String, u64>) -> HashMap<String, u64> {
    let mut calls = server.commandstats().await;
    calls.retain(|name, count| {
        *count -= before.get(name).copied().unwrap_or_default();
        *count > 0 && !["info", "hello", "client|setinfo"].contains(&name.as_str())
    });
    calls
}

async fn connected(server: &RedisServer) -> Redis {
    let client = Redis::from_url(&server.url()).unwrap();
    let owner = claim(&key("warm"), TTL);
    granted(&client, &owner).await;
    client.release(&owner).await.unwrap();
    client
}

#[tokio::test]
async fn an_uncontended_lock_is_two_commands_to_acquire_and_one_script_to_release() {
    let server = RedisServer::start();
    let client = connected(&server).await;
    // The first token of a slot is made by a script.
    let first = claim(&key("orders"), TTL);
    granted(&client, &first).await;
    client.release(&first).await.unwrap();
    let owner = claim(&key("orders"), TTL);

    let before = server.commandstats().await;
    granted(&client, &owner).await;
    let calls = calls_since(&server, &before).await;
    let expected = [("set", 1), ("zadd", 1)];
    assert_eq!(calls, expected.map(|(name, count)| (name.to_owned(), count)).into());

    let before = server.commandstats().await;
    client.release(&owner).await.unwrap();
    let calls = calls_since(&server, &before).await;
    let expected = [("evalsha", 1), ("get", 1), ("exists", 1), ("del", 1)];
    assert_eq!(calls, expected.map(|(name, count)| (name.to_owned(), count)).into());
}

#[tokio::test]
async fn a_manager_adds_no_call_to_those_of_its_backend() {
    const POLICY: LockPolicy = LockPolicy::new(TTL).wait(TTL).renew(Duration::from_secs(60));
    let server = RedisServer::start();
    let manager = LockManager::from_url(&server.url()).await.unwrap();
    // The first token of a slot is made by a script.
    manager.run(&key("orders"), &POLICY, async |_| ()).await.unwrap();
    let before = server.commandstats().await;
    for _ in 0..10 {
        let guard = manager.acquire(&key("orders"), &POLICY).await.unwrap();
        assert_eq!(guard.release().await, Released::Freed);
    }
    let calls = calls_since(&server, &before).await;
    let expected = [("set", 10), ("zadd", 10), ("evalsha", 10), ("get", 10), ("exists", 10), ("del", 10)];
    assert_eq!(calls, expected.map(|(name, count)| (name.to_owned(), count)).into());
}

#[tokio::test]
async fn a_refused_attempt_is_one_script() {
    let server = RedisServer::start();
    let client = connected(&server).await;
    granted(&client, &claim(&key("orders"), TTL)).await;
    let before = server.commandstats().await;
    client.try_acquire(&claim(&key("orders"), TTL)).await.unwrap();
    assert_eq!(calls_since(&server, &before).await["evalsha"], 1);
    // By now the key is known to be contended, so nothing but the script is tried.
    let before = server.commandstats().await;
    client.try_acquire(&claim(&key("orders"), TTL)).await.unwrap();
    let calls = calls_since(&server, &before).await;
    let expected = [("evalsha", 1), ("get", 1), ("pttl", 1)];
    assert_eq!(calls, expected.map(|(name, count)| (name.to_owned(), count)).into());
}

#[tokio::test]
async fn two_thousand_leases_are_renewed_in_thirty_two_calls() {
    let server = RedisServer::start();
    let client = connected(&server).await;
    let claims: Vec<Claim> = (0..2_000).map(|number| claim(&key(&format!("n:{number}")), TTL)).collect();
    for claim in &claims {
        granted(&client, claim).await;
    }
    let before = server.commandstats().await;
    let answers = client.renew(&claims.iter().collect::<Vec<_>>()).await;
    assert_eq!(answers.len(), claims.len());
    assert!(answers.iter().all(|answer| matches!(answer, Renewed::Extended)));
    assert_eq!(calls_since(&server, &before).await["evalsha"], 32);
}
