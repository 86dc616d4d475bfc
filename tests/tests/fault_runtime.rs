//! Runtimes and processes that end while guards are alive.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::Duration;

use lockrt::{LockKey, LockPolicy, Released};
use lockrt_tests::{Threads, until, with_thread_keepers};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

const TTL: Duration = Duration::from_millis(900);

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

with_thread_keepers! {
    a_guard_outlives_the_runtime_it_was_taken_on_and_is_renewed_and_released,
    guards_that_a_runtime_drops_at_its_end_are_released,
}

fn runtimes() -> [Runtime; 2] {
    let current = Builder::new_current_thread().enable_all().build().unwrap();
    let several = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    [current, several]
}

fn a_guard_outlives_the_runtime_it_was_taken_on_and_is_renewed_and_released<S: Threads>(setup: &S) {
    let policy = LockPolicy::new(TTL).renew(Duration::from_secs(600));
    for taken_on in runtimes() {
        let manager = setup.manager();
        let guard = taken_on.block_on(manager.acquire(&KEY, &policy)).unwrap();
        drop((taken_on, manager));
        let [another, _] = runtimes();
        another.block_on(async {
            sleep(TTL * 2).await;
            guard.lease().check().unwrap();
            assert!(setup.manager().try_acquire(&KEY, &policy).await.unwrap_err().is_contended());
            assert_eq!(guard.release().await, Released::Freed);
        });
    }
}

fn guards_that_a_runtime_drops_at_its_end_are_released<S: Threads>(setup: &S) {
    let policy = LockPolicy::new(Duration::from_secs(60));
    let [_, watching] = runtimes();
    for ends in runtimes() {
        let manager = setup.manager();
        let (taken, all_taken) = std::sync::mpsc::channel();
        for number in 0..20 {
            let (manager, taken) = (manager.clone(), taken.clone());
            let key = LockKey::of("held:").part(&number).build().unwrap();
            ends.spawn(async move {
                let guard = manager.acquire(&key, &policy).await.unwrap();
                taken.send(()).unwrap();
                std::future::pending::<()>().await;
                drop(guard);
            });
        }
        ends.block_on(async {
            for _ in 0..20 {
                until("a guard is taken", async || all_taken.try_recv().is_ok()).await;
            }
        });
        assert_eq!(watching.block_on(setup.held()), 20);
        drop((ends, manager));
        watching.block_on(until("all are released", async || setup.held().await == 0));
    }
}
