//! Queues beside programs that know nothing of them, and connections that are closed in mid-wait.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use lockrt::testing::{claim, waiting_claim};
use lockrt::{Attempt, Backend, Claim, LockGuard, LockKey, LockManager, LockPolicy, Redis};
use lockrt_tests::{RedisServer, Setup, Threads, granted, soon, until};
use redis::AsyncCommands as _;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const SLACK: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(30);
/// How often waiters look after a holder that will not call them, at least.
const LOOK: Duration = Duration::from_millis(250);

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

type Waiting = JoinHandle<(LockGuard, Instant)>;

/// A manager that knows no prefix, as other programs do not.
fn manager(server: &RedisServer) -> LockManager {
    server.build(LockManager::builder().prefix(""))
}

async fn waits(server: &RedisServer, manager: &LockManager, ttl: Duration, ahead: u64) -> Waiting {
    let (manager, policy) = (manager.clone(), LockPolicy::new(ttl).wait_forever());
    let waiting = tokio::spawn(async move {
        let guard = manager.acquire(&KEY, &policy).await.unwrap();
        (guard, Instant::now())
    });
    until("it has a place", async || server.queued().await == ahead + 1).await;
    waiting
}

async fn gets_it(waiting: Waiting) -> (LockGuard, Instant) {
    timeout(TTL, waiting).await.unwrap().unwrap()
}

/// Each has its turn, one after the other, and nothing is left behind.
async fn all_get_it(server: &RedisServer, waiting: Vec<Waiting>, since: Instant, within: Duration) {
    for (number, waiting) in waiting.into_iter().enumerate() {
        let (guard, at) = gets_it(waiting).await;
        assert!(at - since <= within, "{:?} until number {number}", at - since);
        guard.release().await;
    }
    until("nothing is left", async || server.queued().await == 0 && server.held().await == 0).await;
}

async fn held(client: &Redis, claim: &Claim) {
    let attempt = client.try_acquire(claim).await.unwrap();
    assert!(matches!(attempt, Attempt::Held { .. }), "{attempt:?}");
}

async fn three_wait(server: &RedisServer, ttl: Duration) -> Vec<Waiting> {
    let mut waiting = Vec::new();
    for ahead in 0..3 {
        waiting.push(waits(server, &manager(server), ttl, ahead).await);
    }
    waiting
}

/// As [`all_get_it`], whoever comes first.
async fn all_get_it_in_any_order(
    server: &RedisServer,
    waiting: Vec<Waiting>,
    since: Instant,
    within: Duration,
) {
    let turns: Vec<_> = waiting
        .into_iter()
        .map(|waiting| {
            tokio::spawn(async move {
                let (guard, at) = gets_it(waiting).await;
                guard.release().await;
                at
            })
        })
        .collect();
    for turn in turns {
        let at = turn.await.unwrap();
        assert!(at - since <= within, "{:?}", at - since);
    }
    until("nothing is left", async || server.queued().await == 0 && server.held().await == 0).await;
}

#[tokio::test]
async fn waiters_behind_a_foreign_lock_get_in_soon_after_it_is_deleted_without_a_word() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    let theirs = ["orders:7", "another program", "NX", "PX", "60000"];
    let () = redis::cmd("SET").arg(&theirs).query_async(&mut raw).await.unwrap();
    let waiting = three_wait(&server, TTL).await;
    sleep(LOOK * 2).await;
    let () = raw.del(KEY.as_str()).await.unwrap();
    all_get_it_in_any_order(&server, waiting, Instant::now(), LOOK + SLACK).await;
}

#[tokio::test]
async fn a_lock_of_ours_that_is_deleted_by_hand_is_found_free_at_the_next_look() {
    const SHORT: Duration = Duration::from_millis(1_500);
    let server = RedisServer::start();
    let _holder = manager(&server).acquire(&KEY, &LockPolicy::new(TTL)).await.unwrap();
    let waiting = three_wait(&server, SHORT).await;
    let () = server.raw().await.del(KEY.as_str()).await.unwrap();
    // Two thirds of its ttl, a quarter more or less.
    all_get_it_in_any_order(&server, waiting, Instant::now(), SHORT + SLACK).await;
}

#[tokio::test]
async fn a_foreign_lock_that_takes_an_offered_key_delays_its_waiter_and_does_not_lose_it() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let (holder, waiter) = (claim(&KEY, TTL), waiting_claim(&KEY, TTL));
    granted(&client, &holder).await;
    held(&client, &waiter).await;
    client.release(&holder).await.unwrap();
    let mut raw = server.raw().await;
    let () =
        redis::cmd("SET").arg(&["orders:7", "theirs", "PX", "60000"]).query_async(&mut raw).await.unwrap();
    soon("the offer", client.freed(&waiter)).await;
    held(&client, &waiter).await;
    assert_eq!(server.queued().await, 1);
    soon("a look", client.freed(&waiter)).await;
    held(&client, &waiter).await;
    let () = raw.del(KEY.as_str()).await.unwrap();
    let deleted = Instant::now();
    soon("another look", client.freed(&waiter)).await;
    granted(&client, &waiter).await;
    assert!(deleted.elapsed() <= LOOK + SLACK, "{:?}", deleted.elapsed());
    assert_eq!(server.queued().await, 0);
}

#[tokio::test]
async fn waiters_whose_connections_are_killed_keep_their_places_and_their_order() {
    let server = RedisServer::start();
    let holder = manager(&server).acquire(&KEY, &LockPolicy::new(TTL)).await.unwrap();
    let waiting = three_wait(&server, TTL).await;
    let mut raw = server.raw().await;
    let before = server.commandstats().await["subscribe"];
    for kind in ["pubsub", "normal"] {
        let () = redis::cmd("CLIENT")
            .arg(&["KILL", "TYPE", kind, "SKIPME", "yes"])
            .query_async(&mut raw)
            .await
            .unwrap();
    }
    until("all listen again", async || server.commandstats().await["subscribe"] == before + 3).await;
    assert_eq!(server.queued().await, 3);
    let released = Instant::now();
    holder.release().await;
    all_get_it(&server, waiting, released, SLACK).await;
}

#[tokio::test]
async fn a_release_while_all_connections_are_killed_is_found_out_by_those_who_wait() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    for _ in 0..10 {
        let holder = manager(&server).acquire(&KEY, &LockPolicy::new(TTL)).await.unwrap();
        let waiting = three_wait(&server, TTL).await;
        let kill = async {
            let () =
                redis::cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"]).query_async(&mut raw).await.unwrap();
        };
        let released = Instant::now();
        tokio::join!(kill, holder.release());
        all_get_it_in_any_order(&server, waiting, released, SLACK * 2).await;
    }
}
