//! How long places in a queue stay whose owners are gone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::{Duration, Instant};

use lockrt::testing::{claim, waiting_claim};
use lockrt::{Attempt, Backend, LockKey, LockPolicy, Redis};
use lockrt_tests::{Program, RedisServer, Setup, granted, key, until};
use redis::AsyncCommands as _;
use tokio::time::sleep;

/// How long a queue outlives the moment at which each waiter should have looked again.
const LINGER: Duration = Duration::from_secs(4);
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(2);

/// For how long the server keeps the queue behind a lock of one ttl after a claim of another one has taken
/// its place.
async fn kept(holder: Duration, waiter: Duration) -> Duration {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    granted(&client, &claim(&key("orders"), holder)).await;
    let attempt = client.try_acquire(&waiting_claim(&key("orders"), waiter)).await.unwrap();
    assert!(matches!(attempt, Attempt::Held { .. }), "{attempt:?}");
    let left: u64 = server.raw().await.pttl("{orders}:queue").await.unwrap();
    Duration::from_millis(left)
}

#[tokio::test]
async fn a_queue_ends_soon_after_the_next_look_of_those_in_it() {
    // A waiter looks again when the lease ends, or after two thirds of its own ttl.
    for (holder, waiter) in [(LONG, SHORT), (SHORT, LONG), (SHORT, SHORT)] {
        let kept = kept(holder, waiter).await;
        assert!(kept <= SHORT + LINGER, "{kept:?} behind {holder:?} for {waiter:?}");
        assert!(kept + Duration::from_secs(1) > SHORT + LINGER, "{kept:?} behind {holder:?} for {waiter:?}");
    }
}

#[tokio::test]
async fn who_stands_behind_the_first_in_the_queue_looks_later_than_an_offer_ends() {
    // Longer than offers are, so that none ends meanwhile.
    const OFFER_MS: u64 = 20_000;
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let mut raw = server.raw().await;
    let offered = format!("{}?", waiting_claim(&key("orders"), LONG).owner().wire());
    let () = raw.pset_ex("orders", offered, OFFER_MS).await.unwrap();
    let mut latest = Duration::ZERO;
    for place in 0_u64..12 {
        let waiter = waiting_claim(&key("orders"), LONG);
        // Some look for all behind them, so a long line costs no more than a short one.
        let later = 25 * place.saturating_sub(7);
        // Once as a new one, and once as one that looks again.
        for _ in 0..2 {
            let most: u64 = raw.pttl("orders").await.unwrap();
            let attempt = client.try_acquire(&waiter).await.unwrap();
            let least: u64 = raw.pttl("orders").await.unwrap();
            let Attempt::Held { free_in: Some(free_in) } = attempt else { panic!("{attempt:?}") };
            let [least, most] = [least, most].map(|left| Duration::from_millis(left + later));
            assert!((least..=most).contains(&free_in), "in place {place}: {free_in:?}");
            latest = free_in;
        }
    }
    let left: u64 = raw.pttl("{orders}:queue").await.unwrap();
    assert!(Duration::from_millis(left) > latest, "the queue ends in {left} ms, before they look again");
}

/// The first nine were on a machine that is gone, one of them with an offer on its way.
#[tokio::test]
async fn who_lines_up_behind_dead_ones_during_an_offer_has_the_lock_soon_after_it() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let name = "lock:orders";
    let mut raw = server.raw().await;
    let offered = format!("{}?", waiting_claim(&key("lock:orders"), LONG).owner().wire());
    let () = raw.pset_ex(name, offered, 1_000).await.unwrap();
    for _ in 0..8 {
        let dead = client.try_acquire(&waiting_claim(&key(name), LONG)).await.unwrap();
        assert!(matches!(dead, Attempt::Held { .. }), "{dead:?}");
    }
    let policy = LockPolicy::new(LONG).wait(Duration::from_secs(5));
    let guard = server.manager().acquire(&key("orders"), &policy).await.unwrap();
    guard.release().await;
}

async fn places(server: &RedisServer, key: &LockKey) -> u64 {
    server.raw().await.zcard(format!("{{lock:{}}}:queue", key.as_str())).await.unwrap()
}

async fn waiter(server: &RedisServer, key: &LockKey) -> Program {
    let mut waiter =
        Program::start(env!("CARGO_BIN_EXE_waiter"), &[&server.url(), key.as_str(), "600", "0", "1"]);
    assert_eq!(waiter.says(), "waits");
    until("it has a place", async || places(server, key).await == 1).await;
    waiter
}

#[tokio::test]
async fn the_place_of_a_killed_process_is_gone_soon_and_that_of_one_that_waits_stays() {
    let server = RedisServer::start();
    let (manager, long) = (server.manager(), LockPolicy::new(LONG));
    let (dead, alive) = (key("dead"), key("alive"));
    let _held = [manager.acquire(&dead, &long).await.unwrap(), manager.acquire(&alive, &long).await.unwrap()];
    let mut killed = waiter(&server, &dead).await;
    let mut waiting = waiter(&server, &alive).await;
    killed.kill();
    let begun = Instant::now();
    while places(&server, &dead).await == 1 {
        assert!(begun.elapsed() < LINGER + SHORT, "the dead one has its place for {:?}", begun.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
    while begun.elapsed() < LINGER + SHORT {
        assert_eq!(places(&server, &alive).await, 1, "after {:?}", begun.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
    waiting.kill();
}
