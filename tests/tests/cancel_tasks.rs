//! Calls that end by what tokio has for it: a time-out, `select!`, the abort of their task, a panic.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use lockrt::{LockError, LockManager, LockPolicy, distributed_lock};
use lockrt_tests::{Traced, Watch, key, on_each_backend, settled, soon};
use tokio::sync::Notify;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};

/// So long that a key which is free soon was released. Doubt, which a busy machine makes, ends with it.
const LONG: LockPolicy = LockPolicy::new(Duration::from_secs(15));

on_each_backend! {
    a_time_out_leaves_nothing,
    the_branches_that_select_drops_leave_nothing,
    tasks_that_are_aborted_leave_nothing,
    tasks_that_panic_leave_nothing,
    a_panic_beside_a_lock_leaves_nothing,
}

/// Never ends by itself, and says when it has begun.
#[distributed_lock(key = "orders:{id}", ttl_ms = 15_000, manager = manager, on_contention = wait(forever))]
async fn order(manager: &LockManager, id: u64, begun: &Notify) -> Result<(), LockError> {
    begun.notify_one();
    std::future::pending().await
}

/// Runs `case` on a manager that is not used afterwards, and looks what is left.
async fn leaves_nothing(setup: &impl Traced, name: &str, case: impl AsyncFnOnce(LockManager)) {
    let mut watch = Watch::start(setup).await;
    let manager = setup.manager();
    case(manager.clone()).await;
    watch.nothing_is_stored(name).await;
    settled(manager, name).await;
    watch.nothing_is_left(name).await;
}

async fn a_time_out_leaves_nothing(setup: &impl Traced) {
    for ms in [0, 1, 5, 30] {
        leaves_nothing(setup, &format!("{ms} ms"), async |manager| {
            let begun = Notify::new();
            // One has the lock, two wait for it.
            let calls = async {
                let calls =
                    (order(&manager, 7, &begun), order(&manager, 7, &begun), order(&manager, 7, &begun));
                let _ = tokio::join!(calls.0, calls.1, calls.2);
            };
            assert!(timeout(Duration::from_millis(ms), calls).await.is_err());
        })
        .await;
    }
}

async fn the_branches_that_select_drops_leave_nothing(setup: &impl Traced) {
    leaves_nothing(setup, "a body and a wait", async |manager| {
        let (begun, other) = (Notify::new(), Notify::new());
        tokio::select! {
            _ = order(&manager, 7, &begun) => unreachable!("it never ends"),
            _ = order(&manager, 7, &other) => unreachable!("it never ends"),
            () = soon("a body", async { tokio::select! { () = begun.notified() => {}, () = other.notified() => {} } }) => {}
        }
    })
    .await;
    leaves_nothing(setup, "the loser of two acquires", async |manager| {
        let other = setup.manager();
        let (key, policy) = (key("orders:7"), LONG.wait_forever());
        // Whoever wins is given back; who loses may be about to win.
        let winner = tokio::select! {
            winner = manager.acquire(&key, &policy) => winner,
            winner = other.acquire(&key, &policy) => winner,
        };
        winner.unwrap().release().await;
    })
    .await;
    leaves_nothing(setup, "an acquire that is polled by turns", async |manager| {
        let (key, policy) = (key("orders:7"), LONG.renew(Duration::from_secs(60)));
        let mut acquire = std::pin::pin!(manager.acquire(&key, &policy));
        for _ in 0..3 {
            tokio::select! {
                biased;
                guard = &mut acquire => return drop(guard.unwrap()),
                () = yield_now() => sleep(Duration::from_millis(2)).await,
            }
        }
    })
    .await;
}

async fn tasks_that_are_aborted_leave_nothing(setup: &impl Traced) {
    leaves_nothing(setup, "a body", async |manager| {
        let begun = Arc::new(Notify::new());
        let has_begun = Arc::clone(&begun);
        let task = tokio::spawn(async move { order(&manager, 7, &begun).await });
        soon("the body", has_begun.notified()).await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    })
    .await;
    for polls in 0..5 {
        leaves_nothing(setup, &format!("ten tasks after {polls} turns"), async |manager| {
            let begun = Arc::new(Notify::new());
            let mut tasks = JoinSet::new();
            for id in 0..10 {
                let (manager, begun) = (manager.clone(), Arc::clone(&begun));
                tasks.spawn(async move { order(&manager, id % 3, &begun).await });
            }
            for _ in 0..polls {
                yield_now().await;
            }
            tasks.shutdown().await;
        })
        .await;
    }
}

async fn tasks_that_panic_leave_nothing(setup: &impl Traced) {
    for polls in 0..3 {
        leaves_nothing(setup, &format!("after {polls} polls of the body"), async |manager| {
            let task = tokio::spawn(async move {
                let body = async |_: &lockrt::Lease| {
                    for _ in 0..polls {
                        yield_now().await;
                    }
                    panic!("a body that panics on purpose")
                };
                manager.run(&key("orders:7"), &LONG, body).await
            });
            let ended: Result<Result<(), LockError>, _> = task.await;
            assert!(ended.unwrap_err().is_panic());
        })
        .await;
    }
}

async fn a_panic_beside_a_lock_leaves_nothing(setup: &impl Traced) {
    leaves_nothing(setup, "a panic while a body waits", async |manager| {
        let task = tokio::spawn(async move {
            let begun = Notify::new();
            let panics = async {
                begun.notified().await;
                panic!("a neighbour that panics on purpose")
            };
            let _ = tokio::join!(order(&manager, 7, &begun), panics);
        });
        assert!(task.await.unwrap_err().is_panic());
    })
    .await;
    leaves_nothing(setup, "a panic under a guard", async |manager| {
        let task = tokio::spawn(async move {
            let _guard = manager.acquire(&key("orders:7"), &LONG).await.unwrap();
            panic!("an owner that panics on purpose")
        });
        let ended: Result<(), _> = task.await;
        assert!(ended.unwrap_err().is_panic());
    })
    .await;
}
