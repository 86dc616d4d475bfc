//! Waiters in processes of their own that are killed or stopped in the queue, or with an offer on its way.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use lockrt::{LockGuard, LockKey, LockPolicy};
use lockrt_tests::{Fault, Program, Proxy, RedisServer, Setup, soon, until};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

/// For how long a lock is offered.
const OFFER: Duration = Duration::from_millis(200);
const SLACK: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(30);

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

/// A process that waits, once it has a place behind `ahead` others.
async fn waiter(server: &RedisServer, url: &str, ttl: Duration, ahead: u64) -> Program {
    let (url, ttl) = (url.to_owned(), ttl.as_millis().to_string());
    let started = spawn_blocking(move || {
        let mut waiter = Program::start(env!("CARGO_BIN_EXE_waiter"), &[&url, KEY.as_str(), &ttl, "0", "1"]);
        assert_eq!(waiter.says(), "waits");
        waiter
    });
    let waiter = soon("a process that waits", started).await.unwrap();
    until("it has a place", async || server.queued().await == ahead + 1).await;
    waiter
}

async fn holds(server: &RedisServer, ttl: Duration) -> LockGuard {
    let manager = server.manager();
    manager.acquire(&KEY, &LockPolicy::new(ttl)).await.unwrap()
}

/// Waits until `waiter` has the lock, and has given it back; how long the former took.
async fn gets_it(mut waiter: Program) -> Duration {
    let begun = Instant::now();
    let says = spawn_blocking(move || {
        let (line, took) = (waiter.says(), begun.elapsed());
        assert!(line.starts_with("held "), "{line}");
        assert_eq!(waiter.says(), "freed");
        took
    });
    timeout(TTL, says).await.unwrap().unwrap()
}

async fn published(server: &RedisServer) -> u64 {
    server.commandstats().await.get("publish").copied().unwrap_or_default()
}

async fn is_offered(server: &RedisServer) -> bool {
    let owner: Option<String> = redis::cmd("GET")
        .arg(format!("lock:{}", KEY.as_str()))
        .query_async(&mut server.raw().await)
        .await
        .unwrap();
    owner.is_some_and(|owner| owner.ends_with('?'))
}

async fn clients(server: &RedisServer) -> usize {
    let channels: Vec<String> =
        redis::cmd("PUBSUB").arg("CHANNELS").query_async(&mut server.raw().await).await.unwrap();
    channels.len()
}

#[tokio::test]
async fn a_waiter_that_was_killed_in_the_queue_costs_the_next_one_nothing() {
    let server = RedisServer::start();
    let holder = holds(&server, TTL).await;
    let mut first = waiter(&server, &server.url(), TTL, 0).await;
    let second = waiter(&server, &server.url(), TTL, 1).await;
    first.kill();
    until("the server has noticed", async || clients(&server).await == 2).await;
    holder.release().await;
    let took = gets_it(second).await;
    assert!(took <= SLACK, "{took:?}");
    assert_eq!(published(&server).await, 2, "one that nobody heard, and one offer");
    until("nothing is left", async || server.queued().await == 0 && server.held().await == 0).await;
}

#[tokio::test]
async fn a_waiter_that_is_stopped_costs_the_next_one_an_offer_and_gets_its_turn_when_it_goes_on() {
    let server = RedisServer::start();
    let holder = holds(&server, TTL).await;
    let first = waiter(&server, &server.url(), TTL, 0).await;
    let second = waiter(&server, &server.url(), TTL, 1).await;
    first.stop();
    holder.release().await;
    let took = gets_it(second).await;
    assert!(took <= OFFER + SLACK, "{took:?}");
    until("the lock is free again", async || server.held().await == 0).await;
    first.resume();
    let took = gets_it(first).await;
    assert!(took <= SLACK, "{took:?}");
    until("nothing is left", async || server.queued().await == 0 && server.held().await == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_dies_with_an_offer_on_its_way_costs_the_next_one_that_offer() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let holder = holds(&server, TTL).await;
    let mut first = waiter(&server, &proxy.url(), TTL, 0).await;
    let second = waiter(&server, &server.url(), TTL, 1).await;
    proxy.set(Fault::DropReplies);
    holder.release().await;
    assert!(is_offered(&server).await, "the server takes it for alive");
    first.kill();
    let took = gets_it(second).await;
    assert!(took <= OFFER + SLACK, "{took:?}");
}

#[tokio::test]
async fn two_waiters_that_are_stopped_in_a_row_cost_the_next_one_a_lease() {
    const SHORT: Duration = Duration::from_secs(3);
    let server = RedisServer::start();
    let holder = holds(&server, SHORT).await;
    let taken = Instant::now();
    let mut stopped = Vec::new();
    for ahead in 0..2 {
        stopped.push(waiter(&server, &server.url(), SHORT, ahead).await);
        stopped[usize::try_from(ahead).unwrap()].stop();
    }
    let third = waiter(&server, &server.url(), SHORT, 2).await;
    holder.release().await;
    gets_it(third).await;
    assert!(taken.elapsed() <= SHORT + SLACK, "{:?}", taken.elapsed());
    for first in stopped {
        first.resume();
        gets_it(first).await;
    }
}

#[tokio::test]
async fn a_holder_that_is_killed_is_followed_at_the_end_of_its_lease_and_all_have_their_turn() {
    const SHORT: Duration = Duration::from_secs(2);
    let server = RedisServer::start();
    let (url, ttl) = (server.url(), SHORT.as_millis().to_string());
    let mut holder = Program::start(env!("CARGO_BIN_EXE_waiter"), &[&url, KEY.as_str(), &ttl, "60000", "1"]);
    assert_eq!(holder.says(), "waits");
    assert!(holder.says().starts_with("held "));
    let taken = Instant::now();
    let mut waiting = Vec::new();
    for ahead in 0..4 {
        waiting.push(waiter(&server, &url, Duration::from_secs(30), ahead).await);
    }
    holder.kill();
    sleep(Duration::from_millis(100)).await;
    assert_eq!(server.held().await, 1, "nobody knows that it is dead");
    for (number, waiter) in waiting.into_iter().enumerate() {
        gets_it(waiter).await;
        let took = taken.elapsed();
        assert!(took <= SHORT + SLACK, "{took:?} until number {number}");
    }
    until("nothing is left", async || server.queued().await == 0 && server.held().await == 0).await;
}
