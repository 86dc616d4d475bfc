//! A runtime that shuts down under a lock: whatever of a call is alive on it, nothing is left.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::future::pending;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lockrt::{LockError, LockGuard, LockManager, LockPolicy, distributed_lock};
use lockrt_tests::{Traced, Watch, key, polled, settled, soon, until, with_thread_keepers};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

/// So long that a key which is free soon was released. Doubt, which a busy machine makes, ends with it.
const LONG: LockPolicy = LockPolicy::new(Duration::from_secs(15));

with_thread_keepers! {
    a_runtime_that_ends_with_an_acquire_on_its_way_leaves_nothing,
    a_runtime_that_ends_with_waiters_leaves_nothing,
    a_runtime_that_ends_with_a_guard_leaves_nothing,
    a_runtime_that_ends_under_a_body_leaves_nothing,
    a_runtime_that_ends_under_a_body_that_blocks_leaves_nothing,
    a_runtime_that_ends_in_a_release_leaves_nothing,
    a_guard_outlives_its_runtime,
}

fn current() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn several() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// How a runtime ends.
const ENDS: [fn(Runtime); 3] =
    [drop, Runtime::shutdown_background, |runtime| runtime.shutdown_timeout(Duration::from_millis(50))];

/// Starts `call` on runtimes of each kind, and ends them in each way once it says that it has begun.
fn ended_under<F: Future<Output = ()> + Send + 'static>(
    setup: &impl Traced,
    call: impl Fn(LockManager, Arc<Notify>) -> F,
) {
    let watching = current();
    let mut watch = watching.block_on(Watch::start(setup));
    for runtime in [current, several] {
        for (end, ends) in ENDS.iter().enumerate() {
            let case = format!("{:?} ended by way {end}", runtime().handle().runtime_flavor());
            let (runtime, manager, begun) = (runtime(), setup.manager(), Arc::new(Notify::new()));
            let has_begun = Arc::clone(&begun);
            runtime.spawn(call(manager.clone(), begun));
            runtime.block_on(async { soon("the call begins", has_begun.notified()).await });
            ends(runtime);
            watching.block_on(async {
                watch.nothing_is_stored(&case).await;
                settled(manager, &case).await;
                watch.nothing_is_left(&case).await;
            });
        }
    }
}

fn a_runtime_that_ends_with_an_acquire_on_its_way_leaves_nothing(setup: &impl Traced) {
    for polls in 1..=2 {
        ended_under(setup, move |manager, begun| async move {
            // Polled so often, and then neither polled nor dropped before its runtime is.
            let (key, policy) = (key("orders:7"), LONG.wait(Duration::from_secs(10)));
            let acquire = manager.acquire(&key, &policy);
            let idle = async {
                begun.notify_one();
                pending::<()>().await;
            };
            if let Some(guard) = polled(polls, acquire, idle).await {
                begun.notify_one();
                pending::<()>().await;
                drop(guard);
            }
        });
    }
}

fn a_runtime_that_ends_with_waiters_leaves_nothing(setup: &impl Traced) {
    let manager = setup.manager();
    let holder = current().block_on(async { manager.acquire(&key("orders:7"), &LONG).await.unwrap() });
    // The keeper's thread must be there before threads are counted, and a caller can do without it.
    current().block_on(async {
        drop(manager.acquire(&key("orders:8"), &LONG).await.unwrap());
        until("the keeper releases", async || setup.held().await == 1).await;
    });
    drop(manager);
    // One waits at the service, the others in line behind it.
    ended_under(setup, |manager, begun| async move {
        let (key, policy) = (key("orders:7"), LONG.wait_forever());
        let begins = async {
            tokio::time::sleep(Duration::from_millis(30)).await;
            begun.notify_one();
        };
        let wait = async || manager.acquire(&key, &policy).await.map(drop);
        let _ = tokio::join!(wait(), wait(), wait(), begins);
    });
    drop(holder);
}

fn a_runtime_that_ends_with_a_guard_leaves_nothing(setup: &impl Traced) {
    ended_under(setup, |manager, begun| async move {
        let guard = manager.acquire(&key("orders:7"), &LONG).await.unwrap();
        begun.notify_one();
        pending::<()>().await;
        drop(guard);
    });
}

#[distributed_lock(key = "orders:{id}", ttl_ms = 15_000, manager = manager, renew = auto(max_ms = 60_000))]
async fn order(manager: &LockManager, id: u64, begun: &Notify) -> Result<(), LockError> {
    begun.notify_one();
    pending().await
}

fn a_runtime_that_ends_under_a_body_leaves_nothing(setup: &impl Traced) {
    ended_under(setup, |manager, begun| async move { order(&manager, 7, &begun).await.unwrap() });
}

fn a_runtime_that_ends_under_a_body_that_blocks_leaves_nothing(setup: &impl Traced) {
    ended_under(setup, |manager, begun| async move {
        let body = async |_: &lockrt::Lease| {
            begun.notify_one();
            // Lets whoever waits for the beginning end the runtime, where there is a thread for it.
            thread::sleep(Duration::from_millis(100));
            pending::<()>().await;
        };
        manager.run(&key("orders:7"), &LONG, body).await.unwrap();
    });
}

fn a_runtime_that_ends_in_a_release_leaves_nothing(setup: &impl Traced) {
    ended_under(setup, |manager, begun| async move {
        let guard = manager.acquire(&key("orders:7"), &LONG).await.unwrap();
        let idle = async {
            begun.notify_one();
            pending::<()>().await;
        };
        if polled(1, guard.release(), idle).await.is_some() {
            begun.notify_one();
        }
    });
}

fn a_guard_outlives_its_runtime(setup: &impl Traced) {
    let watching = current();
    let mut watch = watching.block_on(Watch::start(setup));
    let taken = |runtime: Runtime| -> LockGuard {
        let guard =
            runtime.block_on(async { setup.manager().acquire(&key("orders:7"), &LONG).await.unwrap() });
        drop(runtime);
        guard.lease().check().unwrap();
        guard
    };
    for runtime in [current, several] {
        // Without any runtime, and on another one.
        drop(taken(runtime()));
        watching.block_on(watch.nothing_is_left("dropped outside of a runtime"));
        let guard = taken(runtime());
        watching.block_on(guard.release());
        watching.block_on(watch.nothing_is_left("released on another runtime"));
    }
}
