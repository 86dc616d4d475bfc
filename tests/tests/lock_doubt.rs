//! Acquires that arrive after their release: cancelled behind a slow network that is cut.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::Duration;

use lockrt::conformance::Service as _;
use lockrt::{Attempt, Backend, LockKey, LockManager, LockPolicy, Outcome, Redis, Released, testing};
use lockrt_tests::{Dice, Fault, Proxy, RedisServer, Setup, polled, settled, until};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const DELAY_MS: std::ops::Range<u64> = 0..50;
/// The latest that a request which was cut off is delivered.
const LATEST: Duration = Duration::from_millis(400);
/// Far longer than any delay, so that a key which a cancelled acquire left is there to be seen.
const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(4));
const PROCESSES: u64 = 10;
const ACQUIRES: u64 = 50;

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

fn behind(proxy: &Proxy) -> Redis {
    Redis::from_url(&proxy.url()).unwrap()
}

/// From the clock, so that each run tries something else; a failed run prints it.
fn seed() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since.as_nanos() % u128::from(u64::MAX)).unwrap()
}

/// The fault that the test below is about, without any of our clean-up.
#[tokio::test]
async fn an_acquire_that_is_delivered_after_its_release_leaves_the_key() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let (cut_off, direct) = (behind(&proxy), server.client().await);
    // Connects.
    assert_eq!(cut_off.release(&testing::claim(&KEY, POLICY.ttl())).await.unwrap(), Released::NotHeld);
    let claim = testing::claim(&KEY, POLICY.ttl());
    proxy.set(Fault::CutAtRequest { deliver_after: Duration::from_millis(100) });
    assert_eq!(cut_off.try_acquire(&claim).await.unwrap_err().outcome(), Outcome::Unknown);
    assert_eq!(direct.release(&claim).await.unwrap(), Released::NotHeld);
    until("the acquire is delivered", async || server.held().await == 1).await;
    let other = testing::claim(&KEY, POLICY.ttl());
    assert!(matches!(direct.try_acquire(&other).await.unwrap(), Attempt::Held { .. }));
}

#[tokio::test]
async fn an_acquire_cancelled_at_any_poll_behind_a_slow_network_leaves_nothing() {
    let server = RedisServer::start();
    let seed = seed();
    let proxy = Proxy::start(server.port(), seed).await;
    proxy.delay(DELAY_MS);
    for policy in [POLICY, POLICY.wait(Duration::from_secs(1))] {
        for polls in 0.. {
            let manager = LockManager::builder().build(behind(&proxy)).unwrap();
            let acquire = manager.acquire(&KEY, &policy);
            let ended = polled(polls, acquire, async {}).await.is_some();
            settled(manager, &format!("seed {seed}, {polls} polls")).await;
            assert_eq!(server.held().await, 0, "seed {seed}, {polls} polls");
            if ended {
                assert!(polls >= 2);
                break;
            }
        }
    }
}

/// One process with a connection of its own, which cancels one acquire after the other.
async fn cancel_acquires(server: u16, process: u64, seed: u64) -> u64 {
    let mut dice = Dice::new(seed ^ process);
    let proxy = Proxy::start(server, dice.roll()).await;
    proxy.delay(DELAY_MS);
    let manager = LockManager::builder().build(behind(&proxy)).unwrap();
    for number in 0..ACQUIRES {
        if dice.within(0..5) == 0 {
            let late = dice.within(0..u64::try_from(LATEST.as_millis()).unwrap());
            proxy.set(Fault::CutAtRequest { deliver_after: Duration::from_millis(late) });
        }
        let key = LockKey::of("orders:").part(&process).text(":").part(&number).build().unwrap();
        let patience = Duration::from_millis(dice.within(0..80));
        drop(timeout(patience, manager.acquire(&key, &POLICY)).await);
    }
    proxy.set(Fault::None);
    settled(manager, &format!("seed {seed}, process {process}")).await;
    // A connection for each cut, and the first.
    proxy.accepted() - 1
}

#[tokio::test]
async fn of_500_acquires_cancelled_behind_a_network_that_cuts_one_in_five_none_leaves_a_key() {
    let server = RedisServer::start();
    let (port, seed) = (server.port(), seed());
    let mut processes = JoinSet::new();
    for process in 0..PROCESSES {
        processes.spawn(cancel_acquires(port, process, seed));
    }
    let mut cuts = 0;
    while let Some(cut) = processes.join_next().await {
        cuts += cut.unwrap();
    }
    assert!(cuts >= PROCESSES * ACQUIRES / 10, "seed {seed}: only {cuts} cuts");
    // All queues are empty; by the end of this, all that was cut off has been delivered.
    let (delivered, mut left) = (Instant::now() + LATEST + LATEST, 0);
    while Instant::now() < delivered {
        left = left.max(server.held().await);
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(left, 0, "seed {seed}: keys are left after {cuts} cuts");
}
