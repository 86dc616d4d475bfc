//! Calls that are dropped at any poll behind a network that delays each connection by itself and
//! cuts some, so that requests arrive after the releases that were sent behind them.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::time::Duration;

use lockrt::conformance::Service as _;
use lockrt::{LockError, LockKey, LockManager, LockPolicy, Redis, distributed_lock};
use lockrt_tests::{Dice, Fault, Proxy, RedisServer, Setup as _, Watch, key, polled, settled};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout};

const DELAY_MS: std::ops::Range<u64> = 0..50;
/// The latest that a request which was cut off is delivered.
const LATEST_MS: u64 = 400;
/// Far longer than any delay, so that a key which a dropped call left is there to be seen.
const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(4));
/// No call takes more polls.
const POLLS: usize = 9;
const KEY: &str = "orders:7";

/// From the clock, so that each run tries something else; a failed run prints it.
fn seed() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since.as_nanos() % u128::from(u64::MAX)).unwrap()
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Acquire,
    Wait,
    ReleaseGuard,
    ReleaseLease,
    Run,
    Function,
}

const CALLS: [Call; 6] =
    [Call::Acquire, Call::Wait, Call::ReleaseGuard, Call::ReleaseLease, Call::Run, Call::Function];

#[distributed_lock(key = "{id}", ttl_ms = 4_000, manager = manager, on_contention = wait(timeout_ms = 1_000))]
async fn order(manager: &LockManager, id: &str) -> Result<(), LockError> {
    yield_now().await;
    sleep(Duration::from_millis(1)).await;
    Ok(())
}

impl Call {
    /// Makes the call; a network that is cut may refuse it.
    async fn make(self, manager: &LockManager, key: &LockKey) -> Result<(), LockError> {
        let policy = POLICY.wait(Duration::from_secs(1));
        match self {
            Self::Acquire => manager.acquire(key, &POLICY).await.map(drop),
            Self::Wait => manager.acquire(key, &policy).await.map(drop),
            Self::ReleaseGuard => {
                manager.acquire(key, &POLICY).await?.release().await;
                Ok(())
            }
            Self::ReleaseLease => {
                let guard = manager.acquire(key, &POLICY).await?;
                guard.lease().release().await;
                Ok(())
            }
            Self::Run => manager.run(key, &policy, async |_| yield_now().await).await,
            Self::Function => order(manager, key.as_str()).await,
        }
    }
}

/// One call of one process behind a proxy of its own, which is dropped after so many polls and some
/// time. Says whether it had ended by then, and whether it was cut off.
async fn dropped(port: u16, call: Call, key: LockKey, polls: usize, mut dice: Dice) -> (bool, bool) {
    let proxy = Proxy::start(port, dice.roll()).await;
    proxy.delay(DELAY_MS);
    let manager = LockManager::builder().build(Redis::from_url(&proxy.url()).unwrap()).unwrap();
    let mut ms = |most| Duration::from_millis(dice.within(0..most));
    let (lingers, cut, cut_after, deliver_after) = (ms(60), ms(3).is_zero(), ms(200), ms(LATEST_MS));
    let cuts = async {
        if cut {
            sleep(cut_after).await;
            proxy.set(Fault::CutAtRequest { deliver_after });
        }
    };
    let (ended, ()) = tokio::join!(polled(polls, call.make(&manager, &key), sleep(lingers)), cuts);
    proxy.set(Fault::None);
    settled(manager, &format!("{call:?} after {polls} polls")).await;
    (ended.is_some(), proxy.accepted() > 1)
}

/// Drops every call at every poll, all at the same time, each on the key that `key` says.
async fn all_dropped(server: &RedisServer, seed: u64, key: impl Fn(usize) -> LockKey) {
    let mut dice = Dice::new(seed);
    let mut calls = JoinSet::new();
    for call in CALLS {
        for polls in 1..=POLLS {
            let dice = Dice::new(dice.roll());
            calls.spawn(dropped(server.port(), call, key(calls.len()), polls, dice));
        }
    }
    let (mut ended, mut cuts) = (0, 0);
    while let Some(call) = calls.join_next().await {
        let (has_ended, was_cut) = call.unwrap();
        ended += usize::from(has_ended);
        cuts += usize::from(was_cut);
    }
    assert!(ended >= 1, "seed {seed}: {POLLS} polls are too few");
    assert!(cuts >= 1, "seed {seed}: no connection was cut");
}

/// Looks until all that was cut off must have been delivered; how many keys there were at most.
async fn most_stored(server: &RedisServer) -> usize {
    let (delivered, mut most) = (Instant::now() + Duration::from_millis(2 * LATEST_MS), 0);
    while Instant::now() < delivered {
        most = most.max(server.held().await);
        sleep(Duration::from_millis(10)).await;
    }
    most
}

#[tokio::test]
async fn calls_for_free_keys_that_are_dropped_at_any_poll_leave_nothing() {
    let (server, seed) = (RedisServer::start(), seed());
    let mut watch = Watch::start(&server).await;
    all_dropped(&server, seed, |number| key(&format!("{KEY}-{number}"))).await;
    assert_eq!(most_stored(&server).await, 0, "seed {seed}");
    watch.nothing_is_left(&format!("seed {seed}")).await;
}

/// Here the calls wait for each other too, in queues or by listening.
#[tokio::test]
async fn calls_for_the_same_key_that_are_dropped_at_any_poll_leave_nothing() {
    let (server, seed) = (RedisServer::start(), seed());
    let mut watch = Watch::start(&server).await;
    all_dropped(&server, seed, |_| key(KEY)).await;
    assert_eq!(most_stored(&server).await, 0, "seed {seed}");
    watch.nothing_is_left(&format!("seed {seed}")).await;
}

#[tokio::test]
async fn waits_for_a_held_key_that_are_dropped_at_any_poll_leave_no_place_in_any_queue() {
    let (server, seed) = (RedisServer::start(), seed());
    let mut watch = Watch::start(&server).await;
    let holds = LockManager::builder().build(server.client().await).unwrap();
    let key = key(KEY);
    let holder = holds.acquire(&key, &LockPolicy::new(Duration::from_secs(60))).await.unwrap();
    all_dropped(&server, seed, |_| key.clone()).await;
    assert_eq!(most_stored(&server).await, 1, "seed {seed}: the holder's");
    // It is handed to nobody who has gone, and the next one gets it at once.
    holder.release().await;
    assert_eq!(server.held().await, 0, "seed {seed}");
    let next = timeout(Duration::from_secs(2), holds.acquire(&key, &POLICY.wait_forever())).await;
    next.unwrap().unwrap().release().await;
    drop(holds);
    watch.nothing_is_left(&format!("seed {seed}")).await;
}
