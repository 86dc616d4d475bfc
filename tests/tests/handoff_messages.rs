//! Messages about a queue that are lost, late, or about a claim that is gone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use lockrt::testing::{claim, waiting_claim};
use lockrt::{Attempt, Backend, Claim, LockGuard, LockKey, LockManager, LockPolicy, Redis};
use lockrt_tests::{Fault, Proxy, RedisServer, Setup, Toxic, Way, granted, soon, until};
use redis::AsyncCommands as _;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// For how long a lock is offered.
const OFFER: Duration = Duration::from_millis(200);
const SLACK: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(30);

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

type Waiting = JoinHandle<(LockGuard, Instant)>;

fn manager(url: &str) -> LockManager {
    LockManager::builder().build(Redis::from_url(url).unwrap()).unwrap()
}

/// A wait in the background that has a place behind `ahead` others.
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

async fn holder(server: &RedisServer, ttl: Duration) -> LockGuard {
    server.manager().acquire(&KEY, &LockPolicy::new(ttl)).await.unwrap()
}

#[tokio::test]
async fn an_offer_that_is_lost_costs_the_next_one_its_time() {
    for fault in [Fault::DropReplies, Fault::Silence] {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port(), 1).await;
        let (deaf, other) = (manager(&proxy.url()), server.manager());
        let holder = holder(&server, TTL).await;
        let _first = waits(&server, &deaf, TTL, 0).await;
        let second = waits(&server, &other, TTL, 1).await;
        proxy.set(fault.clone());
        let released = Instant::now();
        holder.release().await;
        let (_guard, at) = gets_it(second).await;
        let took = at - released;
        assert!(took <= OFFER + SLACK, "{took:?} behind {fault:?}");
    }
}

#[tokio::test]
async fn one_who_waits_alone_and_hears_nothing_looks_when_the_lease_should_have_ended() {
    const SHORT: Duration = Duration::from_secs(3);
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let deaf = manager(&proxy.url());
    let (taken, holder) = (Instant::now(), holder(&server, SHORT).await);
    let waiting = waits(&server, &deaf, TTL, 0).await;
    proxy.set(Fault::DropReplies);
    holder.release().await;
    sleep(OFFER * 2).await;
    assert!(!waiting.is_finished());
    // From now on new connections are healthy; the one in use stays silent for ever.
    proxy.set(Fault::None);
    let (_guard, at) = gets_it(waiting).await;
    // Its attempt gets no answer for a second, before it connects again.
    assert!(at - taken <= SHORT + Duration::from_secs(1) + SLACK, "{:?}", at - taken);
}

#[tokio::test]
async fn an_offer_that_comes_after_its_time_costs_nobody_a_turn() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let (late, other) = (manager(&proxy.url()), server.manager());
    let holder = holder(&server, TTL).await;
    let first = waits(&server, &late, TTL, 0).await;
    let second = waits(&server, &other, TTL, 1).await;
    proxy.add([Toxic::Stall { way: Way::Answer }]);
    holder.release().await;
    let (guard, _) = gets_it(second).await;
    proxy.clear();
    // It is told of an offer that is another one's lock by now, and takes a new place.
    until("it has a place again", async || server.queued().await == 1).await;
    sleep(OFFER).await;
    guard.lease().check().unwrap();
    let released = Instant::now();
    guard.release().await;
    let (_guard, at) = gets_it(first).await;
    assert!(at - released <= SLACK, "{:?}", at - released);
}

/// The owner's value that the key has, a `?` behind it while it is offered.
async fn owner(server: &RedisServer) -> Option<String> {
    server.raw().await.get(KEY.as_str()).await.unwrap()
}

/// Puts a place for `claim` ahead of all others that may be offered the lock for so long; it is told on
/// the channel of whoever has one.
async fn enqueue(server: &RedisServer, claim: &Claim, offer: Duration) {
    let mut raw = server.raw().await;
    let channels: Vec<String> = redis::cmd("PUBSUB").arg("CHANNELS").query_async(&mut raw).await.unwrap();
    let [channel] = channels.as_slice() else { panic!("one client: {channels:?}") };
    let place = format!("{}|{channel}|{}", offer.as_millis(), claim.owner().wire());
    let queue = format!("{{{}}}:queue", KEY.as_str());
    let added: u64 = raw.zadd(&queue, place, 0).await.unwrap();
    let expires: bool = raw.expire(&queue, 60).await.unwrap();
    assert!(added == 1 && expires);
}

#[tokio::test]
async fn an_offer_to_a_claim_that_is_gone_is_handed_on_at_once() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let (holder, waiter) = (claim(&KEY, TTL), waiting_claim(&KEY, TTL));
    granted(&client, &holder).await;
    // As an attempt of a claim that its client has given up and forgotten, delivered late.
    enqueue(&server, &waiting_claim(&KEY, TTL), TTL).await;
    assert!(matches!(client.try_acquire(&waiter).await.unwrap(), Attempt::Held { .. }));
    client.release(&holder).await.unwrap();
    soon("an offer", client.freed(&waiter)).await;
    granted(&client, &waiter).await;
    assert_eq!(server.queued().await, 0);
}

#[tokio::test]
async fn an_offer_to_the_last_one_who_is_gone_frees_the_lock_at_once() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let holder = claim(&KEY, TTL);
    granted(&client, &holder).await;
    enqueue(&server, &waiting_claim(&KEY, TTL), TTL).await;
    client.release(&holder).await.unwrap();
    until("the lock is free", async || owner(&server).await.is_none()).await;
}

#[tokio::test]
async fn an_offer_that_was_taken_is_not_handed_on_by_a_message_that_comes_later() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let (holder, gone) = (claim(&KEY, TTL), waiting_claim(&KEY, TTL));
    granted(&client, &holder).await;
    client.release(&holder).await.unwrap();
    granted(&client, &gone).await;
    let mut raw = server.raw().await;
    let channels: Vec<String> = redis::cmd("PUBSUB").arg("CHANNELS").query_async(&mut raw).await.unwrap();
    let scripts = async || server.commandstats().await.get("evalsha").copied().unwrap_or_default();
    let before = scripts().await;
    let message = format!("offer 200 {} {}", gone.owner().wire(), KEY.as_str());
    let heard: u64 = raw.publish(&channels[0], message).await.unwrap();
    assert_eq!(heard, 1);
    until("it has been declined", async || scripts().await > before).await;
    assert_eq!(owner(&server).await.as_deref(), Some(&*gone.owner().wire()));
}
