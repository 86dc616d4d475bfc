//! A replica that becomes the primary without the last writes.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use lockrt::{LockError, LockGuard, LockKey, LockManager, LockPolicy, LossReason, Redis};
use lockrt_tests::{Fault, Proxy, RedisServer, Setup, Store, soon, until};

const SLACK: Duration = Duration::from_secs(1);
const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(3)).wait_forever();
const RENEWED: LockPolicy = POLICY.renew(Duration::from_secs(600));

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

async fn command(server: &RedisServer, words: &[&str]) {
    let mut raw = server.raw().await;
    redis::cmd(words[0]).arg(&words[1..]).exec_async(&mut raw).await.unwrap();
}

/// A primary, its replica, the link between them, and the name under which clients find the primary.
struct Pair {
    primary: RedisServer,
    replica: RedisServer,
    link: Proxy,
    name: Proxy,
}

impl Pair {
    async fn start() -> Self {
        let primary = RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]);
        let link = Proxy::start(primary.port(), 1).await;
        let name = Proxy::start(primary.port(), 2).await;
        let port = link.port().to_string();
        let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port]);
        let pair = Self { primary, replica, link, name };
        command(&pair.primary, &["SET", "first", "1"]).await;
        until("the replica follows", async || pair.replica.has("first").await).await;
        command(&pair.primary, &["DEL", "first"]).await;
        until("the replica follows", async || !pair.replica.has("first").await).await;
        pair
    }

    /// Clients that connect from now on find the replica, which the last writes never reached.
    async fn fail_over(&self) {
        assert!(!self.replica.has("lock:orders:7").await, "the last write was copied");
        command(&self.replica, &["REPLICAOF", "NO", "ONE"]).await;
        self.name.lead_to(self.replica.port());
    }

    fn manager(&self) -> LockManager {
        LockManager::builder().build(Redis::from_url(&self.name.url()).unwrap()).unwrap()
    }
}

fn token(guard: &LockGuard) -> u64 {
    guard.lease().fencing().unwrap().get()
}

/// A holder whose lock the replica never saw, and the next owner there.
async fn two_holders(pair: &Pair, policy: &LockPolicy) -> (LockGuard, Instant, LockGuard) {
    // A lock before, so that the replica knows an earlier token.
    pair.manager().acquire(&KEY, &POLICY).await.unwrap().release().await;
    command(&pair.primary, &["SET", "second", "2"]).await;
    until("the replica has all of that", async || pair.replica.has("second").await).await;
    command(&pair.primary, &["DEL", "second"]).await;
    pair.link.set(Fault::Stall);
    let started = Instant::now();
    let older = pair.manager().acquire(&KEY, policy).await.unwrap();
    pair.fail_over().await;
    let newer = soon("the lock", pair.manager().acquire(&KEY, &RENEWED)).await.unwrap();
    (older, started, newer)
}

#[tokio::test]
async fn a_failover_that_lost_a_lock_gives_it_twice_until_the_older_deadline_and_the_fence_refuses() {
    let (pair, stored) = (Pair::start().await, RedisServer::start());
    let mut store = Store::at(&stored.url());
    let (older, started, newer) = two_holders(&pair, &POLICY).await;
    assert!(
        older.lease().check().is_ok() || started.elapsed() >= POLICY.ttl() * 98 / 100,
        "shown, not hidden: two holders"
    );
    assert!(token(&newer) > token(&older), "{} after {}", token(&newer), token(&older));
    assert!(store.write(token(&older), "old"));
    assert!(store.write(token(&newer), "new"));
    assert!(!store.write(token(&older), "old"), "the fence refuses");
    assert_eq!(store.fenced(), "new");
    let loss = older.lease().lost().await;
    assert!(matches!(loss, LockError::Lost { reason: LossReason::Expired, .. }), "{loss}");
    assert!(started.elapsed() <= POLICY.ttl() + SLACK, "{:?}", started.elapsed());
    newer.lease().check().unwrap();
}

#[tokio::test]
async fn a_renewed_lease_that_a_failover_lost_is_lost_when_the_old_primary_dies() {
    let mut pair = Pair::start().await;
    let (older, _, newer) = two_holders(&pair, &RENEWED).await;
    let died = Instant::now();
    pair.primary.kill();
    pair.name.cut();
    let loss = older.lease().lost().await;
    assert!(matches!(loss, LockError::Lost { reason: LossReason::Gone, .. }), "{loss}");
    let bound = POLICY.ttl() * 5 / 12 + SLACK;
    assert!(died.elapsed() <= bound, "{:?}", died.elapsed());
    newer.lease().check().unwrap();
}

#[tokio::test]
async fn a_renewed_lease_that_a_failover_lost_is_lost_when_the_old_primary_follows_the_new_one() {
    let pair = Pair::start().await;
    let (older, _, newer) = two_holders(&pair, &RENEWED).await;
    let demoted = Instant::now();
    // The connection of the older holder leads to the old primary still.
    command(&pair.primary, &["REPLICAOF", "127.0.0.1", &pair.replica.port().to_string()]).await;
    let loss = older.lease().lost().await;
    assert!(matches!(loss, LockError::Lost { reason: LossReason::Gone, .. }), "{loss}");
    let bound = POLICY.ttl() + SLACK;
    assert!(demoted.elapsed() <= bound, "{:?}", demoted.elapsed());
    newer.lease().check().unwrap();
    drop(older);
    let contender = pair.manager().try_acquire(&KEY, &POLICY).await;
    assert!(contender.unwrap_err().is_contended());
}

#[tokio::test]
async fn a_lease_that_was_copied_survives_the_failover() {
    let pair = Pair::start().await;
    let manager = pair.manager();
    let holder = manager.acquire(&KEY, &RENEWED).await.unwrap();
    until("the lock is copied", async || pair.replica.held().await == 1).await;
    command(&pair.replica, &["REPLICAOF", "NO", "ONE"]).await;
    pair.name.lead_to(pair.replica.port());
    command(&pair.primary, &["REPLICAOF", "127.0.0.1", &pair.replica.port().to_string()]).await;
    let begun = Instant::now();
    while begun.elapsed() < POLICY.ttl() * 3 / 2 {
        holder.lease().check().unwrap();
        tokio::time::sleep(POLICY.ttl() / 100).await;
    }
    let before = token(&holder);
    holder.release().await;
    assert_eq!(pair.replica.held().await, 0, "released at the new primary");
    let next = soon("the lock", manager.acquire(&KEY, &POLICY)).await.unwrap();
    assert!(token(&next) > before);
}

/// A primary that was deposed and stays reachable, so that no connection breaks.
async fn is_left(deposed: &[&[&str]], sentence: &str) {
    let pair = Pair::start().await;
    let manager = pair.manager();
    let holder = manager.acquire(&KEY, &POLICY).await.unwrap();
    // A lock that was met held is asked for by the script for a second.
    manager.try_acquire(&KEY, &POLICY).await.unwrap_err();
    holder.release().await;
    for words in deposed {
        command(&pair.primary, words).await;
    }
    let short = LockPolicy::new(Duration::from_millis(300));
    let refusal = manager.acquire(&KEY, &short).await.unwrap_err();
    // Without the script a replica refuses as such, whatever else it lacks.
    let sentences = [sentence, "read-only replica"];
    assert!(sentences.iter().any(|sentence| refusal.to_string().contains(sentence)), "{refusal}");
    command(&pair.replica, &["REPLICAOF", "NO", "ONE"]).await;
    pair.name.lead_to(pair.replica.port());
    let guard = soon("the lock", manager.acquire(&KEY, &POLICY)).await.unwrap();
    guard.lease().check().unwrap();
    assert_eq!(pair.replica.held().await, 1);
}

#[tokio::test]
async fn a_client_of_a_read_only_replica_goes_where_the_name_leads_now() {
    is_left(&[&["REPLICAOF", "127.0.0.1", "1"]], "read-only replica").await;
}

#[tokio::test]
async fn a_client_of_a_replica_without_its_primary_goes_where_the_name_leads_now() {
    let stale = ["CONFIG", "SET", "replica-serve-stale-data", "no"];
    is_left(&[&stale, &["REPLICAOF", "127.0.0.1", "1"]], "lost its primary").await;
}

#[tokio::test]
async fn a_client_of_a_primary_without_its_replicas_goes_where_the_name_leads_now() {
    is_left(&[&["CONFIG", "SET", "min-replicas-to-write", "5"]], "too few replicas").await;
}
