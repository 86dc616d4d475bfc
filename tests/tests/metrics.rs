//! What is counted, by whichever recorder the program has installed.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use lockrt::fence::Fence;
use lockrt::testing::claim;
use lockrt::{
    Attempt, Backend as _, FencingToken, LockKey, LockManager, LockPolicy, Memory, OnCancel, OnLost,
};
use lockrt_tests::{Yielding, caught, key, polled};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::time::{advance, sleep};

const TTL: Duration = Duration::from_secs(10);
const POLICY: LockPolicy = LockPolicy::new(TTL).named("m");

/// What has been counted since it was last asked, on this thread, where the keeper of these tests runs too.
/// The lag of the keeper and the time of day are no two times the same.
fn told(recorder: &DebuggingRecorder) -> Vec<String> {
    let numbers = recorder.snapshotter().snapshot().into_vec().into_iter();
    let mut lines: Vec<String> = numbers
        .filter_map(|(key, _, _, value)| {
            let labels = key.key().labels().map(|label| format!("{}={}", label.key(), label.value()));
            let mut labels: Vec<String> = labels.collect();
            labels.sort();
            let value = match value {
                DebugValue::Counter(count) => (count > 0).then(|| count.to_string()),
                DebugValue::Gauge(value) => (value.0 != 0.0).then(|| value.0.to_string()),
                DebugValue::Histogram(values) => (!values.is_empty())
                    .then(|| format!("{:?}", values.iter().map(|value| value.0).collect::<Vec<_>>())),
            }?;
            Some(format!("{} {} {value}", key.key().name(), labels.join(" ")))
        })
        .filter(|line| !line.starts_with("lock_keeper_lag") && !line.starts_with("lock_last_run"))
        .collect();
    lines.sort();
    lines
}

fn manager() -> LockManager {
    lockrt::testing::manager(Memory::new())
}

/// Lets the keeper come to the end of what it has to do now.
async fn settle() {
    for _ in 0..32 {
        tokio::task::yield_now().await;
    }
}

macro_rules! listen {
    ($recorder:ident) => {
        let $recorder = DebuggingRecorder::new();
        let _listens = metrics::set_default_local_recorder(&$recorder);
    };
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_counted_when_it_is_granted_and_when_it_is_given_back() {
    listen!(recorder);
    let locks = manager();
    let guard = locks.acquire(&key("jane"), &POLICY).await.unwrap();
    let granted = [
        "lock_acquire_seconds backend=memory name=m result=granted [0.0]",
        "lock_acquire_total backend=memory name=m result=granted 1",
        "lock_held backend=memory name=m 1",
    ];
    assert_eq!(told(&recorder), granted);
    advance(Duration::from_secs(3)).await;
    guard.release().await;
    settle().await;
    let given_back = [
        "lock_held backend=memory name=m -1",
        "lock_hold_seconds backend=memory name=m [3.0]",
        "lock_release_total name=m result=freed 1",
        "lock_ttl_used_ratio backend=memory name=m [0.3]",
    ];
    assert_eq!(told(&recorder), given_back);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_by_a_clone_and_then_by_its_guard_is_counted_once() {
    listen!(recorder);
    let locks = manager();
    let guard = locks.acquire(&key("jane"), &POLICY).await.unwrap();
    told(&recorder);
    let lease = guard.lease().clone();
    lease.release().await;
    lease.release().await;
    drop(guard);
    settle().await;
    let lines = told(&recorder);
    assert!(lines.contains(&"lock_held backend=memory name=m -1".into()), "{lines:?}");
    assert!(lines.contains(&"lock_release_total name=m result=freed 1".into()), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_counted_by_its_kind_with_the_time_that_it_took() {
    listen!(recorder);
    let locks = manager();
    let _held = locks.acquire(&key("jane"), &POLICY).await.unwrap();
    told(&recorder);
    let waits = POLICY.wait(Duration::from_secs(2));
    assert!(locks.acquire(&key("jane"), &waits).await.is_err());
    assert!(locks.acquire(&key("jane"), &LockPolicy::new(Duration::ZERO).named("m")).await.is_err());
    let refused = [
        "lock_acquire_seconds backend=memory name=m result=contended [2.0]",
        "lock_acquire_seconds backend=memory name=m result=invalid_ttl [0.0]",
        "lock_acquire_total backend=memory name=m result=contended 1",
        "lock_acquire_total backend=memory name=m result=invalid_ttl 1",
    ];
    assert_eq!(told(&recorder), refused);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_counted_until_it_has_the_lock_or_gives_up() {
    listen!(recorder);
    let locks = manager();
    let guard = locks.acquire(&key("jane"), &POLICY).await.unwrap();
    told(&recorder);
    let waits = POLICY.wait(Duration::from_secs(60));
    let name = key("jane");
    let mut given_up = Box::pin(locks.acquire(&name, &waits));
    let mut patient = Box::pin(locks.acquire(&name, &waits));
    for _ in 0..8 {
        assert!(
            futures_util::poll!(&mut given_up).is_pending() && futures_util::poll!(&mut patient).is_pending()
        );
        settle().await;
    }
    assert_eq!(told(&recorder), ["lock_waiters name=m 2"]);
    drop(given_up);
    assert_eq!(told(&recorder), ["lock_waiters name=m -1"]);
    drop(guard);
    let guard = patient.await.unwrap();
    assert!(told(&recorder).contains(&"lock_waiters name=m -1".into()));
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_is_counted_by_its_reason_and_held_until_its_body_ends() {
    listen!(recorder);
    let locks = manager();
    let policy = POLICY.on_lost(OnLost::Report);
    let name = key("jane");
    locks.run(&name, &policy, async |_| sleep(TTL * 2).await).await.unwrap();
    settle().await;
    let lines = told(&recorder);
    for line in [
        "lock_hold_seconds backend=memory name=m [20.0]",
        "lock_lost_total name=m reason=expired 1",
        "lock_ttl_used_ratio backend=memory name=m [2.0]",
    ] {
        assert!(lines.contains(&line.to_owned()), "{line} is missing: {lines:#?}");
    }
    assert!(!lines.iter().any(|line| line.starts_with("lock_held")), "{lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_held_and_nobody_waits_in_the_end_whatever_ended_a_lock() {
    listen!(recorder);
    let name = key("jane");
    let policies = [
        POLICY.wait(TTL),
        POLICY.on_cancel(OnCancel::Hold).wait(TTL),
        POLICY.min_hold(Duration::from_secs(1)).wait(TTL * 2),
        POLICY.renew(TTL * 3).wait(TTL),
    ];
    for policy in policies {
        let mut granted = 0;
        for polls in 0_usize.. {
            let locks = lockrt::testing::manager(Yielding(Memory::new()));
            let other = if polls % 2 == 1 { locks.acquire(&name, &POLICY).await.ok() } else { None };
            let call = async {
                let body = async |_: &lockrt::Lease| tokio::task::yield_now().await;
                tokio::join!(locks.run(&name, &policy, body), async { drop(other) }).0
            };
            let ended = polled(polls, call, async {}).await;
            if polls.is_multiple_of(3) {
                locks.shutdown(Duration::ZERO).await;
            }
            sleep(TTL * 3).await;
            granted += usize::from(ended.is_some());
            if granted == 2 {
                break;
            }
        }
        let locks = manager();
        let panics =
            caught(locks.run(&name, &policy, async |_| assert_ne!(policy.ttl(), TTL, "as it is meant to")));
        assert!(panics.await.is_err());
        sleep(TTL * 3).await;
        let lines = told(&recorder);
        assert!(lines.iter().any(|line| line.starts_with("lock_hold_seconds")), "{lines:#?}");
        let stays = |line: &&String| line.starts_with("lock_held") || line.starts_with("lock_waiters");
        assert_eq!(lines.iter().find(stays), None, "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_are_counted() {
    listen!(recorder);
    let locks = manager();
    let guard = locks.acquire(&key("jane"), &POLICY.renew(Duration::from_secs(60))).await.unwrap();
    sleep(TTL * 2).await;
    let lines = told(&recorder);
    let count = lines.iter().find_map(|line| line.strip_prefix("lock_renew_total name=m result=extended "));
    let count: u32 = count.unwrap().parse().unwrap();
    assert!((5..=7).contains(&count), "{count} in two ttls");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn the_last_run_is_dated_unless_its_lease_was_lost() {
    listen!(recorder);
    let locks = manager();
    let dated = || {
        let numbers = recorder.snapshotter().snapshot().into_vec();
        numbers.iter().any(|(key, _, _, value)| {
            let of_day = |value: &DebugValue| matches!(value, DebugValue::Gauge(seconds) if seconds.0 > 1_577_836_800.0);
            key.key().name() == "lock_last_run_timestamp_seconds" && of_day(value)
        })
    };
    assert!(locks.run(&key("jane"), &POLICY, async |_| sleep(TTL * 2).await).await.is_err());
    assert!(!dated());
    locks.run(&key("jane"), &POLICY, async |_| ()).await.unwrap();
    assert!(dated());
}

#[tokio::test(start_paused = true)]
async fn how_late_the_keeper_looks_is_measured() {
    listen!(recorder);
    let locks = manager();
    let guard = locks.acquire(&key("jane"), &POLICY.renew(Duration::from_secs(60))).await.unwrap();
    sleep(TTL).await;
    let numbers = recorder.snapshotter().snapshot().into_vec();
    let lag = numbers.iter().find(|(key, ..)| key.key().name() == "lock_keeper_lag_seconds").unwrap();
    let DebugValue::Histogram(lags) = &lag.3 else { panic!("{lag:?}") };
    assert!(!lags.is_empty() && lags.iter().all(|lag| (0.0..0.1).contains(&lag.0)), "{lags:?}");
    drop(guard);
}

#[test]
fn refusals_of_a_fence_are_counted() {
    listen!(recorder);
    let fence = Fence::new();
    fence.register("mail:jane", FencingToken::new(34)).unwrap();
    assert!(fence.write_once("mail:jane", FencingToken::new(33), || ()).is_err());
    fence.write_once("mail:jane", FencingToken::new(34), || ()).unwrap();
    assert!(fence.write_once("mail:jane", FencingToken::new(34), || ()).is_err());
    assert_eq!(
        told(&recorder),
        ["lock_fence_refused_total result=repeated 1", "lock_fence_refused_total result=stale 1"]
    );
}

#[tokio::test(start_paused = true)]
async fn no_label_has_anything_of_a_key_or_an_owner() {
    listen!(recorder);
    let locks = manager();
    let guard = locks.acquire(&key("jane"), &POLICY.renew(Duration::from_secs(60))).await.unwrap();
    assert!(locks.try_acquire(&key("jane"), &POLICY).await.is_err());
    sleep(TTL).await;
    drop(guard);
    settle().await;
    let numbers = recorder.snapshotter().snapshot().into_vec();
    let labels = numbers.iter().flat_map(|(key, ..)| key.key().labels());
    let labels: Vec<(&str, &str)> = labels.map(|label| (label.key(), label.value())).collect();
    assert!(labels.len() > 10);
    for (label, value) in labels {
        assert!(matches!(label, "name" | "backend" | "result" | "reason"), "{label}");
        assert!(!value.contains("jane") && !value.contains('#') && !value.contains("sha256"), "{value}");
    }
}

/// Looks whether the lock is free when its end is counted.
struct Looks {
    service: Memory,
    free: AtomicBool,
}

impl Recorder for Looks {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        if key.name() == "lock_hold_seconds" {
            let mine = claim(&LockKey::new("lock:jane").unwrap(), TTL);
            let answer = self.service.try_acquire(&mine).now_or_never();
            let free = matches!(answer, Some(Ok(Attempt::Granted { .. })));
            self.free.store(free, Ordering::Relaxed);
        }
        Histogram::noop()
    }
}

#[tokio::test]
async fn what_is_counted_at_the_end_does_not_hold_up_the_release() {
    let service = Memory::new();
    let recorder = Looks { service: service.clone(), free: AtomicBool::new(false) };
    let _listens = metrics::set_default_local_recorder(&recorder);
    let locks = LockManager::builder().build(service).unwrap();
    locks.acquire(&key("jane"), &POLICY).await.unwrap().release().await;
    assert!(recorder.free.load(Ordering::Relaxed));
}

#[test]
fn the_page_lists_what_is_counted() {
    let (page, source) =
        (include_str!("../../docs/operations.md"), include_str!("../../lockrt/src/observe/numbers.rs"));
    let names = |text: &'static str, quote: char| -> BTreeSet<&'static str> {
        text.split(quote).filter(|word| word.starts_with("lock_") && !word.contains(' ')).collect()
    };
    let table = page.split("## Metrics").nth(1).unwrap().split("## ").next().unwrap();
    assert_eq!(names(table, '`'), names(source, '"'));
    assert!(names(source, '"').len() > 10);
}
