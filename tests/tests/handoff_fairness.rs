//! Turns of processes that compete for one lock.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::LazyLock;
use std::time::Duration;

use lockrt::{LockKey, LockPolicy};
use lockrt_tests::{Program, RedisServer, Setup, until};
use tokio::task::spawn_blocking;

const PROCESSES: usize = 8;
const TURNS: usize = 100;
/// Some more, so that all compete until each should have had its turns.
const MORE: usize = 5;

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

/// The tokens of all turns of a process.
fn tokens(mut waiter: Program) -> Vec<u64> {
    let mut turn = || {
        let token = waiter.says().strip_prefix("held ").unwrap().parse().unwrap();
        assert_eq!(waiter.says(), "freed");
        token
    };
    (0..TURNS + MORE).map(|_| turn()).collect()
}

#[tokio::test]
async fn eight_processes_have_as_many_turns_each() {
    let server = RedisServer::start();
    let policy = LockPolicy::new(Duration::from_secs(30));
    let holder = server.manager().acquire(&KEY, &policy).await.unwrap();
    let turns = (TURNS + MORE).to_string();
    let start = |_| {
        let arguments = [&server.url(), KEY.as_str(), "30000", "6", &turns];
        let mut waiter = Program::start(env!("CARGO_BIN_EXE_waiter"), &arguments);
        assert_eq!(waiter.says(), "waits");
        waiter
    };
    let waiting: Vec<Program> = (0..PROCESSES).map(start).collect();
    until("all have a place", async || server.queued().await == PROCESSES as u64).await;
    holder.release().await;
    let working = waiting.into_iter().map(|waiter| spawn_blocking(move || tokens(waiter)));
    let mut all = Vec::new();
    for (process, working) in working.enumerate() {
        all.extend(working.await.unwrap().into_iter().map(|token| (token, process)));
    }
    // In the order of the grants.
    all.sort_unstable();
    let mut turns_of = [0_usize; PROCESSES];
    for (_, process) in &all[..PROCESSES * TURNS] {
        turns_of[*process] += 1;
    }
    let (least, most) = (*turns_of.iter().min().unwrap(), *turns_of.iter().max().unwrap());
    assert!(least * 100 >= most * 97, "{turns_of:?}");
}
