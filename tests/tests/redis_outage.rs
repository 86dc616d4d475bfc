//! Redis down, cut off, silent or started again: what each call says, and that the client recovers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockrt::testing::claim;
use lockrt::{Attempt, Backend, Outcome, Redis, Released, Renewed};
use lockrt_tests::{Fault, Proxy, RedisServer, granted, key, refused, soon, until};
use redis::AsyncCommands as _;
use tokio::task::JoinSet;
use tokio::time::timeout;

const TTL: Duration = Duration::from_secs(30);

/// How long a lock of a few seconds gives an attempt.
const ATTEMPT: Duration = Duration::from_millis(200);

/// A call that is given up like the keeper gives it up.
async fn answered(client: &Redis, name: &str) -> bool {
    matches!(timeout(ATTEMPT, client.try_acquire(&claim(&key(name), TTL))).await, Ok(Ok(_)))
}

#[tokio::test]
async fn a_refused_connection_means_not_applied() {
    let mut server = RedisServer::start();
    server.kill();
    let client = Redis::from_url(&server.url()).unwrap();
    let error = refused(&client, &claim(&key("orders"), TTL)).await;
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
    assert!(error.to_string().contains("cannot reach Redis") && !error.is_permanent(), "{error}");
    let answers = client.renew(&[&claim(&key("orders"), TTL)]).await;
    assert!(matches!(&answers[..], [Renewed::Unknown(_)]), "{answers:?}");
}

#[tokio::test]
async fn callers_of_a_dead_server_make_few_connections() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    proxy.set(Fault::Refuse);
    let client = Redis::from_url(&proxy.url()).unwrap();
    let start = Instant::now();
    let mut calls = 0;
    while start.elapsed() < Duration::from_secs(1) {
        let claims = [(); 20].map(|()| claim(&key("orders"), TTL));
        for claim in &claims {
            assert_eq!(refused(&client, claim).await.outcome(), Outcome::NotApplied);
            calls += 1;
        }
        tokio::task::yield_now().await;
    }
    // Pauses of 10, 20, ... 250 ms, up to a quarter shorter, fit about 10 times into a second.
    assert!(proxy.accepted() < 16 && calls > 1_000, "{} for {calls} calls", proxy.accepted());
    proxy.set(Fault::None);
    until("the client is connected", async || answered(&client, "orders").await).await;
}

#[tokio::test]
async fn a_hundred_callers_at_once_share_one_connection() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    for connections in 1..=3 {
        let client = Arc::new(Redis::from_url(&proxy.url()).unwrap());
        let mut tasks = JoinSet::new();
        for number in 0..100 {
            let (client, name) = (Arc::clone(&client), format!("{connections}:{number}"));
            tasks.spawn(async move { granted(&*client, &claim(&key(&name), TTL)).await });
        }
        tasks.join_all().await;
        assert_eq!(proxy.accepted(), connections);
    }
}

#[tokio::test]
async fn connecting_goes_on_when_the_caller_has_given_up() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    proxy.delay(50..51);
    let client = Redis::from_url(&proxy.url()).unwrap();
    // The greeting alone takes 100 ms, and no attempt has more than 20 ms.
    let owner = claim(&key("orders"), Duration::from_millis(60));
    let given_up = timeout(Duration::from_millis(20), client.try_acquire(&owner)).await;
    assert!(given_up.is_err());
    proxy.delay(0..1);
    until("a short attempt is answered", async || {
        timeout(Duration::from_millis(20), client.try_acquire(&owner)).await.is_ok()
    })
    .await;
    assert_eq!(proxy.accepted(), 1);
}

#[tokio::test]
async fn a_broken_connection_answers_unknown_for_each_renewal() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let client = Redis::from_url(&proxy.url()).unwrap();
    let claims: Vec<_> = (0..250).map(|number| claim(&key(&format!("n:{number}")), TTL)).collect();
    for claim in &claims {
        granted(&client, claim).await;
    }
    proxy.set(Fault::CutAtReply);
    let answers = client.renew(&claims.iter().collect::<Vec<_>>()).await;
    assert_eq!(answers.len(), claims.len());
    for answer in &answers {
        assert!(matches!(answer, Renewed::Unknown(e) if e.outcome() == Outcome::Unknown), "{answer:?}");
    }
    let answers = client.renew(&claims.iter().collect::<Vec<_>>()).await;
    assert!(answers.iter().all(|answer| matches!(answer, Renewed::Extended)));
}

#[tokio::test]
async fn a_lost_answer_is_unknown_and_repeating_each_call_is_harmless() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let client = Redis::from_url(&proxy.url()).unwrap();
    let mut raw = server.raw().await;
    let warm = claim(&key("warm"), TTL);
    granted(&client, &warm).await;

    let owner = claim(&key("orders"), TTL);
    proxy.set(Fault::CutAtReply);
    let error = refused(&client, &owner).await;
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    assert!(raw.exists::<_, bool>("orders").await.unwrap(), "the call was applied");
    granted(&client, &owner).await;

    proxy.set(Fault::CutAtReply);
    assert_eq!(client.release(&owner).await.unwrap_err().outcome(), Outcome::Unknown);
    assert!(!raw.exists::<_, bool>("orders").await.unwrap(), "the call was applied");
    assert_eq!(client.release(&owner).await.unwrap(), Released::NotHeld);
}

#[tokio::test]
async fn an_acquire_that_arrives_after_its_release_is_found_by_repeating_the_release() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let client = Redis::from_url(&proxy.url()).unwrap();
    granted(&client, &claim(&key("warm"), TTL)).await;
    let owner = claim(&key("orders"), TTL);
    proxy.set(Fault::CutAtRequest { deliver_after: Duration::from_millis(100) });
    assert_eq!(refused(&client, &owner).await.outcome(), Outcome::Unknown);
    assert_eq!(client.release(&owner).await.unwrap(), Released::NotHeld);
    until("the late acquire is released", async || client.release(&owner).await.unwrap() == Released::Freed)
        .await;
    assert!(!server.raw().await.exists::<_, bool>("orders").await.unwrap());
}

#[tokio::test]
async fn a_killed_connection_is_replaced() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let mut raw = server.raw().await;
    for round in 0..20 {
        granted(&client, &claim(&key(&format!("orders:{round}")), TTL)).await;
        let kill = ["KILL", "TYPE", "normal", "SKIPME", "yes"];
        let () = redis::cmd("CLIENT").arg(&kill).query_async(&mut raw).await.unwrap();
        // The call in between may be the one that breaks.
        until("the client is back", async || answered(&client, &format!("probe:{round}")).await).await;
    }
}

#[tokio::test]
async fn a_restarted_server_is_found_again() {
    let mut server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    for round in 0..3 {
        granted(&client, &claim(&key(&format!("orders:{round}")), TTL)).await;
        server.kill();
        assert!(!answered(&client, "while down").await);
        server.restart();
        let start = Instant::now();
        until("the client is back", async || answered(&client, "probe").await).await;
        assert!(start.elapsed() < Duration::from_secs(2), "it took {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_paused_server_keeps_nobody_waiting_and_is_found_again() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    granted(&client, &claim(&key("orders"), TTL)).await;
    server.pause();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        let attempt = Instant::now();
        assert!(!answered(&client, "paused").await);
        assert!(attempt.elapsed() < ATTEMPT * 3);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.resume();
    let start = Instant::now();
    until("the client is back", async || answered(&client, "probe").await).await;
    assert!(start.elapsed() < Duration::from_secs(2), "it took {:?}", start.elapsed());
}

#[tokio::test]
async fn a_slow_answer_is_waited_for_as_long_as_the_caller_likes() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    granted(&client, &claim(&key("warm"), TTL)).await;
    server.pause();
    let owner = claim(&key("orders"), TTL);
    let resumed = async {
        tokio::time::sleep(Duration::from_millis(800)).await;
        server.resume();
    };
    let (_, ()) = soon("a late grant", async { tokio::join!(granted(&client, &owner), resumed) }).await;
}

#[tokio::test]
async fn a_connection_that_fell_silent_is_replaced_though_it_never_breaks() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let client = Redis::from_url(&proxy.url()).unwrap();
    granted(&client, &claim(&key("orders"), TTL)).await;
    for fault in [Fault::Silence, Fault::DropReplies] {
        let before = proxy.accepted();
        proxy.set(fault.clone());
        until("the connection is given up", async || {
            assert!(!answered(&client, "silent").await);
            proxy.accepted() > before
        })
        .await;
        proxy.set(Fault::None);
        let start = Instant::now();
        until("the client is back", async || answered(&client, &format!("{fault:?}")).await).await;
        assert!(start.elapsed() < Duration::from_secs(3), "it took {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn calls_given_up_long_ago_do_not_condemn_an_idle_connection() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let client = Redis::from_url(&proxy.url()).unwrap();
    granted(&client, &claim(&key("orders"), TTL)).await;
    proxy.delay(40..41);
    assert!(timeout(Duration::from_millis(20), client.try_acquire(&claim(&key("slow"), TTL))).await.is_err());
    proxy.delay(0..1);
    // Longer than a connection may be silent while somebody waits.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    granted(&client, &claim(&key("later"), TTL)).await;
    assert_eq!(proxy.accepted(), 1);
}

#[tokio::test]
async fn connections_delayed_at_random_change_no_outcome() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 42).await;
    proxy.delay(0..20);
    let one = Redis::from_url(&proxy.url()).unwrap();
    let two = Redis::from_url(&proxy.url()).unwrap();
    let mut last = 0;
    for _ in 0..10 {
        for (mine, other) in [(&one, &two), (&two, &one)] {
            let owner = claim(&key("orders"), TTL);
            let token = soon("a grant", granted(mine, &owner)).await;
            assert!(token > last);
            last = token;
            let attempt = other.try_acquire(&claim(&key("orders"), TTL)).await.unwrap();
            assert!(matches!(attempt, Attempt::Held { .. }));
            assert_eq!(mine.release(&owner).await.unwrap(), Released::Freed);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_survives_the_runtime_it_connected_on() {
    let server = RedisServer::start();
    let client = Arc::new(Redis::from_url(&server.url()).unwrap());
    for round in 0..3 {
        let client = Arc::clone(&client);
        let ended = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(until("the client works on this runtime", async || {
                answered(&client, &format!("orders:{round}")).await
            }));
        });
        ended.join().unwrap();
    }
}
