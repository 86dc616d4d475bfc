//! What stands in Redis: a lock that other programs can read, and nothing that stays.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use lockrt::testing::{claim, waiting_claim};
use lockrt::{Attempt, Backend, Redis, Released};
use lockrt_tests::{RedisServer, granted, key};
use redis::AsyncCommands as _;

const TTL: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_lock_is_the_owners_value_under_the_key_with_the_ttl_as_expiry() {
    let server = RedisServer::start();
    let (client, mut raw) = (Redis::from_url(&server.url()).unwrap(), server.raw().await);
    let owner = claim(&key("quote:acme/7"), TTL);
    granted(&client, &owner).await;
    let value: String = raw.get("quote:acme/7").await.unwrap();
    assert_eq!(value, owner.owner().wire());
    let left: u64 = raw.pttl("quote:acme/7").await.unwrap();
    assert!((9_000..=10_000).contains(&left), "{left}");
}

#[tokio::test]
async fn locks_of_other_programs_and_ours_exclude_each_other() {
    let server = RedisServer::start();
    let (client, mut raw) = (Redis::from_url(&server.url()).unwrap(), server.raw().await);
    let mut foreign = redis::cmd("SET");
    foreign.arg(&["orders", "theirs", "NX", "PX", "5000"]);
    let taken: bool = foreign.query_async(&mut raw).await.unwrap();
    assert!(taken);
    let owner = claim(&key("orders"), TTL);
    let Attempt::Held { free_in: Some(free_in) } = client.try_acquire(&owner).await.unwrap() else {
        panic!("not held")
    };
    assert!((Duration::from_secs(4)..=Duration::from_secs(5)).contains(&free_in), "{free_in:?}");
    assert_eq!(client.release(&owner).await.unwrap(), Released::NotHeld);
    let () = raw.del("orders").await.unwrap();
    granted(&client, &owner).await;
    let taken: Option<String> = foreign.query_async(&mut raw).await.unwrap();
    assert_eq!(taken, None);
}

#[tokio::test]
async fn a_holder_without_an_expiry_is_held_for_an_unknown_time() {
    let server = RedisServer::start();
    let (client, mut raw) = (Redis::from_url(&server.url()).unwrap(), server.raw().await);
    let () = raw.set("orders", "by hand").await.unwrap();
    let attempt = client.try_acquire(&claim(&key("orders"), TTL)).await.unwrap();
    assert_eq!(attempt, Attempt::Held { free_in: None });
}

#[tokio::test]
async fn a_refused_attempt_leaves_the_holders_value_and_expiry_as_they_were() {
    let server = RedisServer::start();
    let (client, mut raw) = (Redis::from_url(&server.url()).unwrap(), server.raw().await);
    let owner = claim(&key("orders"), TTL);
    let token = granted(&client, &owner).await;
    let before: u64 = raw.pexpire_time("orders").await.unwrap();
    for contender in [claim(&key("orders"), TTL * 9), waiting_claim(&key("orders"), TTL * 9)] {
        let attempt = client.try_acquire(&contender).await.unwrap();
        assert!(matches!(attempt, Attempt::Held { .. }));
        client.release(&contender).await.unwrap();
    }
    assert_eq!(raw.get::<_, String>("orders").await.unwrap(), owner.owner().wire());
    assert_eq!(raw.pexpire_time::<_, u64>("orders").await.unwrap(), before);
    let fences: Vec<String> = raw.keys("*:fencing").await.unwrap();
    // It may raise the next token: commands that are sent together do not wait for each other's answers.
    let last: u64 = raw.zscore(&fences[0], "last").await.unwrap();
    assert!(last >= token, "{last} after {token}");
    assert_eq!(redis::cmd("DBSIZE").query_async::<u64>(&mut raw).await.unwrap(), 2);
}

#[tokio::test]
async fn nothing_is_stored_without_an_expiry_but_the_fence_keys() {
    let server = RedisServer::start();
    let (client, mut raw) = (Redis::from_url(&server.url()).unwrap(), server.raw().await);
    for number in 0..200 {
        let owner = waiting_claim(&key(&format!("orders:{number}")), TTL);
        granted(&client, &owner).await;
        client.try_acquire(&waiting_claim(owner.key(), TTL)).await.unwrap();
        client.renew(&[&owner]).await;
        if number % 2 == 0 {
            client.release(&owner).await.unwrap();
        }
    }
    let stored: Vec<String> = raw.keys("*").await.unwrap();
    let (fences, others): (Vec<_>, Vec<_>) = stored.iter().partition(|key| key.ends_with("}:fencing"));
    let (queues, locks): (Vec<_>, Vec<_>) = others.into_iter().partition(|key| key.ends_with("}:queue"));
    // Of those that were released the waiter was offered the lock for a while, and has no place any more.
    assert!(locks.len() >= 100 && queues.len() == 100, "{stored:?}");
    assert!(fences.len() <= 200 && !fences.is_empty());
    for (keys, longest) in [(locks, 10_000), (queues, 70_000)] {
        for key in keys {
            let left: i64 = raw.pttl(key).await.unwrap();
            assert!(left == -2 || (1..=longest).contains(&left), "{key}: {left}");
        }
    }
}

#[tokio::test]
async fn two_databases_of_one_server_hold_two_locks() {
    let server = RedisServer::start();
    let one = Redis::from_url(&server.url()).unwrap();
    let two = Redis::from_url(&format!("{}/1", server.url())).unwrap();
    granted(&one, &claim(&key("orders"), TTL)).await;
    granted(&two, &claim(&key("orders"), TTL)).await;
}
