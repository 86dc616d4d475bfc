//! What is left of managers and runtimes that are gone. One test, since it counts the threads of
//! its process.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::time::Duration;

use lockrt::{LockKey, LockPolicy};
use lockrt_tests::{RedisServer, Setup, Threaded, until};
use redis::aio::MultiplexedConnection;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(60)).renew(Duration::from_secs(600));
const RUNTIMES: usize = 500;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn keepers() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "lockrt-keeper").count()
}

async fn clients(raw: &mut MultiplexedConnection) -> usize {
    let info: String = redis::cmd("INFO").arg("clients").query_async(raw).await.unwrap();
    let count = info.lines().find_map(|line| line.strip_prefix("connected_clients:"));
    count.unwrap().trim().parse().unwrap()
}

/// Uses locks on a runtime and drops it, every other time in the middle of a body.
fn use_and_drop(setup: &impl Setup, number: usize) {
    let runtime = runtime();
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
    let watching = runtime();
    let mut raw = watching.block_on(server.raw());
    let before = watching.block_on(clients(&mut raw));
    let manager = server.manager();
    let guard = watching.block_on(manager.acquire(&LockKey::new("seen").unwrap(), &POLICY)).unwrap();
    assert_eq!(keepers(), 1, "a keeper can be seen");
    assert_eq!(watching.block_on(clients(&mut raw)), before + 1, "and its connection");
    drop((manager, guard));
    for number in 0..RUNTIMES / 2 {
        use_and_drop(&memory, number);
        use_and_drop(&server, number);
    }
    watching.block_on(async {
        until("all keepers have ended", async || keepers() == 0).await;
        assert_eq!(memory.held().await, 0);
        assert_eq!(server.held().await, 0);
        until("all connections are closed", async || clients(&mut raw).await == before).await;
    });
}
