//! The lock is given back however its body ends.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::Duration;

use lockrt::{LockError, LockKey, LockPolicy, OnCancel, Released};
use lockrt_tests::{Setup, caught, on_each_backend, polled, settled, until, with_thread_keepers};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

/// So long that a key which is free soon was released.
const LONG: LockPolicy = LockPolicy::new(Duration::from_secs(60));
const TTL: Duration = Duration::from_millis(800);
const KEPT: LockPolicy = LockPolicy::new(TTL).on_cancel(OnCancel::Hold);

on_each_backend! {
    a_lock_is_free_after_ok,
    a_lock_is_free_after_an_error,
    a_lock_is_free_after_a_question_mark,
    a_lock_is_free_after_an_early_return,
    a_lock_is_free_after_a_panic,
    a_lock_is_free_after_an_outer_time_out,
    a_lock_is_free_after_its_future_was_dropped_at_any_await,
    a_lock_is_free_after_its_guard_was_dropped,
    a_lock_that_cancellation_keeps_is_free_after_ok_and_an_error,
    a_lock_that_cancellation_keeps_lasts_to_its_ttl_after_a_panic,
    a_lock_that_cancellation_keeps_lasts_to_its_ttl_after_an_outer_time_out,
    a_lock_that_cancellation_keeps_lasts_to_its_ttl_after_its_future_was_dropped_at_any_await,
}

with_thread_keepers! {
    a_lock_is_free_after_its_runtime_was_shut_down,
    a_lock_that_cancellation_keeps_outlives_its_runtime,
}

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("jobs:nightly").unwrap());

async fn is_free(setup: &impl Setup) -> bool {
    setup.held().await == 0
}

async fn a_lock_is_free_after_ok(setup: &impl Setup) {
    let held = setup.manager().run(&KEY, &LONG, async |_| setup.held().await).await;
    assert_eq!(held.unwrap(), 1, "held while the body runs");
    // Awaited releases are over when `run` returns.
    assert!(is_free(setup).await);
}

async fn a_lock_is_free_after_an_error(setup: &impl Setup) {
    let ended = setup.manager().run(&KEY, &LONG, async |_| Err::<(), _>("no")).await;
    assert_eq!(ended.unwrap(), Err("no"));
    assert!(is_free(setup).await);
}

async fn a_lock_is_free_after_a_question_mark(setup: &impl Setup) {
    let manager = setup.manager();
    let ended = manager.run(&KEY, &LONG, async |_| {
        yield_now().await;
        let number: u32 = "x".parse()?;
        Ok::<_, std::num::ParseIntError>(number)
    });
    assert!(ended.await.unwrap().is_err());
    assert!(is_free(setup).await);
}

async fn a_lock_is_free_after_an_early_return(setup: &impl Setup) {
    let manager = setup.manager();
    for early in [true, false] {
        let ended = manager.run(&KEY, &LONG, async |_| {
            if early {
                return "early";
            }
            yield_now().await;
            "late"
        });
        assert_eq!(ended.await.unwrap(), if early { "early" } else { "late" });
        assert!(is_free(setup).await);
    }
}

async fn a_lock_is_free_after_a_panic(setup: &impl Setup) {
    let manager = setup.manager();
    for polls in 0..3 {
        let ended = caught(manager.run(&KEY, &LONG, async |_| {
            for _ in 0..polls {
                yield_now().await;
            }
            assert_eq!(setup.held().await, 1);
            panic!("a body that panics on purpose")
        }));
        let _: Box<dyn std::any::Any + Send> = ended.await.unwrap_err();
        until("the lock is free", async || is_free(setup).await).await;
    }
}

async fn a_lock_is_free_after_an_outer_time_out(setup: &impl Setup) {
    let manager = setup.manager();
    let mut held = 0;
    let body = manager.run(&KEY, &LONG, async |_| {
        held = setup.held().await;
        std::future::pending::<()>().await;
    });
    assert!(timeout(Duration::from_millis(300), body).await.is_err());
    assert_eq!(held, 1, "the body had begun");
    until("the lock is free", async || is_free(setup).await).await;
}

/// Drops the call after its first poll, its second, and so on until it is ready, both at once and
/// after the answers have come that it never sees. Says how many polls it took.
async fn dropped_at_any_await(
    setup: &impl Setup,
    policy: &LockPolicy,
    after: impl AsyncFn(bool, Instant),
) -> usize {
    for linger in [Duration::ZERO, Duration::from_millis(20)] {
        for polls in 0.. {
            let manager = setup.manager();
            let (mut running, asked) = (false, Instant::now());
            let call = manager.run(&KEY, policy, async |_| {
                running = true;
                for _ in 0..3 {
                    yield_now().await;
                }
                sleep(Duration::from_millis(1)).await;
                running = false;
            });
            let ended = polled(polls, call, async {
                if !linger.is_zero() {
                    sleep(linger).await;
                }
            });
            let ended = ended.await;
            if let Some(ended) = ended {
                ended.unwrap();
                if linger.is_zero() {
                    break;
                }
                return polls;
            }
            settled(manager, &format!("dropped after {polls} polls")).await;
            after(running, asked).await;
        }
    }
    unreachable!("the call ends some time")
}

async fn a_lock_is_free_after_its_future_was_dropped_at_any_await(setup: &impl Setup) {
    let polls = dropped_at_any_await(setup, &LONG, async |_, _| assert!(is_free(setup).await)).await;
    assert!(polls >= 6, "acquire, four awaits and release: {polls}");
}

async fn a_lock_is_free_after_its_guard_was_dropped(setup: &impl Setup) {
    let manager = setup.manager();
    drop(manager.acquire(&KEY, &LONG).await.unwrap());
    until("the lock is free", async || is_free(setup).await).await;
    let guard = manager.acquire(&KEY, &LONG).await.unwrap();
    assert_eq!(guard.release().await, Released::Freed);
    assert!(is_free(setup).await);
}

async fn a_lock_that_cancellation_keeps_is_free_after_ok_and_an_error(setup: &impl Setup) {
    let manager = setup.manager();
    manager.run(&KEY, &KEPT, async |_| ()).await.unwrap();
    assert!(is_free(setup).await);
    manager.run(&KEY, &KEPT, async |_| Err::<(), _>("no")).await.unwrap().unwrap_err();
    assert!(is_free(setup).await);
}

/// The key stays for what is left of its TTL, and not for longer.
async fn lasts_to_its_ttl(setup: &impl Setup, acquired: Instant) {
    loop {
        let held = setup.held().await;
        // Read after the question: a machine may stall in between.
        if acquired.elapsed() >= TTL * 9 / 10 {
            break;
        }
        assert_eq!(held, 1, "given back after {:?}", acquired.elapsed());
        sleep(Duration::from_millis(10)).await;
    }
    until("the lock has expired", async || is_free(setup).await).await;
}

async fn a_lock_that_cancellation_keeps_lasts_to_its_ttl_after_a_panic(setup: &impl Setup) {
    let manager = setup.manager();
    let acquired = Instant::now();
    let ended = caught(manager.run(&KEY, &KEPT, async |_| panic!("a body that panics on purpose")));
    let _: Box<dyn std::any::Any + Send> = ended.await.map(|_: Result<(), LockError>| ()).unwrap_err();
    lasts_to_its_ttl(setup, acquired).await;
}

async fn a_lock_that_cancellation_keeps_lasts_to_its_ttl_after_an_outer_time_out(setup: &impl Setup) {
    let manager = setup.manager();
    let acquired = Instant::now();
    let body = manager.run(&KEY, &KEPT, async |_| std::future::pending::<()>().await);
    assert!(timeout(TTL / 4, body).await.is_err());
    lasts_to_its_ttl(setup, acquired).await;
}

async fn a_lock_that_cancellation_keeps_lasts_to_its_ttl_after_its_future_was_dropped_at_any_await(
    setup: &impl Setup,
) {
    dropped_at_any_await(setup, &KEPT, async |running, asked| {
        if running {
            // The body may have an effect in flight.
            lasts_to_its_ttl(setup, asked).await;
        }
        assert!(is_free(setup).await);
    })
    .await;
}

fn runtimes() -> [Runtime; 2] {
    let current = Builder::new_current_thread().enable_all().build().unwrap();
    let several = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    [current, several]
}

/// Shuts a runtime down while a body runs on it; says what happened to the lock, by `after`.
fn shut_down_under_a_body(setup: &impl Setup, policy: LockPolicy, after: impl AsyncFn(Instant)) {
    let [_, watching] = runtimes();
    for runtime in runtimes() {
        let (manager, asked) = (setup.manager(), Instant::now());
        let (begins, began) = tokio::sync::oneshot::channel();
        runtime.spawn(async move {
            let guard = manager.acquire(&KEY, &policy).await.unwrap();
            begins.send(()).unwrap();
            std::future::pending::<()>().await;
            drop(guard);
        });
        runtime.block_on(began).unwrap();
        drop(runtime);
        watching.block_on(after(asked));
    }
}

fn a_lock_is_free_after_its_runtime_was_shut_down(setup: &impl Setup) {
    shut_down_under_a_body(setup, LONG, async |_| {
        until("the lock is free", async || is_free(setup).await).await;
    });
}

fn a_lock_that_cancellation_keeps_outlives_its_runtime(setup: &impl Setup) {
    shut_down_under_a_body(setup, KEPT, async |asked| lasts_to_its_ttl(setup, asked).await);
}
