//! What a fence on Redis cannot use: each gives its own error, and nothing is written.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::time::Duration;

use lockrt::fence::redis::{RedisFence, Write, WriteScript};
use lockrt::fence::{FenceError, Mistake};
use lockrt::{FencingToken, Outcome};
use lockrt_tests::RedisServer;
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;

const TOKEN: FencingToken = FencingToken::new(1_790_000_000_000_033);

fn mistake<T: std::fmt::Debug>(result: Result<T, FenceError>) -> Mistake {
    match result {
        Err(FenceError::Invalid(mistake)) => mistake,
        other => panic!("no mistake: {other:?}"),
    }
}

async fn keys(raw: &mut MultiplexedConnection) -> Vec<String> {
    let mut keys: Vec<String> = raw.keys("*").await.unwrap();
    keys.sort();
    keys
}

#[test]
fn a_key_must_have_a_name_of_at_most_a_kibibyte() {
    let long = "x".repeat(1_025);
    for fence in [RedisFence::beside, RedisFence::inside] {
        assert_eq!(mistake(fence("")), Mistake::EmptyResource);
        assert_eq!(mistake(fence(&long)), Mistake::LongResource { bytes: 1_025 });
        assert!(fence(&long[1..]).is_ok());
    }
}

#[test]
fn braces_that_are_no_hash_tag_leave_no_place_beside_the_data() {
    for data in ["a}b", "a{b", "{}a", "}{", "a{}{b}"] {
        assert_eq!(mistake(RedisFence::beside(data)), Mistake::Braces, "{data}");
        assert!(RedisFence::inside(data).is_ok(), "{data}");
    }
}

#[test]
fn a_token_is_kept_for_at_least_a_millisecond_and_inside_as_long_as_the_data() {
    let beside = RedisFence::beside("a").unwrap();
    for time in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
        assert_eq!(mistake(beside.clone().kept_for(time)), Mistake::Expiry, "{time:?}");
    }
    let inside = RedisFence::inside("a").unwrap();
    assert_eq!(mistake(inside.kept_for(Duration::from_secs(60))), Mistake::ExpiryOfData);
}

#[tokio::test]
async fn without_a_token_or_with_zero_nothing_is_sent() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let fence = RedisFence::beside("a").unwrap();
    for token in [None, Some(FencingToken::new(0))] {
        let refusals = [
            fence.register(&mut raw, token).await.unwrap_err(),
            fence.write(&mut raw, token, Write::set(1)).await.unwrap_err(),
            fence.write_once(&mut raw, token, Write::set(1)).await.unwrap_err(),
        ];
        for refused in refusals {
            match token {
                None => assert!(matches!(refused, FenceError::NoToken { .. }), "{refused}"),
                Some(_) => assert!(matches!(refused, FenceError::Invalid(Mistake::TokenZero)), "{refused}"),
            }
        }
    }
    assert!(!server.commandstats().await.contains_key("evalsha"));
}

#[tokio::test]
async fn a_command_that_may_replace_the_hash_with_its_token_is_not_sent() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let fence = RedisFence::inside("a").unwrap();
    for command in ["SET", "del", "EXPIRE", "RENAME"] {
        let refused = fence.write(&mut raw, TOKEN, Write::command(command).arg(1)).await;
        assert_eq!(mistake(refused), Mistake::Replaces { command: command.to_owned() });
    }
    assert!(!server.commandstats().await.contains_key("evalsha"));
    fence.write(&mut raw, TOKEN, Write::command("hincrby").arg("n").arg(1)).await.unwrap();
}

#[tokio::test]
async fn data_of_another_type_stay_as_they_are() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let () = raw.set("text", "x").await.unwrap();
    for fence in [RedisFence::beside("text").unwrap(), RedisFence::inside("text").unwrap()] {
        let refused = fence.write(&mut raw, TOKEN, Write::hset(("f", 1))).await.unwrap_err();
        assert!(matches!(refused, FenceError::Unusable { .. }), "{refused}");
        assert!(refused.to_string().contains("another type"), "{refused}");
        let text: String = raw.get("text").await.unwrap();
        assert_eq!(text, "x");
    }
    let refused = RedisFence::inside("text").unwrap().register(&mut raw, TOKEN).await.unwrap_err();
    assert!(matches!(refused, FenceError::Unusable { .. }), "{refused}");
}

#[tokio::test]
async fn a_token_key_of_another_type_or_without_a_number_lets_nobody_pass() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let fence = RedisFence::beside("n").unwrap();
    let () = raw.set(fence.token_key(), "1").await.unwrap();
    for refused in [
        fence.register(&mut raw, TOKEN).await.unwrap_err(),
        fence.write(&mut raw, TOKEN, Write::set(1)).await.unwrap_err(),
    ] {
        assert!(refused.to_string().contains("another type"), "{refused}");
    }
    for bad in
        ["", "many", "-1", "1.5", "1e3", "nan", "0x10", "123456789012345678901", "99999999999999999999"]
    {
        for field in ["lockrt:token", "lockrt:written"] {
            let () = raw.del(fence.token_key()).await.unwrap();
            let () = raw.hset(fence.token_key(), field, bad).await.unwrap();
            let refused = fence.write_once(&mut raw, TOKEN, Write::set(1)).await;
            // As a last writer, a number above all tokens is unlikely and no harm.
            if (field, bad) == ("lockrt:written", "99999999999999999999") {
                refused.unwrap();
                let () = raw.del("n").await.unwrap();
                continue;
            }
            let refused = refused.unwrap_err();
            assert!(matches!(refused, FenceError::Unusable { .. }), "{field} {bad}: {refused}");
            assert!(refused.to_string().contains("no decimal number"), "{refused}");
        }
    }
    let written: bool = raw.exists("n").await.unwrap();
    assert!(!written);
}

#[tokio::test]
async fn a_write_that_redis_refuses_changes_nothing_and_can_be_tried_again() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let () = raw.set("n", "many").await.unwrap();
    let fence = RedisFence::beside("n").unwrap();
    for write in [
        Write::command("INCRBY").arg(1),
        Write::command("SET"),
        Write::command("NOSUCH"),
        Write::command("SET").arg(&["1", "2", "3"]),
        // More than Lua passes on in one call.
        Write::command("RPUSH").arg(vec!["1"; 9_000]),
    ] {
        let refused = fence.write_once(&mut raw, TOKEN, write).await.unwrap_err();
        assert!(matches!(refused, FenceError::Unavailable { .. }), "{refused}");
        assert_eq!(refused.outcome(), Outcome::NotApplied, "{refused}");
        assert!(refused.to_string().ends_with("nothing was written"), "{refused}");
    }
    let text: String = raw.get("n").await.unwrap();
    assert_eq!(text, "many");
    fence.write_once(&mut raw, TOKEN, Write::set(1)).await.unwrap();
    assert!(fence.write_once(&mut raw, TOKEN, Write::set(2)).await.unwrap_err().is_repeated());
}

#[tokio::test]
async fn a_user_who_may_not_keep_the_token_writes_nothing() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let user = ["SETUSER", "writer", "on", "nopass", "~*", "+evalsha", "+eval", "+hmget", "+set", "-hset"];
    let () = redis::cmd("ACL").arg(&user).query_async(&mut raw).await.unwrap();
    let mut writer = server.raw().await;
    let () = redis::cmd("AUTH").arg(&["writer", "x"]).query_async(&mut writer).await.unwrap();
    let fence = RedisFence::beside("n").unwrap();
    let refused = fence.write(&mut writer, TOKEN, Write::set(1)).await.unwrap_err();
    assert_eq!(refused.outcome(), Outcome::NotApplied, "{refused}");
    assert!(refused.to_string().contains("hset"), "{refused}");
    assert_eq!(keys(&mut raw).await, [""; 0]);
}

#[tokio::test]
async fn a_script_that_is_no_lua_writes_nothing() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let fence = RedisFence::beside("n").unwrap();
    let broken = WriteScript::new("redis.call('SET', KEYS[1], 1) return return");
    let refused = fence.write(&mut raw, TOKEN, Write::script(&broken)).await.unwrap_err();
    assert_eq!(refused.outcome(), Outcome::NotApplied, "{refused}");
    assert_eq!(keys(&mut raw).await, [""; 0]);
}
