//! The script cache of the server, and what scripts refuse by themselves.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use lockrt::testing::claim;
use lockrt::{Backend, Outcome, Redis, Released, Renewed};
use lockrt_tests::{RedisServer, granted, key, refused};
use redis::AsyncCommands as _;

const TTL: Duration = Duration::from_secs(10);

async fn flush_scripts(server: &RedisServer) {
    let mut raw = server.raw().await;
    let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut raw).await.unwrap();
}

#[tokio::test]
async fn each_call_survives_a_flushed_script_cache() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let owner = claim(&key("orders"), TTL);
    let first = granted(&client, &owner).await;
    flush_scripts(&server).await;
    assert!(granted(&client, &owner).await > first);
    flush_scripts(&server).await;
    assert!(matches!(client.renew(&[&owner]).await[..], [Renewed::Extended]));
    flush_scripts(&server).await;
    assert_eq!(client.release(&owner).await.unwrap(), Released::Freed);
}

#[tokio::test]
async fn a_flush_between_the_calls_of_a_large_renewal_is_repaired_too() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let claims: Vec<_> = (0..250).map(|number| claim(&key(&format!("n:{number}")), TTL)).collect();
    for claim in &claims {
        granted(&client, claim).await;
    }
    flush_scripts(&server).await;
    let answers = client.renew(&claims.iter().collect::<Vec<_>>()).await;
    assert!(answers.iter().all(|answer| matches!(answer, Renewed::Extended)), "{answers:?}");
}

#[tokio::test]
async fn a_ttl_that_the_server_cannot_keep_is_refused_before_anything_is_sent() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let owner = claim(&key("orders"), TTL);
    granted(&client, &owner).await;
    let before = server.commandstats().await;
    for ttl in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
        let error = refused(&client, &claim(&key("other"), ttl)).await;
        assert!(error.is_permanent() && error.outcome() == Outcome::NotApplied, "{error}");
        // The good claim beside it is renewed all the same.
        let answers = client.renew(&[&owner.with_ttl(ttl), &owner]).await;
        assert!(matches!(&answers[..], [Renewed::Unknown(e), Renewed::Extended] if e.is_permanent()));
    }
    let calls = server.commandstats().await["evalsha"] - before.get("evalsha").copied().unwrap_or_default();
    assert_eq!(calls, 3);
    assert!(server.raw().await.exists::<_, bool>("orders").await.unwrap());
}

#[tokio::test]
async fn the_scripts_refuse_a_ttl_of_zero_by_themselves() {
    let acquire = include_str!("../../lockrt/src/backend/redis/acquire.lua");
    let renew = include_str!("../../lockrt/src/backend/redis/renew.lua");
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let () = raw.pset_ex("held", "me", 60_000).await.unwrap();
    for ttl in ["0", "-1", "-9223372036854775808", "", "soon"] {
        let mut calls = [redis::cmd("EVAL"), redis::cmd("EVAL"), redis::cmd("EVAL")];
        calls[0].arg(acquire).arg(&["2", "free", "fence", "me", ttl]);
        calls[1].arg(acquire).arg(&["2", "held", "fence", "me", ttl]);
        calls[2].arg(renew).arg(&["1", "held", "me", ttl]);
        for call in calls {
            let answer: redis::RedisResult<redis::Value> = call.query_async(&mut raw).await;
            assert!(answer.unwrap_err().to_string().contains("at least 1 ms"));
        }
        let left: i64 = raw.pttl("held").await.unwrap();
        assert!(left > 50_000, "{ttl} has changed the expiry to {left}");
        assert!(!raw.exists::<_, bool>("free").await.unwrap());
    }
}
