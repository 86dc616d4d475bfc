//! The lock is given back however its body ends, and kept where the policy says so.

use std::any::Any;
use std::cell::Cell;
use std::future::pending;
use std::num::ParseIntError;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::Locks;
use super::polled::{caught, polled};
use super::watching::{apart, settled, until};
use crate::claim::Released;
use crate::conformance::Service;
use crate::conformance::asking::{LONG, key};
use crate::error::LockError;
use crate::key::LockKey;
use crate::manager::LockManager;
use crate::policy::{LockPolicy, OnCancel};

/// So long that a key which is free soon was released.
const POLICY: LockPolicy = LockPolicy::new(LONG);

/// Keeps the key of a body that was dropped or has panicked.
fn kept(locks: &Locks<impl Service>) -> LockPolicy {
    LockPolicy::new(locks.short()).on_cancel(OnCancel::Hold)
}

/// Released when the call returns.
pub async fn the_lock_is_free_after_ok(locks: &Locks<impl Service>) {
    let (manager, key) = (locks.manager().await, key("ok"));
    let held = manager.run(&key, &POLICY, async |_| locks.holds(&key).await).await;
    assert!(held.unwrap(), "held while the body runs");
    assert!(!locks.holds(&key).await, "an awaited release is over when the call returns");
}

/// A body's own error releases as a value does.
pub async fn the_lock_is_free_after_an_error(locks: &Locks<impl Service>) {
    let (manager, key) = (locks.manager().await, key("error"));
    let ended = manager.run(&key, &POLICY, async |_| Err::<(), _>("no")).await;
    assert_eq!(ended.unwrap(), Err("no"));
    assert!(!locks.holds(&key).await);
}

/// `?` leaves the body in its middle.
pub async fn the_lock_is_free_after_a_question_mark(locks: &Locks<impl Service>) {
    let (manager, key) = (locks.manager().await, key("question"));
    let ended = manager.run(&key, &POLICY, async |_| {
        yield_now().await;
        let number: u32 = "x".parse()?;
        Ok::<_, ParseIntError>(number)
    });
    assert!(ended.await.unwrap().is_err());
    assert!(!locks.holds(&key).await);
}

/// So does `return`.
pub async fn the_lock_is_free_after_an_early_return(locks: &Locks<impl Service>) {
    let (manager, key) = (locks.manager().await, key("early"));
    for early in [true, false] {
        let ended = manager.run(&key, &POLICY, async |_| {
            if early {
                return "early";
            }
            yield_now().await;
            "late"
        });
        assert_eq!(ended.await.unwrap(), if early { "early" } else { "late" });
        assert!(!locks.holds(&key).await);
    }
}

/// A panic at the first poll, or a later one.
pub async fn the_lock_is_free_after_a_panic(locks: &Locks<impl Service>) {
    let (manager, key) = (locks.manager().await, key("panic"));
    for polls in 0..3 {
        let ended = caught(manager.run(&key, &POLICY, async |_| {
            for _ in 0..polls {
                yield_now().await;
            }
            assert!(locks.holds(&key).await);
            panic!("a body that panics on purpose")
        }));
        let _: Box<dyn Any + Send> = ended.await.unwrap_err();
        until("the lock is free", async || !locks.holds(&key).await).await;
    }
}

/// A time-out around the call drops the body.
pub async fn the_lock_is_free_after_an_outer_time_out(locks: &Locks<impl Service>) {
    let key = key("timeout");
    time_out(locks, &key, &POLICY, Duration::from_millis(100)).await;
    until("the lock is free", async || !locks.holds(&key).await).await;
}

/// Whatever await the call is dropped at, also one whose answer has come and is never seen.
pub async fn the_lock_is_free_after_a_drop_at_any_await(locks: &Locks<impl Service>) {
    let key = key("dropped");
    let polls = dropped_at_any_await(locks, &key, &POLICY, async |_, _| {
        assert!(!locks.holds(&key).await);
    });
    let polls = polls.await;
    assert!(polls >= 6, "acquire, four awaits and release: {polls}");
}

/// A guard taken by hand, dropped or released.
pub async fn the_lock_is_free_after_its_guard_was_dropped(locks: &Locks<impl Service>) {
    let (manager, key) = (locks.manager().await, key("guard"));
    drop(manager.acquire(&key, &POLICY).await.unwrap());
    until("the lock is free", async || !locks.holds(&key).await).await;
    let guard = manager.acquire(&key, &POLICY).await.unwrap();
    assert_eq!(guard.release().await, Released::Freed);
    assert!(!locks.holds(&key).await);
}

/// `on_cancel = hold` is about bodies that were cut off, not about those that ended.
pub async fn a_lock_that_cancellation_keeps_is_free_after_ok_and_after_an_error(locks: &Locks<impl Service>) {
    let (manager, key, policy) = (locks.manager().await, key("kept"), kept(locks));
    manager.run(&key, &policy, async |_| ()).await.unwrap();
    assert!(!locks.holds(&key).await);
    manager.run(&key, &policy, async |_| Err::<(), _>("no")).await.unwrap().unwrap_err();
    assert!(!locks.holds(&key).await);
}

/// A panic may leave an effect in flight.
pub async fn a_lock_that_cancellation_keeps_lasts_to_its_ttl_after_a_panic(locks: &Locks<impl Service>) {
    let (manager, key, policy) = (locks.manager().await, key("kept"), kept(locks));
    let asked = Instant::now();
    let ended = caught(manager.run(&key, &policy, async |_| panic!("a body that panics on purpose"))).await;
    let _: Box<dyn Any + Send> = ended.map(|_: Result<(), LockError>| ()).unwrap_err();
    lasts_to_its_ttl(locks, &key, asked).await;
}

/// A time-out may leave an effect in flight.
pub async fn a_lock_that_cancellation_keeps_lasts_to_its_ttl_after_an_outer_time_out(
    locks: &Locks<impl Service>,
) {
    let (key, policy, asked) = (key("kept"), kept(locks), Instant::now());
    time_out(locks, &key, &policy, policy.ttl() / 8).await;
    lasts_to_its_ttl(locks, &key, asked).await;
}

/// The key stays if the body had begun by then, and is free at once if it had not.
pub async fn a_lock_that_cancellation_keeps_lasts_to_its_ttl_after_a_drop_at_any_await(
    locks: &Locks<impl Service>,
) {
    let (key, policy) = (key("kept"), kept(locks));
    let dropped = dropped_at_any_await(locks, &key, &policy, async |running, asked| {
        if running {
            lasts_to_its_ttl(locks, &key, asked).await;
        }
        assert!(!locks.holds(&key).await);
    });
    dropped.await;
}

/// A runtime that is shut down in the middle of a body drops it as its last act.
pub async fn the_lock_is_free_after_its_runtime_was_shut_down(locks: &Locks<impl Service>) {
    let key = key("runtime");
    shut_down_under_a_body(locks, &key, POLICY, async |_| {
        until("the lock is free", async || !locks.holds(&key).await).await;
    })
    .await;
}

/// Whatever the policy says of a dropped body holds without its runtime, too.
pub async fn a_lock_that_cancellation_keeps_outlives_its_runtime(locks: &Locks<impl Service>) {
    let key = key("runtime");
    shut_down_under_a_body(locks, &key, kept(locks), async |asked| {
        lasts_to_its_ttl(locks, &key, asked).await;
    })
    .await;
}

/// A guard may be dropped where there is no runtime at all.
pub async fn the_lock_is_free_after_its_guard_was_dropped_outside_any_runtime(locks: &Locks<impl Service>) {
    let key = key("outside");
    let guard = locks.manager().await.acquire(&key, &POLICY).await.unwrap();
    apart(move || drop(guard)).await;
    until("the lock is free", async || !locks.holds(&key).await).await;
}

/// Drops a call when its body has run for so long.
async fn time_out(locks: &Locks<impl Service>, key: &LockKey, policy: &LockPolicy, after: Duration) {
    let (manager, running) = (locks.manager().await, Cell::new(false));
    let call = manager.run(key, policy, async |_| {
        assert!(locks.holds(key).await);
        running.set(true);
        pending::<()>().await;
    });
    let times_out = async {
        until("the body runs", async || running.get()).await;
        sleep(after).await;
    };
    tokio::select! {
        ended = call => panic!("{ended:?}"),
        () = times_out => {}
    }
}

/// Drops the call after its first poll, its second, and so on until it is ready, both at once and
/// after the answers have come that it never sees. Says how many polls it took.
async fn dropped_at_any_await(
    locks: &Locks<impl Service>,
    key: &LockKey,
    policy: &LockPolicy,
    after: impl AsyncFn(bool, Instant),
) -> usize {
    let mut most = 0;
    for linger in [Duration::ZERO, Duration::from_millis(20)] {
        for polls in 0.. {
            let manager = locks.yielding().await;
            let (mut running, asked) = (false, Instant::now());
            let call = manager.run(key, policy, async |_| {
                running = true;
                for _ in 0..3 {
                    yield_now().await;
                }
                sleep(Duration::from_millis(1)).await;
                running = false;
            });
            let lingers = async {
                if !linger.is_zero() {
                    sleep(linger).await;
                }
            };
            if let Some(ended) = polled(polls, call, lingers).await {
                ended.unwrap();
                most = most.max(polls);
                break;
            }
            settled(manager, &format!("dropped after {polls} polls")).await;
            after(running, asked).await;
        }
    }
    most
}

/// The key stays for what is left of its TTL, and not for longer.
async fn lasts_to_its_ttl(locks: &Locks<impl Service>, key: &LockKey, asked: Instant) {
    loop {
        let held = locks.holds(key).await;
        // Read after the question: a machine may stall in between.
        if asked.elapsed() >= locks.short() * 9 / 10 {
            break;
        }
        assert!(held, "given back after {:?}", asked.elapsed());
        sleep(Duration::from_millis(10)).await;
    }
    until("the lock has expired", async || !locks.holds(key).await).await;
}

/// Shuts a runtime down while a body runs on it; `after` says what happened to the lock.
async fn shut_down_under_a_body(
    locks: &Locks<impl Service>,
    key: &LockKey,
    policy: LockPolicy,
    after: impl AsyncFn(Instant),
) {
    for workers in [0, 2] {
        let (manager, key, asked) = (locks.manager().await, key.clone(), Instant::now());
        apart(move || shut_down_once_it_runs(runtime(workers), manager, key, policy)).await;
        after(asked).await;
    }
}

fn shut_down_once_it_runs(runtime: Runtime, manager: LockManager, key: LockKey, policy: LockPolicy) {
    let (begins, began) = oneshot::channel();
    runtime.spawn(async move {
        let body = manager.run(&key, &policy, async |_| {
            begins.send(()).unwrap();
            pending::<()>().await;
        });
        body.await
    });
    runtime.block_on(began).unwrap();
    drop(runtime);
}

fn runtime(workers: usize) -> Runtime {
    let mut builder = match workers {
        0 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.enable_all().build().unwrap()
}
