//! Ten thousand waits that are given up at once. One test, since it looks at the memory of its process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::alloc::System;
use std::time::{Duration, Instant};

use lockrt::{LockKey, LockManager, LockPolicy};
use lockrt_tests::{RedisServer, Setup};
use redis::aio::MultiplexedConnection;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::task::JoinSet;
use tokio::time::sleep;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const WAITERS: u32 = 10_000;
const ROUNDS: u32 = 2;
const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(600)).wait_forever();
/// The machine runs other tests, too.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` holds, longer than anything with fewer waiters takes.
async fn by_and_by(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Locks that somebody else holds, who would call those who wait.
async fn hold(server: &RedisServer, keys: u32) {
    let script =
        "for i = 0, ARGV[1] - 1 do redis.call('SET', 'lock:orders:' .. i, 'shop#1#ab', 'PX', 600000) end";
    let mut raw = server.raw().await;
    let () = redis::cmd("EVAL").arg(script).arg(0).arg(keys).query_async(&mut raw).await.unwrap();
}

/// How many keys have a queue, counted by the server; none if a busy machine took too long to say.
async fn queues(raw: &mut MultiplexedConnection) -> Option<u32> {
    let script = "return #redis.call('KEYS', '*}:queue')";
    redis::cmd("EVAL").arg(script).arg(0).query_async(raw).await.ok()
}

/// What the process has of the allocator, in bytes.
fn allocated() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Lets them all wait for `keys` keys and gives them up.
async fn wait_and_give_up(raw: &mut MultiplexedConnection, manager: &LockManager, keys: u32) {
    let mut waiting = JoinSet::new();
    // Few begin at a time, else those of a busy machine give up for want of an answer.
    for begin in (0..WAITERS).step_by(500) {
        for number in begin..begin + 500 {
            let manager = manager.clone();
            let key = LockKey::of("orders:").part(&(number % keys)).build().unwrap();
            waiting.spawn(async move { manager.acquire(&key, &POLICY).await.map(drop) });
        }
        let all = Some(keys.min(begin + 500));
        by_and_by("each key has a queue", async || queues(raw).await == all).await;
    }
    // All of them, in one go.
    drop(waiting);
    by_and_by("no queue is left", async || queues(raw).await == Some(0)).await;
}

#[tokio::test]
async fn ten_thousand_waits_given_up_at_once_leave_no_place_no_key_and_no_memory() {
    let server = RedisServer::start();
    let manager = server.manager();
    hold(&server, WAITERS).await;
    let held = server.held().await;
    let mut raw = server.raw().await;
    let mut memory = Vec::new();
    for _ in 0..ROUNDS {
        wait_and_give_up(&mut raw, &manager, WAITERS).await;
        memory.push(allocated());
    }
    let calls = server.commandstats().await["evalsha"];
    // Now all in one line, at the gate of the process.
    wait_and_give_up(&mut raw, &manager, 1).await;
    assert_eq!((server.held().await, server.queued().await), (held, 0), "the locks are not theirs");
    // What the client keeps of ten thousand places is six times as much, in each round anew.
    assert!(memory[1] < memory[0] + 1_000_000, "{memory:?}");
    // An attempt and a release each. A clean-up that hurries repeats most of its calls.
    assert!(calls < u64::from(ROUNDS * WAITERS) * 5 / 2, "{calls} calls");
}
