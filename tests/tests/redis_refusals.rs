//! What a Redis server refuses, and what is said and done about it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::{Duration, Instant};

use lockrt::testing::claim;
use lockrt::{Backend, BackendError, Claim, LockManager, LockPolicy, Outcome, Redis, Renewed};
use lockrt_tests::{RedisServer, granted, key, refused, until};
use redis::AsyncCommands as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const TTL: Duration = Duration::from_secs(10);

async fn command(server: &RedisServer, words: &[&str]) {
    let mut raw = server.raw().await;
    let () = redis::cmd(words[0]).arg(&words[1..]).query_async(&mut raw).await.unwrap();
}

/// Not carried out for certain, and told without a key or an owner.
fn is_refusal(error: &BackendError, reason: &str, claim: &Claim) {
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
    let shown = format!("{error} {error:?}");
    assert!(shown.contains(reason), "{shown}");
    assert!(!shown.contains(claim.key().as_str()) && !shown.contains(&claim.owner().wire()), "{shown}");
}

#[tokio::test]
async fn a_key_of_another_type_is_refused_for_good_and_left_alone() {
    let server = RedisServer::start();
    let (client, mut raw) = (Redis::from_url(&server.url()).unwrap(), server.raw().await);
    let () = raw.rpush("orders", "not a lock").await.unwrap();
    let owner = claim(&key("orders"), TTL);
    let error = refused(&client, &owner).await;
    is_refusal(&error, "another type of value", &owner);
    assert!(error.is_permanent());
    let error = client.release(&owner).await.unwrap_err();
    is_refusal(&error, "another type of value", &owner);
    // A renewal can tell: whatever that is, it is not the owner's lock.
    let other = claim(&key("other"), TTL);
    granted(&client, &other).await;
    let answers = client.renew(&[&owner, &other]).await;
    assert!(matches!(answers[..], [Renewed::Gone, Renewed::Extended]), "{answers:?}");
    assert_eq!(raw.llen::<_, u64>("orders").await.unwrap(), 1);
    assert_eq!(raw.pttl::<_, i64>("orders").await.unwrap(), -1);
}

#[tokio::test]
async fn a_fence_key_of_another_type_is_refused_before_anything_is_taken() {
    let server = RedisServer::start();
    let (client, mut raw) = (Redis::from_url(&server.url()).unwrap(), server.raw().await);
    let () = raw.rpush("lockrt:{43681}:fencing", "not a number").await.unwrap();
    let owner = claim(&key("foo"), TTL);
    is_refusal(&refused(&client, &owner).await, "another type of value", &owner);
    assert!(!raw.exists::<_, bool>("foo").await.unwrap());
}

#[tokio::test]
async fn a_primary_that_became_a_replica_is_left_and_found_again() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let owner = claim(&key("orders"), TTL);
    granted(&client, &owner).await;
    let mut raw = server.raw().await;
    let mut connections = async || -> u64 {
        let info: redis::InfoDict = redis::cmd("INFO").arg("stats").query_async(&mut raw).await.unwrap();
        info.get("total_connections_received").unwrap()
    };
    command(&server, &["REPLICAOF", "127.0.0.1", "1"]).await;
    let before = connections().await;
    let error = refused(&client, &claim(&key("other"), TTL)).await;
    is_refusal(&error, "read-only replica", &owner);
    assert!(!error.is_permanent(), "a failover ends");
    let again =
        async || is_refusal(&refused(&client, &claim(&key("other"), TTL)).await, "read-only replica", &owner);
    // A new connection may lead to the new primary, but no number of calls makes a storm.
    for _ in 0..2_000 {
        again().await;
    }
    let made = connections().await - before;
    assert!(made < 30, "{made} connections for 2,000 calls");
    let deadline = Instant::now() + Duration::from_secs(10);
    while connections().await == before {
        assert!(Instant::now() < deadline, "no new connection in 10 s of calls");
        again().await;
    }
    command(&server, &["REPLICAOF", "NO", "ONE"]).await;
    until("the client is back", async || client.try_acquire(&claim(&key("new"), TTL)).await.is_ok()).await;
}

#[tokio::test]
async fn a_full_server_refuses_to_acquire_and_still_renews_and_releases() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let owner = claim(&key("orders"), TTL);
    granted(&client, &owner).await;
    command(&server, &["CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction"]).await;
    let other = claim(&key("other"), TTL);
    is_refusal(&refused(&client, &other).await, "out of memory", &other);
    assert!(matches!(client.renew(&[&owner]).await[..], [Renewed::Extended]));
    assert_eq!(client.release(&owner).await.unwrap(), lockrt::Released::Freed);
}

#[tokio::test]
async fn too_few_replicas_refuse_a_write_for_now() {
    let server = RedisServer::start();
    let client = Redis::from_url(&server.url()).unwrap();
    let owner = claim(&key("orders"), TTL);
    granted(&client, &owner).await;
    command(&server, &["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    let other = claim(&key("other"), TTL);
    let error = refused(&client, &other).await;
    is_refusal(&error, "too few replicas", &other);
    assert!(!error.is_permanent());
    let answers = client.renew(&[&owner]).await;
    assert!(matches!(&answers[..], [Renewed::Unknown(_)]), "{answers:?}");
    command(&server, &["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
    until("the client is back", async || client.try_acquire(&other).await.is_ok()).await;
}

#[tokio::test]
async fn another_clients_endless_script_is_told_as_such() {
    let server = RedisServer::start_with(&["--busy-reply-threshold", "20"]);
    let client = Redis::from_url(&server.url()).unwrap();
    let owner = claim(&key("orders"), TTL);
    granted(&client, &owner).await;
    let mut raw = server.raw().await;
    let endless = tokio::spawn(async move {
        let _ = redis::cmd("EVAL").arg("while true do end").arg(0).exec_async(&mut raw).await;
    });
    until("the server is busy", async || client.try_acquire(&owner).await.is_err()).await;
    is_refusal(&refused(&client, &owner).await, "script is running", &owner);
    // A client that connects meanwhile is told the same.
    let late = Redis::from_url(&server.url()).unwrap();
    is_refusal(&refused(&late, &owner).await, "script is running", &owner);
    command(&server, &["SCRIPT", "KILL"]).await;
    endless.await.unwrap();
    granted(&client, &owner).await;
    granted(&late, &owner).await;
}

#[tokio::test]
async fn a_node_of_a_cluster_is_no_single_server() {
    let server = RedisServer::start_with(&["--cluster-enabled", "yes"]);
    let client = Redis::from_url(&server.url()).unwrap();
    let owner = claim(&key("foo"), TTL);
    is_refusal(&refused(&client, &owner).await, "cluster is down", &owner);
    // All slots but that of `foo`: lock and fence of `bar` are in one slot, or it would be refused.
    command(&server, &["CLUSTER", "ADDSLOTSRANGE", "0", "12181", "12183", "16383"]).await;
    command(&server, &["CONFIG", "SET", "cluster-require-full-coverage", "no"]).await;
    let other = claim(&key("bar"), TTL);
    until("the other slots are served", async || client.try_acquire(&other).await.is_ok()).await;
    is_refusal(&refused(&client, &owner).await, "cluster is down", &owner);
    assert_eq!(client.release(&other).await.unwrap(), lockrt::Released::Freed);
}

#[tokio::test]
async fn a_user_without_rights_is_refused_for_good() {
    let server = RedisServer::start();
    command(&server, &["ACL", "SETUSER", "reader", "on", ">s3cret", "~*", "+get", "+info"]).await;
    let url = format!("redis://reader:s3cret@127.0.0.1:{}", server.port());
    let owner = claim(&key("orders"), TTL);
    let error = refused(&Redis::from_url(&url).unwrap(), &owner).await;
    is_refusal(&error, "this user needs the commands", &owner);
    assert!(error.is_permanent() && !error.to_string().contains("s3cret"));
}

#[tokio::test]
async fn a_user_who_may_call_scripts_but_not_write_is_refused_for_good() {
    let server = RedisServer::start();
    let rights = ["~*", "+get", "+time", "+evalsha", "+script|load"];
    command(&server, &[&["ACL", "SETUSER", "caller", "on", ">s3cret"], &rights[..]].concat()).await;
    let url = format!("redis://caller:s3cret@127.0.0.1:{}", server.port());
    let owner = claim(&key("orders"), TTL);
    let error = refused(&Redis::from_url(&url).unwrap(), &owner).await;
    is_refusal(&error, "this user needs the commands", &owner);
    assert!(error.is_permanent(), "{error}");
}

#[tokio::test]
async fn the_rights_that_the_refusal_names_are_enough() {
    let server = RedisServer::start();
    let rights = "~* &* +get +mget +set +del +pexpire +pttl +exists +time +zadd +zscore +zrange +zrank +zrem +evalsha +script|load +publish +subscribe";
    let mut words = vec!["ACL", "SETUSER", "locker", "on", ">s3cret"];
    words.extend(rights.split(' '));
    command(&server, &words).await;
    let client = Redis::from_url(&format!("redis://locker:s3cret@127.0.0.1:{}", server.port())).unwrap();
    let owner = claim(&key("orders"), TTL);
    granted(&client, &owner).await;
    client.try_acquire(&claim(&key("orders"), TTL)).await.unwrap();
    assert!(matches!(client.renew(&[&owner]).await[..], [Renewed::Extended]));
    let contender = claim(&key("orders"), TTL);
    let waiting = client.freed(&contender);
    let releasing = async { client.release(&owner).await.unwrap() };
    tokio::time::timeout(Duration::from_secs(5), async { tokio::join!(waiting, releasing) }).await.unwrap();
}

#[tokio::test]
async fn a_user_who_may_not_read_many_keys_at_once_hears_that_nothing_is_renewed_and_may_still_release() {
    let server = RedisServer::start();
    command(&server, &["ACL", "SETUSER", "old", "on", ">s3cret", "~*", "&*", "+@all", "-mget", "-zrank"])
        .await;
    let client = Redis::from_url(&format!("redis://old:s3cret@127.0.0.1:{}", server.port())).unwrap();
    let owner = claim(&key("orders"), TTL);
    granted(&client, &owner).await;
    let answers = client.renew(&[&owner]).await;
    let [Renewed::Unknown(error)] = &answers[..] else { panic!("{answers:?}") };
    is_refusal(error, "this user needs the commands get, mget", &owner);
    assert!(error.is_permanent(), "{error}");
    assert_eq!(client.release(&owner).await.unwrap(), lockrt::Released::Freed);
}

#[tokio::test]
async fn the_user_that_the_readme_makes_can_lock_and_wait_and_do_no_more() {
    let server = RedisServer::start();
    let line = include_str!("../../README.md").lines().find(|line| line.starts_with("ACL SETUSER")).unwrap();
    command(&server, &line.split(' ').collect::<Vec<_>>()).await;
    let url = format!("redis://locks:password@127.0.0.1:{}", server.port());
    let policy = LockPolicy::new(TTL).wait(TTL).renew(TTL * 2);
    let clients = [LockManager::from_url(&url).await.unwrap(), LockManager::from_url(&url).await.unwrap()];
    let guard = clients[0].acquire(&key("orders"), &policy).await.unwrap();
    let name = key("orders");
    let (next, ()) = tokio::join!(clients[1].acquire(&name, &policy), async {
        until("it waits", async || server.queued().await == 1).await;
        assert_eq!(guard.release().await, lockrt::Released::Freed);
    });
    assert!(next.is_ok());
    // Its place was called; a user who may not listen looks every 200 ms.
    assert!(server.commandstats().await["publish"] >= 1);
    let mut raw = redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
    for words in [&["GET", "orders"][..], &["KEYS", "*"], &["FLUSHALL"], &["CONFIG", "GET", "*"]] {
        let refused = redis::cmd(words[0]).arg(&words[1..]).query_async::<()>(&mut raw).await.unwrap_err();
        assert_eq!(refused.code(), Some("NOPERM"), "{words:?}");
    }
}

#[tokio::test]
async fn a_user_who_may_not_publish_releases_all_the_same() {
    let server = RedisServer::start();
    let rights = "~* resetchannels +@all";
    let mut words = vec!["ACL", "SETUSER", "quiet", "on", ">s3cret"];
    words.extend(rights.split(' '));
    command(&server, &words).await;
    let client = Redis::from_url(&format!("redis://quiet:s3cret@127.0.0.1:{}", server.port())).unwrap();
    let owner = claim(&key("orders"), TTL);
    granted(&client, &owner).await;
    assert_eq!(client.release(&owner).await.unwrap(), lockrt::Released::Freed);
    assert!(!server.raw().await.exists::<_, bool>("orders").await.unwrap());
}

#[tokio::test]
async fn a_server_before_version_6_is_refused_for_good_and_told_no_password() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    // What Redis 5 says to a greeting it does not know, the arguments included.
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut greeting = vec![0; 4_096];
            let _ = stream.read(&mut greeting).await;
            let refusal = "-ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `s3cret`, \r\n";
            let _ = stream.write_all(refusal.repeat(4).as_bytes()).await;
        }
    });
    let client = Redis::from_url(&format!("redis://:s3cret@127.0.0.1:{port}")).unwrap();
    let owner = claim(&key("orders"), TTL);
    let error = refused(&client, &owner).await;
    is_refusal(&error, "Redis 6.2 or newer", &owner);
    assert!(error.is_permanent() && !format!("{error} {error:?}").contains("s3cret"));
}
