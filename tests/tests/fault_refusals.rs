//! A server that answers, and refuses: each refusal is an outage with a sentence of its own.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use lockrt::{LockError, LockKey, LockManager, LockPolicy, LossReason, Redis};
use lockrt_tests::{FakeRedis, RedisServer, Setup, soon, together, until};
use tokio::time::sleep;

const SLACK: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_millis(900);
const POLICY: LockPolicy = LockPolicy::new(TTL);

/// What a server may say, and what is said of it.
const REFUSALS: [(&str, &str); 11] = [
    ("BUSY Redis is busy running a script. You can only call SCRIPT KILL.", "script is running"),
    ("CLUSTERDOWN The cluster is down", "cluster is down"),
    ("ERR max number of clients reached", "max number of clients"),
    ("LOADING Redis is loading the dataset in memory", "loading its data"),
    ("MASTERDOWN Link with MASTER is down", "lost its primary"),
    ("MISCONF Redis is configured to save RDB snapshots, but it's unable to persist", "save its data"),
    ("NOREPLICAS Not enough good replicas to write.", "too few replicas"),
    ("NOSCRIPT No matching script. Please use EVAL.", "scripts were flushed"),
    ("OOM command not allowed when used memory > 'maxmemory'.", "out of memory"),
    ("READONLY You can't write against a read only replica.", "read-only replica"),
    ("TRYAGAIN Multiple keys request during rehashing of slot", "moving the slot"),
];

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

fn manager(url: &str) -> LockManager {
    LockManager::builder().build(Redis::from_url(url).unwrap()).unwrap()
}

/// The refusal says `sentence`, and neither the key nor that somebody holds it.
fn is_outage(refusal: &LockError, sentence: &str) {
    assert!(refusal.is_unavailable(), "{sentence}: {refusal}");
    let told = format!("{refusal} {refusal:?}");
    assert!(told.contains(sentence) && !told.contains(KEY.as_str()), "{sentence}: {told}");
}

async fn acquires_meet((line, sentence): (&'static str, &'static str)) {
    let server = FakeRedis::start().await;
    server.refuse(line);
    let manager = manager(&server.url());
    let asked = Instant::now();
    is_outage(&manager.acquire(&KEY, &POLICY).await.unwrap_err(), sentence);
    let took = asked.elapsed();
    assert!(took >= TTL / 2 && took <= TTL + SLACK, "{line}: {took:?}");
    assert!(server.asked("EVALSHA") >= 3, "{line}: it is asked again, it may pass");
    // Who waits gets the lock when it has passed.
    let grants = async {
        sleep(TTL / 3).await;
        server.grant();
    };
    let patient = POLICY.wait_forever();
    let (guard, ()) = tokio::join!(manager.acquire(&KEY, &patient), grants);
    guard.unwrap_or_else(|refusal| panic!("{line}: {refusal}")).release().await;
}

#[tokio::test]
async fn an_acquire_that_the_server_refuses_is_unavailable_with_the_reason_and_asks_again() {
    together(REFUSALS, acquires_meet).await;
}

async fn leases_meet((line, _): (&'static str, &'static str)) {
    let server = FakeRedis::start().await;
    let manager = manager(&server.url());
    let ttl = TTL * 2;
    let policy = LockPolicy::new(ttl).renew(Duration::from_secs(600));
    // Shorter than the lease: nothing happens.
    let guard = manager.acquire(&KEY, &policy).await.unwrap();
    server.refuse(line);
    sleep(ttl / 2).await;
    server.grant();
    let begun = Instant::now();
    while begun.elapsed() < ttl {
        guard.lease().check().unwrap_or_else(|loss| panic!("{line}: {loss}"));
        sleep(ttl / 50).await;
    }
    // Longer: it is lost at its deadline. A refusal is no proof that it is gone.
    server.refuse(line);
    let begun = Instant::now();
    let loss = guard.lease().lost().await;
    assert!(matches!(loss, LockError::Lost { reason: LossReason::Expired, .. }), "{line}: {loss}");
    assert!(begun.elapsed() >= ttl / 2, "{line}: {:?}", begun.elapsed());
    assert!(begun.elapsed() <= ttl + SLACK, "{line}: {:?}", begun.elapsed());
}

#[tokio::test]
async fn a_lease_whose_renewals_the_server_refuses_lasts_to_its_deadline() {
    together(REFUSALS, leases_meet).await;
}

async fn command(server: &RedisServer, words: &[&str]) {
    let mut raw = server.raw().await;
    redis::cmd(words[0]).arg(&words[1..]).exec_async(&mut raw).await.unwrap();
}

#[tokio::test]
async fn a_server_that_loads_its_data_after_a_restart_is_waited_for() {
    // Each key takes 0.2 ms to load.
    let slow = ["--enable-debug-command", "yes", "--key-load-delay", "200"];
    let often = ["--loading-process-events-interval-bytes", "1024"];
    let mut server = RedisServer::start_with(&[slow.as_slice(), &often].concat());
    let manager = server.manager();
    let policy = LockPolicy::new(Duration::from_secs(9)).renew(Duration::from_secs(600));
    let holder = manager.acquire(&KEY, &policy).await.unwrap();
    command(&server, &["DEBUG", "POPULATE", "8000"]).await;
    command(&server, &["SAVE"]).await;
    let begun = Instant::now();
    server.restart();
    let caller = server.manager();
    is_outage(&caller.acquire(&KEY, &POLICY).await.unwrap_err(), "loading its data");
    // The key was saved, and so the lease goes on.
    let contended = async { while !caller.acquire(&KEY, &POLICY).await.unwrap_err().is_contended() {} };
    soon("the end of loading", contended).await;
    while begun.elapsed() < policy.ttl() {
        holder.lease().check().unwrap();
        sleep(policy.ttl() / 100).await;
    }
}

#[tokio::test]
async fn a_server_that_cannot_save_its_data_refuses_until_it_can() {
    let server = RedisServer::start_with(&["--enable-protected-configs", "yes"]);
    let manager = server.manager();
    let gone = std::env::temp_dir().join(format!("lockrt-gone-{}", server.port()));
    std::fs::create_dir_all(&gone).unwrap();
    command(&server, &["CONFIG", "SET", "dir", gone.to_str().unwrap(), "save", "3600 1"]).await;
    std::fs::remove_dir_all(&gone).unwrap();
    command(&server, &["BGSAVE"]).await;
    let refuses = async || manager.try_acquire(&KEY, &POLICY).await.is_err_and(|told| told.is_unavailable());
    until("the server has noticed", refuses).await;
    is_outage(&manager.acquire(&KEY, &POLICY).await.unwrap_err(), "cannot save its data");
    command(&server, &["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]).await;
    soon("the lock", manager.acquire(&KEY, &POLICY)).await.unwrap().release().await;
}

#[tokio::test]
async fn a_full_server_grants_nothing_and_costs_no_lease() {
    let server = RedisServer::start();
    let manager = server.manager();
    let policy = POLICY.renew(Duration::from_secs(600));
    let holder = manager.acquire(&KEY, &policy).await.unwrap();
    command(&server, &["CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction"]).await;
    let other = LockKey::new("orders:8").unwrap();
    let begun = Instant::now();
    is_outage(&manager.acquire(&other, &POLICY).await.unwrap_err(), "out of memory");
    while begun.elapsed() < TTL * 2 {
        holder.lease().check().unwrap();
        sleep(TTL / 50).await;
    }
    assert_eq!(holder.release().await, lockrt::Released::Freed);
    command(&server, &["CONFIG", "SET", "maxmemory", "0"]).await;
    manager.acquire(&other, &POLICY).await.unwrap().release().await;
}
