//! Where a fence on Redis keeps the token, for how long, and what it means to lose it.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::collections::HashMap;
use std::time::Duration;

use lockrt::FencingToken;
use lockrt::fence::redis::{RedisFence, Write, WriteScript};
use lockrt_tests::{RedisServer, until};
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;

const OLD: FencingToken = FencingToken::new(1_790_000_000_000_033);
const NEW: FencingToken = FencingToken::new(1_790_000_000_000_034);

async fn left_ms(raw: &mut MultiplexedConnection, key: &str) -> i64 {
    raw.pttl(key).await.unwrap()
}

#[tokio::test]
async fn beside_the_data_it_is_two_fields_of_a_hash_in_decimal_digits() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let fence = RedisFence::beside("price").unwrap();
    fence.register(&mut raw, OLD).await.unwrap();
    let fields: HashMap<String, String> = raw.hgetall("{price}:fence").await.unwrap();
    assert_eq!(fields, [("lockrt:token".to_owned(), OLD.to_string())].into());
    fence.write(&mut raw, NEW, Write::set(1)).await.unwrap();
    let fields: HashMap<String, String> = raw.hgetall("{price}:fence").await.unwrap();
    let both = ["lockrt:token", "lockrt:written"].map(|field| (field.to_owned(), NEW.to_string()));
    assert_eq!(fields, both.into());
    let bytes: u64 =
        redis::cmd("MEMORY").arg(&["USAGE", "{price}:fence"]).query_async(&mut raw).await.unwrap();
    assert!(bytes <= 200, "the page says some 150 bytes, not {bytes}");
}

#[tokio::test]
async fn inside_the_data_it_is_two_fields_of_theirs_and_their_expiry_stays() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let fence = RedisFence::inside("quote").unwrap();
    fence.write(&mut raw, OLD, Write::hset(("price", 1))).await.unwrap();
    assert_eq!(left_ms(&mut raw, "quote").await, -1);
    let () = raw.pexpire("quote", 60_000).await.unwrap();
    fence.register(&mut raw, NEW).await.unwrap();
    fence.write(&mut raw, NEW, Write::hset(("price", 2))).await.unwrap();
    assert!((1..=60_000).contains(&left_ms(&mut raw, "quote").await));
    let fields: HashMap<String, u64> = raw.hgetall("quote").await.unwrap();
    let tokens = ["lockrt:token", "lockrt:written"].map(|field| (field.to_owned(), NEW.get()));
    assert_eq!(fields, [("price".to_owned(), 2)].into_iter().chain(tokens).collect());
    let keys: Vec<String> = raw.keys("*").await.unwrap();
    assert_eq!(keys, ["quote"]);
}

#[tokio::test]
async fn beside_the_data_it_has_no_expiry_unless_one_is_given_which_each_use_renews() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let (for_ever, hour) = (RedisFence::beside("n").unwrap(), Duration::from_secs(3_600));
    let for_an_hour = for_ever.clone().kept_for(hour).unwrap();
    let key = for_ever.token_key();
    for_ever.register(&mut raw, OLD).await.unwrap();
    assert_eq!(left_ms(&mut raw, key).await, -1);
    for step in 0..3 {
        let () = raw.pexpire(key, 60_000).await.unwrap();
        match step {
            0 => for_an_hour.register(&mut raw, OLD).await.unwrap(),
            1 => drop(for_an_hour.write(&mut raw, OLD, Write::set(1)).await.unwrap()),
            _ => {
                let script = WriteScript::new("redis.call('SET', KEYS[1], 2)");
                drop(for_an_hour.write(&mut raw, OLD, Write::script(&script)).await.unwrap());
            }
        }
        assert!((3_500_000..=3_600_000).contains(&left_ms(&mut raw, key).await), "step {step}");
    }
    assert_eq!(left_ms(&mut raw, "n").await, -1, "the data have no part in it");
    // A refused holder does not keep it alive.
    let () = raw.pexpire(key, 60_000).await.unwrap();
    assert!(for_an_hour.write(&mut raw, FencingToken::new(1), Write::set(1)).await.unwrap_err().is_stale());
    assert!(left_ms(&mut raw, key).await <= 60_000);
    for_ever.register(&mut raw, OLD).await.unwrap();
    assert_eq!(left_ms(&mut raw, key).await, -1, "a version that keeps it for ever takes over");
}

#[tokio::test]
async fn a_stale_write_cannot_bring_back_what_was_deleted_or_has_expired() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let fence = RedisFence::beside("n").unwrap();
    fence.write(&mut raw, OLD, Write::set(1)).await.unwrap();
    fence.write(&mut raw, NEW, Write::command("DEL")).await.unwrap();
    assert!(fence.write(&mut raw, OLD, Write::set(2)).await.unwrap_err().is_stale());
    fence.write(&mut raw, NEW, Write::command("SET").arg(3).arg("PX").arg(1)).await.unwrap();
    until("the data have expired", async || !raw.clone().exists::<_, bool>("n").await.unwrap()).await;
    assert!(fence.write(&mut raw, OLD, Write::set(4)).await.unwrap_err().is_stale());
    assert!(!raw.exists::<_, bool>("n").await.unwrap());
}

#[tokio::test]
async fn a_lost_token_lets_a_stale_write_land_as_the_documentation_says() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let fence = RedisFence::beside("n").unwrap().kept_for(Duration::from_millis(1)).unwrap();
    fence.write(&mut raw, NEW, Write::set(1)).await.unwrap();
    let gone = async || !raw.clone().exists::<_, bool>(fence.token_key()).await.unwrap();
    until("the token has expired", gone).await;
    fence.write(&mut raw, OLD, Write::set(2)).await.unwrap();
}

#[tokio::test]
async fn a_token_is_in_the_slot_of_its_data_and_no_two_keys_share_one() {
    let server = RedisServer::start_with(&["--cluster-enabled", "yes"]);
    let mut raw = server.raw().await;
    let slot = async |raw: &mut MultiplexedConnection, key: &str| -> u64 {
        redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).query_async(raw).await.unwrap()
    };
    let mut token_keys = Vec::new();
    for data in ["a", "{a}", "{a}:fence", "quote:{acme}:7", "{{a}}", "x{a}y{b}", "é", "a b", ":", "a:fence"]
    {
        let fence = RedisFence::beside(data).unwrap();
        assert_eq!(slot(&mut raw, data).await, slot(&mut raw, fence.token_key()).await, "{data}");
        token_keys.push(fence.token_key().to_owned());
    }
    let count = token_keys.len();
    token_keys.sort();
    token_keys.dedup();
    assert_eq!(token_keys.len(), count, "{token_keys:?}");
}

#[tokio::test]
async fn a_cluster_takes_a_fenced_write_and_refuses_a_script_over_two_slots() {
    let server = RedisServer::start_with(&["--cluster-enabled", "yes"]);
    let mut raw = server.raw().await;
    let () = redis::cmd("CLUSTER").arg(&["ADDSLOTSRANGE", "0", "16383"]).query_async(&mut raw).await.unwrap();
    until("the cluster is up", async || {
        let info: String = redis::cmd("CLUSTER").arg("INFO").query_async(&mut raw.clone()).await.unwrap();
        info.contains("cluster_state:ok")
    })
    .await;
    for fence in [RedisFence::beside("a").unwrap(), RedisFence::beside("{b}c").unwrap()] {
        fence.register(&mut raw, OLD).await.unwrap();
        fence.write(&mut raw, NEW, Write::set(1)).await.unwrap();
        assert!(fence.write(&mut raw, OLD, Write::set(2)).await.unwrap_err().is_stale());
    }
    let script = WriteScript::new("redis.call('SET', KEYS[1], 3)");
    let fence = RedisFence::beside("a").unwrap();
    let refused = fence.write(&mut raw, NEW, Write::script(&script).key("elsewhere")).await.unwrap_err();
    assert!(refused.to_string().contains("different slots"), "{refused}");
    let value: u64 = raw.get("a").await.unwrap();
    assert_eq!(value, 1);
}
