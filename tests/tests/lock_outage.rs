//! What locks say and do while their Redis is stopped, gone, or has lost their keys.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::cell::Cell;
use std::sync::LazyLock;
use std::time::Duration;

use lockrt::{LockKey, LockPolicy};
use lockrt_tests::{RedisServer, Setup, soon, until};
use tokio::time::Instant;

const LONG: LockPolicy = LockPolicy::new(Duration::from_secs(60));
/// How long a caller waits for a release.
const AWAITED: Duration = Duration::from_millis(250);

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

#[tokio::test]
async fn a_redis_that_is_stopped_or_gone_is_unavailable_within_the_bound() {
    let mut server = RedisServer::start();
    let manager = server.manager();
    let policy = LockPolicy::new(Duration::from_millis(900));
    manager.run(&KEY, &policy, async |_| ()).await.unwrap();
    for gone in [false, true] {
        if gone {
            server.kill();
        } else {
            server.pause();
        }
        for policy in [policy, policy.wait_forever()] {
            let started = Instant::now();
            let ran = Cell::new(false);
            let ended = soon("a refusal", manager.run(&KEY, &policy, async |_| ran.set(true))).await;
            assert!(!ran.get(), "the body ran without a grant");
            let refusal = ended.unwrap_err();
            assert!(refusal.is_unavailable(), "{refusal:?}");
            assert!(started.elapsed() <= policy.ttl() + RedisServer::SLACK, "{:?}", started.elapsed());
        }
        server.resume();
    }
}

#[tokio::test]
async fn a_value_wins_over_a_redis_that_is_stopped_or_has_lost_the_key() {
    let server = RedisServer::start();
    let manager = server.manager();
    let mut raw = server.raw().await;
    let lost = manager.run(&KEY, &LONG, async |_| {
        let _: () = ::redis::cmd("FLUSHALL").query_async(&mut raw).await.unwrap();
        17
    });
    assert_eq!(lost.await.unwrap(), 17);
    let started = Instant::now();
    let stopped = manager.run(&KEY, &LONG, async |_| {
        server.pause();
        17
    });
    assert_eq!(soon("the value", stopped).await.unwrap(), 17);
    assert!(started.elapsed() <= AWAITED + RedisServer::SLACK, "{:?}", started.elapsed());
    server.resume();
    until("the release is repeated", async || server.held().await == 0).await;
}
