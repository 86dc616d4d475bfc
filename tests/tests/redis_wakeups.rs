//! What a waiting client hears on its connection, and that it looks by itself where it hears nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockrt::testing::{claim, waiting_claim};
use lockrt::{Attempt, Backend, Claim, Redis};
use lockrt_tests::{Fault, Proxy, RedisServer, granted, key, soon, until};
use redis::AsyncCommands as _;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const TTL: Duration = Duration::from_secs(30);
/// How long a waiter rests at least where nobody calls it.
const LOOK: Duration = Duration::from_millis(150);

fn client(server: &RedisServer) -> Arc<Redis> {
    Arc::new(Redis::from_url(&server.url()).unwrap())
}

async fn held(client: &Redis, claim: &Claim) {
    let attempt = client.try_acquire(claim).await.unwrap();
    assert!(matches!(attempt, Attempt::Held { .. }), "{attempt:?}");
}

fn waits(client: &Arc<Redis>, claim: &Claim) -> JoinHandle<()> {
    let (client, claim) = (Arc::clone(client), claim.clone());
    tokio::spawn(async move { client.freed(&claim).await })
}

/// A key that is held, and a claim of `two` that has a place in its queue.
async fn queued(one: &Redis, two: &Redis) -> (Claim, Claim) {
    let (owner, waiter) = (claim(&key("orders"), TTL), waiting_claim(&key("orders"), TTL));
    granted(one, &owner).await;
    held(two, &waiter).await;
    (owner, waiter)
}

async fn channels(server: &RedisServer) -> Vec<String> {
    redis::cmd("PUBSUB").arg("CHANNELS").query_async(&mut server.raw().await).await.unwrap()
}

async fn user(server: &RedisServer, rights: &[&str]) -> String {
    let mut words = vec!["SETUSER", "locker", "on", ">s3cret"];
    words.extend(rights);
    let () = redis::cmd("ACL").arg(&words).query_async(&mut server.raw().await).await.unwrap();
    format!("redis://locker:s3cret@127.0.0.1:{}", server.port())
}

#[tokio::test]
async fn a_wait_ends_at_the_release_and_not_before() {
    let server = RedisServer::start();
    let (one, two) = (client(&server), client(&server));
    let (owner, waiter) = queued(&one, &two).await;
    let waiting = waits(&two, &waiter);
    sleep(LOOK * 3).await;
    assert!(!waiting.is_finished(), "woken with nothing to wake for");
    let start = Instant::now();
    one.release(&owner).await.unwrap();
    soon("the wake-up", waiting).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    granted(&*two, &waiter).await;
}

#[tokio::test]
async fn a_release_before_the_wait_begins_is_heard_all_the_same() {
    let server = RedisServer::start();
    let (one, two) = (client(&server), client(&server));
    let (owner, waiter) = queued(&one, &two).await;
    one.release(&owner).await.unwrap();
    sleep(Duration::from_millis(20)).await;
    assert!(timeout(LOOK / 2, two.freed(&waiter)).await.is_ok());
    granted(&*two, &waiter).await;
}

#[tokio::test]
async fn an_expired_lease_tells_nobody_and_the_time_left_is_enough() {
    let server = RedisServer::start();
    let (one, two) = (client(&server), client(&server));
    granted(&*one, &claim(&key("orders"), Duration::from_millis(300))).await;
    let waiter = waiting_claim(&key("orders"), TTL);
    let Attempt::Held { free_in: Some(free_in) } = two.try_acquire(&waiter).await.unwrap() else {
        panic!("not held")
    };
    assert!(timeout(free_in + Duration::from_millis(2), two.freed(&waiter)).await.is_err());
    granted(&*two, &waiter).await;
}

#[tokio::test]
async fn a_client_has_one_channel_however_many_keys_it_waits_for() {
    let server = RedisServer::start();
    let (one, two) = (client(&server), client(&server));
    for number in 0..50 {
        let name = key(&format!("orders:{number}"));
        granted(&*one, &claim(&name, TTL)).await;
        held(&two, &waiting_claim(&name, TTL)).await;
    }
    let channels = channels(&server).await;
    assert_eq!(channels.len(), 2, "{channels:?}");
    assert!(channels.iter().all(|channel| channel.starts_with("lockrt:waiter:")), "{channels:?}");
    assert_eq!(server.commandstats().await["subscribe"], 2);
}

#[tokio::test]
async fn the_prefix_of_channels_can_be_chosen() {
    let server = RedisServer::start();
    let one = Redis::from_url(&server.url()).unwrap().fence_prefix("shop|eu/").unwrap();
    let two = Redis::from_url(&server.url()).unwrap().fence_prefix("shop|eu/").unwrap();
    let (owner, waiter) = queued(&one, &two).await;
    let channels = channels(&server).await;
    assert!(channels.iter().all(|channel| channel.starts_with("shop_eu/waiter:")), "{channels:?}");
    one.release(&owner).await.unwrap();
    soon("the wake-up", two.freed(&waiter)).await;
    granted(&two, &waiter).await;
}

#[tokio::test]
async fn a_waiter_looks_once_at_each_new_connection_and_is_woken_on_it() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let (one, two) = (client(&server), Arc::new(Redis::from_url(&proxy.url()).unwrap()));
    let (owner, waiter) = queued(&one, &two).await;
    for connections in 2..5 {
        let waiting = waits(&two, &waiter);
        sleep(Duration::from_millis(20)).await;
        assert!(!waiting.is_finished());
        proxy.cut();
        soon("a look", waiting).await.unwrap();
        // It listens before it looks, so that nothing is lost in between.
        assert_eq!((proxy.accepted(), channels(&server).await.len()), (connections, 2));
        held(&two, &waiter).await;
    }
    let places: u64 = server.raw().await.zcard("{orders}:queue").await.unwrap();
    assert_eq!(places, 1, "it has kept its place");
    let waiting = waits(&two, &waiter);
    one.release(&owner).await.unwrap();
    soon("the wake-up", waiting).await.unwrap();
    granted(&*two, &waiter).await;
}

#[tokio::test]
async fn a_release_while_the_waiter_is_cut_off_is_found_out_on_the_new_connection() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let (one, two) = (client(&server), Arc::new(Redis::from_url(&proxy.url()).unwrap()));
    let (owner, waiter) = queued(&one, &two).await;
    let waiting = waits(&two, &waiter);
    sleep(Duration::from_millis(20)).await;
    proxy.set(Fault::Refuse);
    proxy.cut();
    until("the server has noticed", async || channels(&server).await.len() == 1).await;
    one.release(&owner).await.unwrap();
    sleep(LOOK / 2).await;
    assert!(!waiting.is_finished());
    proxy.set(Fault::None);
    soon("the wake-up", waiting).await.unwrap();
    granted(&*two, &waiter).await;
}

#[tokio::test]
async fn a_user_who_may_not_subscribe_has_no_place_and_looks_by_itself() {
    let server = RedisServer::start();
    let url = user(&server, &["~*", "+@all", "resetchannels"]).await;
    let (one, deaf) = (client(&server), Redis::from_url(&url).unwrap());
    let (owner, waiter) = queued(&one, &deaf).await;
    let queued: bool = server.raw().await.exists("{orders}:queue").await.unwrap();
    assert!(!queued);
    for _ in 0..3 {
        let start = Instant::now();
        held(&deaf, &waiter).await;
        soon("a look", deaf.freed(&waiter)).await;
        assert!(start.elapsed() >= LOOK, "{:?}", start.elapsed());
    }
    one.release(&owner).await.unwrap();
    granted(&deaf, &waiter).await;
}

#[tokio::test]
async fn a_user_who_may_not_publish_frees_the_key_and_leaves_the_queue_as_it_is() {
    let server = RedisServer::start();
    let url = user(&server, &["~*", "&*", "+@all", "-publish"]).await;
    let (mute, two) = (Redis::from_url(&url).unwrap(), client(&server));
    let (owner, waiter) = queued(&mute, &two).await;
    mute.release(&owner).await.unwrap();
    let mut raw = server.raw().await;
    assert!(!raw.exists::<_, bool>("orders").await.unwrap());
    assert_eq!(raw.zcard::<_, u64>("{orders}:queue").await.unwrap(), 1);
    granted(&*two, &waiter).await;
    assert!(
        !raw.exists::<_, bool>("{orders}:queue").await.unwrap(),
        "who gets in otherwise leaves the queue"
    );
}

#[tokio::test]
async fn holders_that_will_not_call_are_looked_after_often() {
    let server = RedisServer::start();
    let (two, mut raw) = (client(&server), server.raw().await);
    let waiter = waiting_claim(&key("orders"), TTL);
    for theirs in [["orders", "by hand", "PX", "60000"], ["orders", "shop#7#aa", "XX", "KEEPTTL"]] {
        let () = raw.del("orders").await.unwrap();
        let () = raw.set("orders", "somebody").await.unwrap();
        let () = redis::cmd("SET").arg(&theirs).query_async(&mut raw).await.unwrap();
        for _ in 0..2 {
            let start = Instant::now();
            held(&two, &waiter).await;
            soon("a look", two.freed(&waiter)).await;
            assert!(start.elapsed() >= LOOK, "{:?} after {theirs:?}", start.elapsed());
        }
    }
    let () = raw.del("orders").await.unwrap();
    granted(&*two, &waiter).await;
}
