//! What a call returns when lease, body and release do not end alike.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::Duration;

use lockrt::{
    LockError, LockKey, LockManager, LockPolicy, LossReason, OnLost, ReleaseMode, Released, distributed_lock,
};
use lockrt_tests::{
    Call, Fate, Faulty, RedisServer, Setup, on_each_backend, soon, until, with_thread_keepers,
};
use tokio::time::{Instant, sleep};

const LONG: LockPolicy = LockPolicy::new(Duration::from_secs(60));
const TTL: Duration = Duration::from_millis(600);
const POLICY: LockPolicy = LockPolicy::new(TTL);
/// How long a caller waits for a release.
const AWAITED: Duration = Duration::from_millis(250);

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

on_each_backend! {
    a_body_goes_on_after_the_loss_where_it_is_only_reported,
    a_body_that_gave_its_lease_back_is_neither_stopped_nor_lost,
}

with_thread_keepers! {
    a_bodys_own_error_stays_after_a_loss,
    a_value_that_came_late_is_lost,
    a_value_that_came_late_stands_where_losses_are_only_reported,
}

#[tokio::test(start_paused = true)]
async fn a_value_wins_over_a_failed_release() {
    let fates = [Fate::NotApplied, Fate::Unknown, Fate::Applied, Fate::Silent, Fate::Denied, Fate::Panics];
    for fate in fates {
        let service = Faulty::start(move |call, number| match call {
            Call::Release if number == 1 => fate,
            _ => Fate::Answered,
        });
        let manager = service.manager();
        let started = Instant::now();
        assert_eq!(manager.run(&KEY, &LONG, async |_| 17).await.unwrap(), 17, "{fate:?}");
        assert!(started.elapsed() <= AWAITED + Faulty::SLACK, "{fate:?}: {:?}", started.elapsed());
        // But for a service that denies the grant, the release is repeated until it is answered.
        let left = usize::from(fate == Fate::Denied);
        until("the release is repeated", async || service.held().await == left).await;
        let error = Faulty::start(move |call, _| if call == Call::Release { fate } else { Fate::Answered });
        let ended = error.manager().run(&KEY, &LONG, async |_| Err::<(), _>("no")).await;
        assert_eq!(ended.unwrap(), Err("no"), "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_says_what_came_of_it() {
    for (fate, released) in [
        (Fate::Answered, Released::Freed),
        (Fate::Denied, Released::NotHeld),
        (Fate::Silent, Released::Deferred),
    ] {
        let service = Faulty::start(move |call, _| if call == Call::Release { fate } else { Fate::Answered });
        let guard = service.manager().acquire(&KEY, &LONG).await.unwrap();
        let started = Instant::now();
        assert_eq!(guard.release().await, released);
        assert!(started.elapsed() <= AWAITED + Faulty::SLACK, "{:?}", started.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_only_started_keeps_nobody() {
    let service = Faulty::start(|call, _| match call {
        Call::Release => Fate::AnsweredAfter(Duration::from_millis(100)),
        _ => Fate::Answered,
    });
    let started = Instant::now();
    let policy = LONG.release(ReleaseMode::Started);
    assert_eq!(service.manager().run(&KEY, &policy, async |_| 17).await.unwrap(), 17);
    assert_eq!(started.elapsed(), Duration::ZERO);
    until("the lock is free", async || service.held().await == 0).await;
}

#[tokio::test]
async fn a_value_wins_over_a_redis_that_is_stopped_or_has_lost_the_key() {
    let server = RedisServer::start();
    let manager = server.manager();
    let mut raw = server.raw().await;
    let lost = manager.run(&KEY, &LONG, async |_| {
        let _: () = ::redis::cmd("FLUSHALL").query_async(&mut raw).await.unwrap();
        17
    });
    assert_eq!(lost.await.unwrap(), 17);
    let started = Instant::now();
    let stopped = manager.run(&KEY, &LONG, async |_| {
        server.pause();
        17
    });
    assert_eq!(soon("the value", stopped).await.unwrap(), 17);
    assert!(started.elapsed() <= AWAITED + RedisServer::SLACK, "{:?}", started.elapsed());
    server.resume();
    until("the release is repeated", async || server.held().await == 0).await;
}

async fn a_body_goes_on_after_the_loss_where_it_is_only_reported(setup: &impl Setup) {
    let manager = setup.manager();
    let policy = POLICY.on_lost(OnLost::Report);
    let ended = manager.run(&KEY, &policy, async |lease| {
        let lost = lease.lost().await;
        assert!(lost.is_lost(), "{lost:?}");
        until("the key has expired", async || setup.held().await == 0).await;
        lease.check().unwrap_err().kind()
    });
    assert_eq!(ended.await.unwrap(), "lost");
}

async fn a_body_that_gave_its_lease_back_is_neither_stopped_nor_lost(setup: &impl Setup) {
    let manager = setup.manager();
    let ended = manager.run(&KEY, &POLICY, async |lease| {
        assert_eq!(lease.release().await, Released::Freed);
        assert_eq!(setup.held().await, 0);
        sleep(TTL * 2).await;
        assert_eq!(lease.release().await, Released::Deferred, "the second one has nothing to do");
        lease.check().unwrap_err()
    });
    let refusal = ended.await.unwrap();
    assert!(matches!(refusal, LockError::Released { .. }), "{refusal:?}");
}

/// A value that is ready at once, after its lease.
fn late(setup: &impl Setup, policy: &LockPolicy) -> Result<u32, LockError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(setup.manager().run(&KEY, policy, async |_| {
        std::thread::sleep(TTL * 2);
        17
    }))
}

fn a_value_that_came_late_is_lost(setup: &impl Setup) {
    let refusal = late(setup, &POLICY).unwrap_err();
    assert!(matches!(refusal, LockError::Lost { reason: LossReason::Expired, .. }), "{refusal:?}");
}

fn a_value_that_came_late_stands_where_losses_are_only_reported(setup: &impl Setup) {
    assert_eq!(late(setup, &POLICY.on_lost(OnLost::Report)).unwrap(), 17);
}

#[derive(Debug, PartialEq, Eq)]
enum AppError {
    Own,
    Lost,
}

impl From<LockError> for AppError {
    fn from(refusal: LockError) -> Self {
        assert!(refusal.is_lost(), "{refusal:?}");
        Self::Lost
    }
}

type Answer = Result<u32, AppError>;

/// Ends after its lease, in one way or the other.
#[distributed_lock(key = "orders:{order}", ttl_ms = 600, manager = manager)]
async fn ends_late(manager: &LockManager, order: u32, answer: Answer) -> Answer {
    std::thread::sleep(TTL * 2);
    answer
}

fn a_bodys_own_error_stays_after_a_loss(setup: &impl Setup) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let manager = setup.manager();
    assert_eq!(runtime.block_on(ends_late(&manager, 7, Err(AppError::Own))), Err(AppError::Own));
    assert_eq!(runtime.block_on(ends_late(&manager, 7, Ok(17))), Err(AppError::Lost));
}
