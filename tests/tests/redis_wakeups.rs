//! Wake-ups over Redis: when they come, and what they leave at the server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockrt::testing::{claim, waiting_claim};
use lockrt::{Attempt, Backend, Claim, Redis};
use lockrt_tests::{Proxy, RedisServer, granted, key, soon, until};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const TTL: Duration = Duration::from_secs(30);

fn waits(client: &Arc<Redis>, claim: &Claim) -> JoinHandle<()> {
    let (client, claim) = (Arc::clone(client), claim.clone());
    tokio::spawn(async move { client.freed(&claim).await })
}

async fn channels(server: &RedisServer) -> Vec<String> {
    let mut raw = server.raw().await;
    redis::cmd("PUBSUB").arg("CHANNELS").query_async(&mut raw).await.unwrap()
}

fn client(server: &RedisServer) -> Arc<Redis> {
    Arc::new(Redis::from_url(&server.url()).unwrap())
}

#[tokio::test]
async fn a_wait_ends_at_the_release_and_not_before() {
    let server = RedisServer::start();
    let (one, two) = (client(&server), client(&server));
    let (owner, waiter) = (claim(&key("orders"), TTL), waiting_claim(&key("orders"), TTL));
    granted(&*one, &owner).await;
    let waiting = waits(&two, &waiter);
    until("the waiter is subscribed", async || channels(&server).await == ["orders:freed"]).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished(), "woken with nothing to wake for");
    let start = Instant::now();
    one.release(&owner).await.unwrap();
    soon("the wake-up", waiting).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_wait_for_a_free_key_ends_at_once() {
    let server = RedisServer::start();
    let one = client(&server);
    soon("the answer", one.freed(&waiting_claim(&key("orders"), TTL))).await;
}

#[tokio::test]
async fn an_expired_lease_tells_nobody_and_the_time_left_is_enough() {
    let server = RedisServer::start();
    let (one, two) = (client(&server), client(&server));
    let ttl = Duration::from_millis(300);
    granted(&*one, &claim(&key("orders"), ttl)).await;
    let waiter = waiting_claim(&key("orders"), TTL);
    let Attempt::Held { free_in: Some(free_in) } = two.try_acquire(&waiter).await.unwrap() else {
        panic!("not held")
    };
    assert!(timeout(free_in + Duration::from_millis(2), two.freed(&waiter)).await.is_err());
    granted(&*two, &waiter).await;
}

#[tokio::test]
async fn nobody_subscribes_without_a_wait() {
    let server = RedisServer::start();
    let one = client(&server);
    for _ in 0..10 {
        let owner = claim(&key("orders"), TTL);
        granted(&*one, &owner).await;
        one.try_acquire(&waiting_claim(&key("orders"), TTL)).await.unwrap();
        one.release(&owner).await.unwrap();
    }
    let stats = server.commandstats().await;
    assert!(!stats.contains_key("subscribe") && !stats.contains_key("exists"), "{stats:?}");
}

#[tokio::test]
async fn a_subscription_serves_the_next_wait_and_is_dropped_some_seconds_later() {
    let server = RedisServer::start();
    let (one, two) = (client(&server), client(&server));
    for _ in 0..5 {
        let (owner, waiter) = (claim(&key("orders"), TTL), waiting_claim(&key("orders"), TTL));
        granted(&*one, &owner).await;
        let waiting = waits(&two, &waiter);
        until("the waiter is subscribed", async || channels(&server).await.len() == 1).await;
        one.release(&owner).await.unwrap();
        soon("the wake-up", waiting).await.unwrap();
    }
    assert_eq!(server.commandstats().await["subscribe"], 1);
    // A later release that nobody waits for is the occasion to unsubscribe.
    let start = Instant::now();
    while !channels(&server).await.is_empty() {
        assert!(start.elapsed() < Duration::from_secs(10), "the subscription stays");
        let owner = claim(&key("orders"), TTL);
        granted(&*one, &owner).await;
        one.release(&owner).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(start.elapsed() > Duration::from_secs(4), "dropped after {:?}", start.elapsed());
    // And one who waits again is woken again.
    let (owner, waiter) = (claim(&key("orders"), TTL), waiting_claim(&key("orders"), TTL));
    granted(&*one, &owner).await;
    let waiting = waits(&two, &waiter);
    until("the waiter is subscribed", async || channels(&server).await.len() == 1).await;
    one.release(&owner).await.unwrap();
    soon("the wake-up", waiting).await.unwrap();
}

#[tokio::test]
async fn subscriptions_of_many_keys_do_not_pile_up() {
    let server = RedisServer::start();
    let (one, two) = (client(&server), client(&server));
    for number in 0..300 {
        let name = key(&format!("orders:{number}"));
        granted(&*one, &claim(&name, TTL)).await;
        let _ = timeout(Duration::from_millis(5), two.freed(&waiting_claim(&name, TTL))).await;
    }
    assert!(channels(&server).await.len() > 100);
    tokio::time::sleep(Duration::from_millis(5_100)).await;
    granted(&*one, &claim(&key("last"), TTL)).await;
    let _ = timeout(Duration::from_millis(50), two.freed(&waiting_claim(&key("last"), TTL))).await;
    until("the others are unsubscribed", async || channels(&server).await == ["last:freed"]).await;
}

#[tokio::test]
async fn a_waiter_is_woken_though_its_connection_was_cut_meanwhile() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let (one, two) = (client(&server), Arc::new(Redis::from_url(&proxy.url()).unwrap()));
    let (owner, waiter) = (claim(&key("orders"), TTL), waiting_claim(&key("orders"), TTL));
    granted(&*one, &owner).await;
    let waiting = waits(&two, &waiter);
    until("the waiter is subscribed", async || channels(&server).await.len() == 1).await;
    for connections in 2..5 {
        proxy.cut();
        until("the waiter is subscribed anew", async || {
            proxy.accepted() == connections && channels(&server).await.len() == 1
        })
        .await;
        assert!(!waiting.is_finished());
    }
    one.release(&owner).await.unwrap();
    soon("the wake-up", waiting).await.unwrap();
}

#[tokio::test]
async fn a_release_while_the_waiter_is_cut_off_is_found_out_on_the_new_connection() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let (one, two) = (client(&server), Arc::new(Redis::from_url(&proxy.url()).unwrap()));
    let (owner, waiter) = (claim(&key("orders"), TTL), waiting_claim(&key("orders"), TTL));
    granted(&*one, &owner).await;
    let waiting = waits(&two, &waiter);
    until("the waiter is subscribed", async || channels(&server).await.len() == 1).await;
    proxy.set(lockrt_tests::Fault::Refuse);
    proxy.cut();
    one.release(&owner).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    proxy.set(lockrt_tests::Fault::None);
    soon("the wake-up", waiting).await.unwrap();
}

#[tokio::test]
async fn a_user_who_may_not_subscribe_waits_quietly() {
    let server = RedisServer::start();
    let rights = ["ACL", "SETUSER", "deaf", "on", ">s3cret", "~*", "+@all", "resetchannels"];
    let () = redis::cmd(rights[0]).arg(&rights[1..]).query_async(&mut server.raw().await).await.unwrap();
    let deaf = Redis::from_url(&format!("redis://deaf:s3cret@127.0.0.1:{}", server.port())).unwrap();
    let owner = claim(&key("orders"), TTL);
    granted(&deaf, &owner).await;
    assert!(timeout(Duration::from_secs(1), deaf.freed(&waiting_claim(&key("orders"), TTL))).await.is_err());
    assert_eq!(server.commandstats().await["subscribe"], 1);
    deaf.release(&owner).await.unwrap();
}
