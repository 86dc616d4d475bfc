//! Processes that end by themselves while they hold locks.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::process::Command;
use std::time::Duration;

use lockrt::{LockManager, LockPolicy};
use lockrt_tests::{RedisServer, Setup as _, key, soon};

const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(2));
/// Says to a copy of this program which locks to take, and how to end.
const URL: &str = "LOCKRT_TESTS_EXIT_URL";
const ENDS: &str = "LOCKRT_TESTS_EXIT_ENDS";

/// Runs the test called `name` in a process of its own, which ends in the midst of it.
fn run(name: &str, server: &RedisServer, ends: &str) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    let ended = child.args(["--exact", name]).env(URL, server.url()).env(ENDS, ends).status().unwrap();
    assert_eq!(ended.code(), Some(7), "it ends as it was told");
}

/// In the copy: takes the lock and ends the process.
async fn ends(url: &str) -> ! {
    let manager = LockManager::from_url(url).await.unwrap();
    let guard = manager.acquire(&key("orders:7"), &POLICY).await.unwrap();
    let report = match std::env::var(ENDS).unwrap().as_str() {
        "in order" => Some(manager.shutdown(Duration::ZERO).await),
        _ => None,
    };
    assert!(report.is_none_or(|report| report.is_clean()));
    // What is alive by then is not dropped, as with statics when `main` returns.
    let _held = guard;
    std::process::exit(7)
}

#[tokio::test]
async fn a_process_that_exits_after_a_shutdown_leaves_nothing() {
    if let Ok(url) = std::env::var(URL) {
        ends(&url).await;
    }
    let server = RedisServer::start();
    run("a_process_that_exits_after_a_shutdown_leaves_nothing", &server, "in order");
    assert_eq!(server.held().await, 0);
}

#[tokio::test]
async fn a_process_that_exits_without_a_shutdown_leaves_its_lock_to_its_ttl() {
    if let Ok(url) = std::env::var(URL) {
        ends(&url).await;
    }
    let server = RedisServer::start();
    run("a_process_that_exits_without_a_shutdown_leaves_its_lock_to_its_ttl", &server, "at once");
    assert_eq!(server.held().await, 1);
    let next = server.manager();
    let guard = soon("the ttl", next.acquire(&key("orders:7"), &POLICY.wait_forever())).await.unwrap();
    guard.lease().check().unwrap();
}
