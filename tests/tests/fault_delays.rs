//! Slow networks, and connections of which each is slow in its own way.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

use lockrt::{LockKey, LockManager, LockPolicy, Redis};
use lockrt_tests::{Dice, Proxy, RedisServer, Setup, Step, Store, Toxic, Way, until};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

/// From the clock, so that each run tries something else; a failed run prints it.
fn seed() -> u64 {
    u64::try_from(UNIX_EPOCH.elapsed().unwrap().as_nanos() % u128::from(u64::MAX)).unwrap()
}

/// A server, a store, and clients that have proxies of their own in front of the server.
struct World {
    server: RedisServer,
    stored: RedisServer,
    proxies: Vec<Proxy>,
}

impl World {
    async fn start(clients: u64, seed: u64) -> Self {
        let (server, stored) = (RedisServer::start(), RedisServer::start());
        let mut proxies = Vec::new();
        for number in 0..clients {
            proxies.push(Proxy::start(server.port(), seed ^ number).await);
        }
        Store::at(&stored.url()).write(0, "0");
        Self { server, stored, proxies }
    }

    /// Each client adds one in the store under the lock, again and again until `end`; how often the
    /// store took it, and how often in all.
    async fn count(&self, policy: LockPolicy, end: Instant, turns: u64) -> (u64, u64) {
        let mut clients = JoinSet::new();
        for proxy in &self.proxies {
            let manager = LockManager::builder().build(Redis::from_url(&proxy.url()).unwrap()).unwrap();
            let url = self.stored.url();
            clients.spawn(async move {
                let (mut store, mut counted, mut done) = (Store::at(&url), 0, 0);
                while Instant::now() < end && done < turns {
                    let Ok(guard) = manager.acquire(&KEY, &policy).await else { continue };
                    let read: u64 = store.fenced().parse().unwrap();
                    sleep(Duration::from_millis(2)).await;
                    let token = guard.lease().fencing().unwrap().get();
                    counted += u64::from(store.write(token, &(read + 1).to_string()));
                    done += 1;
                    guard.release().await;
                }
                (counted, done)
            });
        }
        let ended = clients.join_all().await;
        ended.into_iter().fold((0, 0), |sum, (counted, done)| (sum.0 + counted, sum.1 + done))
    }

    /// What the store has counted, which no stale write has spoilt.
    fn counted(&self) -> u64 {
        Store::at(&self.stored.url()).fenced().parse().unwrap()
    }
}

#[tokio::test]
async fn latencies_of_0_to_400_ms_with_jitter_change_no_outcome() {
    let seed = seed();
    let world = World::start(3, seed).await;
    for proxy in &world.proxies {
        proxy.delay(0..200);
    }
    let policy = LockPolicy::new(Duration::from_secs(10)).wait_forever();
    let turns = 4;
    let (stored, done) = world.count(policy, Instant::now() + Duration::from_secs(60), turns).await;
    assert_eq!((stored, done), (turns * 3, turns * 3), "seed {seed}");
    assert_eq!(world.counted(), stored, "seed {seed}");
}

#[tokio::test]
async fn connections_that_are_delayed_independently_change_no_outcome() {
    let seed = seed();
    let world = World::start(3, seed).await;
    for proxy in &world.proxies {
        let ways = [Way::Request, Way::Answer];
        proxy.add(ways.map(|way| Toxic::Distance { way, ms: 0..80 }));
    }
    // A new connection is nearer or farther than the one before, whose requests are under way still.
    let cuts = async {
        let mut dice = Dice::new(seed);
        for _ in 0..30 {
            sleep(Duration::from_millis(dice.within(30..150))).await;
            world.proxies[usize::try_from(dice.within(0..3)).unwrap()].cut();
        }
    };
    let policy = LockPolicy::new(Duration::from_secs(2)).wait(Duration::from_secs(10));
    let end = Instant::now() + Duration::from_millis(2_700);
    let ((stored, done), ()) = tokio::join!(world.count(policy, end, u64::MAX), cuts);
    assert_eq!(stored, done, "seed {seed}: no lease was shared");
    assert_eq!(world.counted(), stored, "seed {seed}");
    assert!(stored >= 5, "seed {seed}: only {stored} turns");
    until("no key is left", async || world.server.held().await == 0).await;
}

#[tokio::test]
async fn a_network_that_fails_at_random_loses_no_update_of_a_fenced_store() {
    let seed = seed();
    let world = World::start(4, seed).await;
    let begun = Instant::now();
    let time = Duration::from_secs(4);
    for (number, proxy) in (0..).zip(&world.proxies) {
        let mut dice = Dice::new(seed ^ number);
        // A hundred steps of 110 ms on average last longer than this case.
        proxy.play((0..100).map(|_| Step::random(&mut dice)));
    }
    let policy = LockPolicy::new(Duration::from_millis(600)).wait(Duration::from_secs(1));
    let (stored, done) = world.count(policy, begun + time, u64::MAX).await;
    assert_eq!(world.counted(), stored, "seed {seed}");
    assert!(stored >= 10, "seed {seed}: only {stored} of {done} turns");
    for proxy in &world.proxies {
        proxy.clear();
    }
    // All is well again soon.
    let (stored, done) = world.count(policy, Instant::now() + Duration::from_secs(10), 3).await;
    assert_eq!((stored, done), (12, 12), "seed {seed}");
}
