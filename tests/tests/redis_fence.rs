//! Fencing tokens on Redis: what they survive, and where the last one is kept.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use lockrt::testing::claim;
use lockrt::{Backend, Outcome, Redis, SetupError};
use lockrt_tests::{Proxy, RedisServer, Toxic, Way, granted, key, refused};
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;

const TTL: Duration = Duration::from_secs(10);
const HOUR_US: u64 = 3_600 * 1_000_000;

async fn fence_keys(raw: &mut MultiplexedConnection) -> Vec<String> {
    raw.keys("*:fencing").await.unwrap()
}

#[tokio::test]
async fn tokens_rise_over_a_server_restart_that_loses_all_data() {
    let mut server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let mut last = 0;
    for _ in 0..3 {
        for _ in 0..5 {
            let owner = claim(&key("orders"), TTL);
            let token = granted(&client, &owner).await;
            assert!(token > last, "{token} after {last}");
            last = token;
            client.release(&owner).await.unwrap();
        }
        server.restart();
        let mut raw = server.raw().await;
        let stored: u64 = redis::cmd("DBSIZE").query_async(&mut raw).await.unwrap();
        assert_eq!(stored, 0);
        // The next call may be the one that notices.
        let _ = client.try_acquire(&claim(&key("probe"), TTL)).await;
    }
}

/// The next grant is of a client that heard of the server's time by an answer that came late, so it believes that it is
/// earlier than it is.
#[tokio::test]
async fn tokens_rise_after_the_last_one_was_deleted_also_for_a_client_that_was_told_the_time_late() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let [prompt, late] = [server.url(), proxy.url()].map(|url| Redis::from_url(&url).unwrap());
    proxy.add([Toxic::Latency { way: Way::Answer, ms: 300..301 }]);
    let probe = claim(&key("probe"), TTL);
    granted(&late, &probe).await;
    proxy.clear();

    let mut raw = server.raw().await;
    let (first, second) = (claim(&key("orders"), TTL), claim(&key("orders"), TTL));
    let token = granted(&prompt, &first).await;
    let () = redis::cmd("FLUSHALL").query_async(&mut raw).await.unwrap();
    let next = granted(&late, &second).await;
    assert!(next > token, "{next} after {token}: {} us less", token.saturating_sub(next));
}

#[tokio::test]
async fn tokens_rise_when_the_servers_clock_was_an_hour_ahead_before() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let mut raw = server.raw().await;
    let owner = claim(&key("orders"), TTL);
    let now = granted(&client, &owner).await;
    let [fence] = &fence_keys(&mut raw).await[..] else { panic!("one fence key") };
    let ahead = now + HOUR_US;
    let () = raw.zadd(fence, "last", ahead).await.unwrap();
    assert_eq!(granted(&client, &owner).await, ahead + 1);
    client.release(&owner).await.unwrap();
    assert_eq!(granted(&client, &claim(&key("orders"), TTL)).await, ahead + 2);
}

#[tokio::test]
async fn tokens_follow_the_servers_clock_and_are_not_ahead_of_it() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let mut raw = server.raw().await;
    let time = async |raw: &mut MultiplexedConnection| {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(raw).await.unwrap();
        seconds * 1_000_000 + micros
    };
    for round in 0..50 {
        let (owner, before) = (claim(&key(&format!("orders:{round}")), TTL), time(&mut raw).await);
        // Behind by the way of one answer, that to the question for the time.
        let token = granted(&client, &owner).await;
        assert!(token <= time(&mut raw).await && token + 1_000_000 > before, "{token} after {before}");
        // An attempt that is repeated has its token from the script, which looks at the clock itself.
        let before = time(&mut raw).await;
        let token = granted(&client, &owner).await;
        assert!((before..=time(&mut raw).await).contains(&token), "{token} after {before}");
    }
}

#[tokio::test]
async fn the_last_token_is_a_score_without_an_expiry_in_one_key_per_slot() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let mut raw = server.raw().await;
    let mut last = 0;
    for _ in 0..3 {
        let owner = claim(&key("foo"), TTL);
        last = granted(&client, &owner).await;
        client.release(&owner).await.unwrap();
    }
    // 12182 is the slot of `foo`, and 43681 the smallest number in it.
    assert_eq!(fence_keys(&mut raw).await, ["lockrt:{43681}:fencing"]);
    let stored: Vec<(String, String)> = raw.zrange_withscores("lockrt:{43681}:fencing", 0, -1).await.unwrap();
    assert_eq!(stored, [(String::from("last"), last.to_string())]);
    let left: i64 = raw.pttl("lockrt:{43681}:fencing").await.unwrap();
    assert_eq!(left, -1);
}

#[tokio::test]
async fn a_token_keeps_its_sixteen_digits_in_the_first_tenth_of_a_second() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let mut raw = server.raw().await;
    let mut early = 0;
    let started = std::time::Instant::now();
    while early < 20 {
        assert!(started.elapsed() < Duration::from_secs(10), "only {early} tokens began a second");
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(&mut raw).await.unwrap();
        if micros >= 90_000 {
            tokio::time::sleep(Duration::from_micros(1_000_000 - micros)).await;
            continue;
        }
        // The token of the second attempt is put together by the script.
        let owner = claim(&key("orders"), TTL);
        granted(&client, &owner).await;
        let token = granted(&client, &owner).await;
        client.release(&owner).await.unwrap();
        assert!((seconds * 1_000_000..seconds * 1_000_000 + 2_000_000).contains(&token), "{token}");
        early += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_fence_key_that_holds_no_usable_number_refuses_before_anything_is_taken() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let mut raw = server.raw().await;
    for bad in ["9007199254740991", "9007199254740993", "inf"] {
        let () = raw.zadd("lockrt:{43681}:fencing", "last", bad).await.unwrap();
        let error = refused(&client, &claim(&key("foo"), TTL)).await;
        assert_eq!(error.outcome(), Outcome::NotApplied);
        assert!(error.to_string().contains("fence key"), "{error}");
        let locked: bool = raw.exists("foo").await.unwrap();
        assert!(!locked, "taken beside {bad}");
    }
}

#[tokio::test]
async fn the_prefix_of_fence_keys_can_be_chosen_and_has_no_braces() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap().fence_prefix("shop/").unwrap();
    granted(&client, &claim(&key("foo"), TTL)).await;
    assert_eq!(fence_keys(&mut server.raw().await).await, ["shop/{43681}:fencing"]);
    let refused = Redis::from_url(&server.url()).unwrap().fence_prefix("shop{1}").unwrap_err();
    assert!(matches!(refused, SetupError::InvalidPrefix { .. }), "{refused}");
}
