//! Fenced writes on Redis: who passes, what is written, and what it costs.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::time::Duration;

use lockrt::fence::redis::{REGISTER, RedisFence, WRITE, Write, WriteScript};
use lockrt::fence::{FenceError, MAX_RESOURCE_BYTES};
use lockrt::{FencingToken, LockManager, LockPolicy, Outcome};
use lockrt_tests::{RedisServer, key, soon};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands as _, Value};

const OLD: FencingToken = FencingToken::new(1_790_000_000_000_033);
const NEW: FencingToken = FencingToken::new(1_790_000_000_000_034);

/// Fences around two hashes, whose tokens are kept in the two ways.
fn fences() -> [(&'static str, RedisFence); 2] {
    [("a", RedisFence::beside("a").unwrap()), ("b", RedisFence::inside("b").unwrap())]
}

fn price(cents: u64) -> Write {
    Write::hset(&[("price", cents)])
}

async fn price_of(raw: &mut MultiplexedConnection, data: &str) -> Option<u64> {
    raw.hget(data, "price").await.unwrap()
}

#[tokio::test]
async fn after_a_registration_older_holders_neither_register_nor_write() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    for (data, fence) in fences() {
        fence.register(&mut raw, OLD).await.unwrap();
        fence.register(&mut raw, NEW).await.unwrap();
        let refusals = [
            fence.register(&mut raw, OLD).await.unwrap_err(),
            fence.write(&mut raw, OLD, price(1)).await.unwrap_err(),
            fence.write_once(&mut raw, OLD, price(1)).await.unwrap_err(),
        ];
        for refused in refusals {
            assert!(refused.is_stale(), "{refused}");
            assert_eq!((refused.offered(), refused.stored()), (Some(OLD), Some(NEW)));
            let text = refused.to_string();
            assert!(text.contains(&OLD.to_string()) && text.contains(&NEW.to_string()), "{text}");
        }
        assert_eq!(price_of(&mut raw, data).await, None, "a refused write has landed");
        fence.write(&mut raw, NEW, price(2)).await.unwrap();
        assert_eq!(price_of(&mut raw, data).await, Some(2));
    }
}

#[tokio::test]
async fn a_write_refuses_older_holders_and_lets_its_own_write_again() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    for (data, fence) in fences() {
        fence.write(&mut raw, OLD, price(1)).await.unwrap();
        fence.write(&mut raw, NEW, price(2)).await.unwrap();
        fence.write(&mut raw, NEW, price(3)).await.unwrap();
        assert!(fence.write(&mut raw, OLD, price(4)).await.unwrap_err().is_stale());
        assert_eq!(price_of(&mut raw, data).await, Some(3));
    }
}

#[tokio::test]
async fn one_write_per_grant_registered_or_not() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    for (data, fence) in fences() {
        fence.write_once(&mut raw, OLD, price(1)).await.unwrap();
        let refused = fence.write_once(&mut raw, OLD, price(2)).await.unwrap_err();
        assert!(refused.is_repeated(), "{refused}");
        assert_eq!((refused.offered(), refused.stored()), (Some(OLD), Some(OLD)));
        fence.register(&mut raw, NEW).await.unwrap();
        fence.write_once(&mut raw, NEW, price(3)).await.unwrap();
        fence.register(&mut raw, NEW).await.unwrap();
        assert!(fence.write_once(&mut raw, NEW, price(4)).await.unwrap_err().is_repeated());
        assert_eq!(price_of(&mut raw, data).await, Some(3));
        fence.write(&mut raw, NEW, price(5)).await.unwrap();
        assert_eq!(price_of(&mut raw, data).await, Some(5));
    }
}

#[tokio::test]
async fn commands_write_any_type_and_give_their_own_answer() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let fence = RedisFence::beside("n").unwrap();
    assert_eq!(fence.write(&mut raw, OLD, Write::set(40)).await.unwrap(), Value::Okay);
    let added = fence.write(&mut raw, OLD, Write::command("INCRBY").arg(2)).await.unwrap();
    assert_eq!(added, Value::Int(42));
    let not_set = Write::command("SET").arg(1).arg("NX");
    assert_eq!(fence.write(&mut raw, OLD, not_set).await.unwrap(), Value::Nil);
    let list = RedisFence::beside("list").unwrap();
    list.write(&mut raw, OLD, Write::command("RPUSH").arg(&["x", "y"])).await.unwrap();
    let items: Vec<String> = raw.lrange("list", 0, -1).await.unwrap();
    assert_eq!(items, ["x", "y"]);
    let bytes = [0, 255, b'\r', b'\n'];
    fence.write(&mut raw, OLD, Write::set(&bytes[..])).await.unwrap();
    let stored: Vec<u8> = raw.get("n").await.unwrap();
    assert_eq!(stored, bytes);
}

#[tokio::test]
async fn a_script_sees_its_own_keys_and_arguments_and_gives_its_own_answer() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let move_all = WriteScript::new(
        "local moved = 0 -- a comment at the end is no harm
         for _, amount in ipairs(ARGV) do
           redis.call('INCRBY', KEYS[1], amount)
           moved = redis.call('DECRBY', KEYS[2], amount)
         end
         return {moved, #KEYS, #ARGV} -- like this",
    );
    let fence = RedisFence::beside("{x}to").unwrap();
    let write = || Write::script(&move_all).key("{x}from").arg(&[5, 6, 7]);
    let answer = fence.write_once(&mut raw, OLD, write()).await.unwrap();
    assert_eq!(answer, Value::Array(vec![Value::Int(-18), Value::Int(2), Value::Int(3)]));
    assert!(fence.write_once(&mut raw, OLD, write()).await.unwrap_err().is_repeated());
    let moved: (i64, i64) = raw.mget(&["{x}to", "{x}from"]).await.unwrap();
    assert_eq!(moved, (18, -18));
    let empty = WriteScript::new("");
    assert_eq!(fence.write(&mut raw, OLD, Write::script(&empty)).await.unwrap(), Value::Nil);
}

#[tokio::test]
async fn a_script_that_fails_half_way_is_in_doubt_and_counts_as_a_write() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    for (tail, says) in [
        ("redis.call('INCR', KEYS[2])", "WRONGTYPE"),
        ("error('my own')", "my own"),
        ("return redis.error_reply('NOT today')", "NOT today"),
    ] {
        let half = WriteScript::new(&format!("redis.call('SET', KEYS[1], 1) {tail}"));
        let fence = RedisFence::beside("half").unwrap();
        let () = raw.del(&["half", fence.token_key(), "list"]).await.unwrap();
        let () = raw.rpush("list", 1).await.unwrap();
        let refused = fence.write(&mut raw, NEW, Write::script(&half).key("list")).await.unwrap_err();
        assert_eq!(refused.outcome(), Outcome::Unknown, "{refused}");
        assert!(refused.to_string().contains(says), "{refused}");
        assert!(fence.write(&mut raw, OLD, Write::set(2)).await.unwrap_err().is_stale());
        assert!(fence.write_once(&mut raw, NEW, Write::set(2)).await.unwrap_err().is_repeated());
    }
}

#[tokio::test]
async fn each_call_is_one_round_trip_and_two_after_the_server_forgot_the_script() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let fence = RedisFence::beside("n").unwrap();
    let script = WriteScript::new("return redis.call('SET', KEYS[1], ARGV[1])");
    let calls = async |raw: &mut MultiplexedConnection| {
        fence.register(raw, NEW).await.unwrap();
        fence.write(raw, NEW, Write::set(1)).await.unwrap();
        fence.write(raw, NEW, Write::script(&script).arg(2)).await.unwrap();
        assert!(fence.write(raw, OLD, Write::set(3)).await.unwrap_err().is_stale());
    };
    let asked = async || {
        let stats = server.commandstats().await;
        ["evalsha", "eval", "script|load"].map(|name| stats.get(name).copied().unwrap_or_default())
    };
    calls(&mut raw).await;
    assert_eq!(asked().await, [4, 3, 0], "first calls");
    calls(&mut raw).await;
    assert_eq!(asked().await, [8, 3, 0], "later calls");
    let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut raw).await.unwrap();
    calls(&mut raw).await;
    assert_eq!(asked().await, [12, 6, 0], "after the scripts were flushed");
}

#[tokio::test]
async fn tokens_are_compared_exactly_over_all_64_bits() {
    const EXACT: u64 = 1 << 53;
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let rising = [1, 9, 10, 99, EXACT - 1, EXACT, EXACT + 1, EXACT + 2, u64::MAX - 1, u64::MAX];
    let fence = RedisFence::beside("n").unwrap();
    for pair in rising.map(FencingToken::new).windows(2) {
        fence.write(&mut raw, pair[1], Write::set(1)).await.unwrap();
        let refused = fence.write(&mut raw, pair[0], Write::set(2)).await.unwrap_err();
        assert_eq!((refused.offered(), refused.stored()), (Some(pair[0]), Some(pair[1])), "{refused}");
    }
}

#[tokio::test]
async fn leases_of_successive_holders_pass_in_their_order() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let manager = LockManager::from_url(&server.url()).await.unwrap();
    let policy = LockPolicy::new(Duration::from_secs(10)).require_fencing();
    let fence = RedisFence::beside("price").unwrap();
    let first = manager.acquire(&key("quote"), &policy).await.unwrap();
    fence.register(&mut raw, first.lease()).await.unwrap();
    let former = first.lease().clone();
    first.release().await;
    let second = manager.acquire(&key("quote"), &policy).await.unwrap();
    fence.write(&mut raw, second.lease(), Write::set(120)).await.unwrap();
    let refused = fence.write(&mut raw, &former, Write::set(110)).await.unwrap_err();
    assert_eq!((refused.offered(), refused.stored()), (former.fencing(), second.lease().fencing()));
    let price: u64 = raw.get("price").await.unwrap();
    assert_eq!(price, 120);
}

#[tokio::test]
async fn other_clients_pass_by_the_published_scripts() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let call = |script: &str, args: &[&str]| {
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(script).arg(2).arg("n").arg("{n}:fence").arg(args);
        cmd
    };
    let ask = async |raw: &mut MultiplexedConnection, script: &str, args: &[&str]| -> Vec<String> {
        call(script, args).query_async(raw).await.unwrap()
    };
    // Tokens with leading zeros are the same tokens.
    assert_eq!(ask(&mut raw, REGISTER, &["0000000000000033", "write", "always"]).await, ["done"]);
    assert_eq!(ask(&mut raw, WRITE, &["34", "once", "60000", "SET", "1"]).await, ["done", "OK"]);
    assert_eq!(ask(&mut raw, WRITE, &["034", "once", "60000", "SET", "2"]).await, ["repeated", "34"]);
    assert_eq!(ask(&mut raw, WRITE, &["33", "write", "60000", "SET", "3"]).await, ["stale", "34"]);
    let refused = RedisFence::beside("n").unwrap().register(&mut raw, FencingToken::new(33)).await;
    assert_eq!(refused.unwrap_err().stored(), Some(FencingToken::new(34)));
    for keep in ["0", "-1", "", "soon"] {
        let refused = call(WRITE, &["35", "write", keep, "SET", "4"]).query_async::<Value>(&mut raw).await;
        assert!(refused.unwrap_err().to_string().contains("at least 1 ms"), "{keep}");
    }
    let value: u64 = raw.get("n").await.unwrap();
    assert_eq!(value, 1);
}

#[tokio::test]
async fn a_server_that_is_gone_leaves_the_write_in_doubt_and_the_key_untold() {
    let mut server = RedisServer::start();
    let mut raw = server.raw().await;
    let fence = RedisFence::beside("mail:jane@example.org").unwrap();
    fence.register(&mut raw, OLD).await.unwrap();
    server.kill();
    let refused = soon("an error", fence.write(&mut raw, OLD, Write::set(1))).await.unwrap_err();
    assert!(matches!(refused, FenceError::Unavailable { .. }), "{refused}");
    assert_eq!(refused.outcome(), Outcome::Unknown);
    for text in [refused.to_string(), format!("{refused:?} {fence:?}")] {
        assert!(text.contains("sha256:") && !text.contains("jane"), "{text}");
    }
}

#[tokio::test]
async fn the_longest_key_and_a_write_of_many_fields_pass() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let long = "x".repeat(MAX_RESOURCE_BYTES);
    let fence = RedisFence::beside(&long).unwrap();
    let fields: Vec<(String, u64)> = (0..3_000).map(|n| (format!("f{n}"), n)).collect();
    let added = fence.write(&mut raw, OLD, Write::hset(&fields)).await.unwrap();
    assert_eq!(added, Value::Int(3_000));
    let too_many: Vec<(String, u64)> = (0..9_000).map(|n| (format!("g{n}"), n)).collect();
    let refused = fence.write(&mut raw, OLD, Write::hset(&too_many)).await.unwrap_err();
    assert_eq!(refused.outcome(), Outcome::NotApplied, "{refused}");
    let fields: u64 = raw.hlen(&long).await.unwrap();
    assert_eq!(fields, 3_000);
}
