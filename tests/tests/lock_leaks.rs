//! What is left of managers and runtimes that are gone. One test, since it counts the threads of
//! its process.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::time::Duration;

use lockrt::{LockKey, LockPolicy};
use lockrt_tests::{RedisServer, Setup, Threaded, Watch};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(60)).renew(Duration::from_secs(600));
const RUNTIMES: usize = 500;

/// Every tenth has several threads.
fn runtime(number: usize) -> Runtime {
    let mut kind =
        if number.is_multiple_of(10) { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    kind.worker_threads(2).enable_all().build().unwrap()
}

/// Uses locks on a runtime and drops it, every other time in the middle of a body.
fn use_and_drop(setup: &impl Setup, number: usize) {
    let runtime = runtime(number / 2);
    let manager = setup.manager();
    let key = LockKey::of("orders:").part(&(number % 7)).build().unwrap();
    let policy = POLICY.wait(Duration::from_secs(10));
    let guard = runtime.block_on(manager.acquire(&key, &policy)).unwrap();
    if number.is_multiple_of(2) {
        runtime.spawn(async move {
            std::future::pending::<()>().await;
            drop(guard);
        });
        // A wait that nobody will end, in the line and at the service.
        let waits = async { tokio::join!(manager.acquire(&key, &policy), manager.acquire(&key, &policy)) };
        runtime.block_on(async { assert!(timeout(Duration::from_millis(2), waits).await.is_err()) });
    } else {
        runtime.block_on(guard.release());
    }
}

#[test]
fn runtimes_and_managers_that_are_dropped_leave_nothing_behind() {
    let (memory, server) = (Threaded::start(), RedisServer::start());
    let watching = runtime(1);
    let mut watch = watching.block_on(Watch::start(&server));
    let manager = server.manager();
    let guard = watching.block_on(manager.acquire(&LockKey::new("seen").unwrap(), &POLICY)).unwrap();
    let seen = watching.block_on(watch.count());
    assert_eq!((seen.keepers, seen.connections, seen.stored), (1, 1, 1), "what there is can be seen");
    drop((manager, guard));
    for number in 0..RUNTIMES / 2 {
        use_and_drop(&memory, number);
        use_and_drop(&server, number);
    }
    watching.block_on(watch.nothing_is_left("after all runtimes"));
    assert_eq!(memory.0.held(), 0);
}
