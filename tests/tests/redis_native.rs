//! A lock that is taken by two plain commands: what happens when the second comes to nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use lockrt::testing::{claim, waiting_claim};
use lockrt::{Attempt, Backend, LockError, LockManager, LockPolicy, Outcome, Redis, Released};
use lockrt_tests::{FakeRedis, Proxy, RedisServer, granted, key, refused, until};
use redis::AsyncCommands as _;

const TTL: Duration = Duration::from_secs(10);

async fn scripts(server: &RedisServer) -> u64 {
    server.commandstats().await.get("evalsha").copied().unwrap_or_default()
}

async fn rights(server: &RedisServer, rights: &[&str]) {
    let words = [&["SETUSER", "locker", "on", ">s3cret", "~*", "&*"], rights].concat();
    redis::cmd("ACL").arg(&words).exec_async(&mut server.raw().await).await.unwrap();
}

fn url_of_locker(server: &RedisServer) -> String {
    format!("redis://locker:s3cret@127.0.0.1:{}", server.port())
}

/// One client hears of the time 40 ms late, so that the tokens of the other are ahead of what it takes for it.
#[tokio::test]
async fn tokens_rise_between_clients_that_do_not_agree_on_the_time() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    proxy.delay(40..41);
    let (late, prompt) = (Redis::from_url(&proxy.url()).unwrap(), Redis::from_url(&server.url()).unwrap());
    granted(&late, &claim(&key("warm"), TTL)).await;
    proxy.delay(0..1);
    let (before, mut last) = (scripts(&server).await, 0);
    for round in 0..50 {
        for client in [&prompt, &late, &late, &prompt] {
            let owner =
                if round % 2 == 0 { claim(&key("orders"), TTL) } else { waiting_claim(&key("orders"), TTL) };
            let token = granted(client, &owner).await;
            assert!(token > last, "{token} after {last}");
            last = token;
            assert_eq!(client.release(&owner).await.unwrap(), Released::Freed);
        }
    }
    let acquired_by_script = scripts(&server).await - before - 200;
    assert!(acquired_by_script >= 10, "the late one was behind only {acquired_by_script} times");
}

#[tokio::test]
async fn a_token_ahead_of_the_estimate_is_followed_by_the_next_one() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let mut raw = server.raw().await;
    let first = claim(&key("foo"), TTL);
    let ahead = granted(&client, &first).await + 60_000_000;
    client.release(&first).await.unwrap();
    // An old token of a lock that shares the fence, by a client whose clock is a minute ahead.
    let () = raw.zadd("lockrt:{43681}:fencing", "last", ahead).await.unwrap();
    let owner = claim(&key("foo"), TTL);
    assert_eq!(granted(&client, &owner).await, ahead + 1);
    let left: u64 = raw.pttl("foo").await.unwrap();
    assert!(left > 9_000, "{left}");
}

#[tokio::test]
async fn a_user_who_may_not_raise_tokens_is_refused_and_leaves_nothing() {
    let server = RedisServer::start();
    rights(&server, &["+@all", "-zadd"]).await;
    let client = Redis::from_url(&url_of_locker(&server)).unwrap();
    for owner in [claim(&key("orders"), TTL), waiting_claim(&key("orders"), TTL)] {
        let error = refused(&client, &owner).await;
        assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
        assert!(error.to_string().contains("this user needs the commands"), "{error}");
        assert!(!server.has("orders").await, "the lock was left without a token");
    }
}

#[tokio::test]
async fn a_lock_without_a_token_that_cannot_be_given_back_is_not_called_refused() {
    let server = RedisServer::start();
    rights(&server, &["+@all", "-zadd", "-del"]).await;
    let client = Redis::from_url(&url_of_locker(&server)).unwrap();
    let error = refused(&client, &claim(&key("orders"), TTL)).await;
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    assert!(server.has("orders").await);
}

#[tokio::test]
async fn the_keeper_frees_a_lock_that_was_left_without_a_token() {
    let server = RedisServer::start();
    rights(&server, &["+@all", "-zadd", "-del"]).await;
    let manager = LockManager::from_url(&url_of_locker(&server)).await.unwrap();
    let policy = LockPolicy::new(Duration::from_secs(60));
    let error = manager.acquire(&key("orders"), &policy).await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    assert!(server.has("lock:orders").await);
    rights(&server, &["+@all"]).await;
    until("the lock is freed", async || !server.has("lock:orders").await).await;
}

#[tokio::test]
async fn a_claim_that_has_the_lock_by_now_gets_its_whole_ttl_and_a_new_token() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let mut raw = server.raw().await;
    let owner = claim(&key("orders"), TTL);
    let first = granted(&client, &owner).await;
    let () = raw.pexpire("orders", 1_000).await.unwrap();
    assert!(granted(&client, &owner).await > first);
    let left: u64 = raw.pttl("orders").await.unwrap();
    assert!(left > 9_000, "{left}");
}

#[tokio::test]
async fn a_lock_of_another_program_is_held_at_the_first_attempt_too() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    for (number, value) in ["", "theirs", "shop#1#aa", "shop#1#aa?"].into_iter().enumerate() {
        let lock = format!("orders:{number}");
        let () = raw.pset_ex(&lock, value, 60_000).await.unwrap();
        // A client that has not met it yet.
        let client = Redis::from_url(&server.url()).unwrap();
        for owner in [claim(&key(&lock), TTL), waiting_claim(&key(&lock), TTL)] {
            let attempt = client.try_acquire(&owner).await.unwrap();
            assert!(matches!(attempt, Attempt::Held { free_in: Some(_) }), "{attempt:?}");
        }
        assert_eq!(raw.get::<_, String>(&lock).await.unwrap(), value);
    }
}

#[tokio::test]
async fn a_server_that_is_too_old_is_asked_by_scripts() {
    let server = FakeRedis::start().await;
    let client = Redis::from_url(&server.url()).unwrap();
    for number in 0..5 {
        granted(&client, &claim(&key(&format!("orders:{number}")), TTL)).await;
    }
    // It has answered `TIME` with nonsense, so nothing is known of its clock.
    assert_eq!((server.asked("SET"), server.asked("EVALSHA")), (0, 5));
    server.tell_time();
    let client = Redis::from_url(&server.url()).unwrap();
    for number in 0..5 {
        granted(&client, &claim(&key(&format!("orders:{number}")), TTL)).await;
    }
    assert_eq!((server.asked("SET"), server.asked("EVALSHA")), (1, 10));
}
