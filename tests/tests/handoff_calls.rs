//! What waiting and handing on cost the server, by its own count.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::HashMap;
use std::time::Duration;

use lockrt::{LockKey, LockManager, LockPolicy};
use lockrt_tests::{RedisServer, Setup, until};
use tokio::task::JoinSet;
use tokio::time::sleep;

const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(60)).wait_forever();

fn key(number: u32) -> LockKey {
    LockKey::of("orders:").part(&number).build().unwrap()
}

async fn scripts(server: &RedisServer) -> u64 {
    server.commandstats().await["evalsha"]
}

/// Calls of scripts per acquisition while `waiters` tasks of each of several managers take `turns` turns
/// each at one key.
async fn calls_per_turn(managers: usize, waiters: u32, turns: u32) -> f64 {
    let server = RedisServer::start();
    let holder = server.manager().acquire(&key(0), &POLICY).await.unwrap();
    let managers: Vec<LockManager> = (0..managers).map(|_| server.manager()).collect();
    let mut working = JoinSet::new();
    for manager in &managers {
        for _ in 0..waiters {
            let manager = manager.clone();
            working.spawn(async move {
                for _ in 0..turns {
                    let guard = manager.acquire(&key(0), &POLICY).await.unwrap();
                    // Else the lock is free again before the next one asks for it.
                    sleep(Duration::from_millis(1)).await;
                    guard.release().await;
                }
            });
        }
    }
    let queued = managers.len() as u64;
    until("each process has one place", async || server.queued().await == queued).await;
    let before = scripts(&server).await;
    holder.release().await;
    working.join_all().await;
    let calls = scripts(&server).await - before;
    assert_eq!((server.queued().await, server.held().await), (0, 0));
    f64::from(u32::try_from(calls).unwrap())
        / f64::from(u32::try_from(managers.len()).unwrap() * waiters * turns)
}

#[tokio::test]
async fn a_turn_costs_an_attempt_its_confirmation_and_a_release_however_many_wait() {
    for (managers, waiters, turns) in [(1, 32, 8), (1, 512, 2), (8, 4, 8), (32, 1, 8)] {
        let mut calls = f64::INFINITY;
        // A machine that stalls makes offers late, and so adds calls; it never spares one.
        for _ in 0..3 {
            calls = calls.min(calls_per_turn(managers, waiters, turns).await);
            if calls <= 3.1 {
                break;
            }
        }
        // A few more: the first attempts, and a standby whose offer was taken late.
        assert!(calls <= 3.1, "{managers} clients with {waiters} waiters each: {calls:.2} calls per turn");
    }
}

/// What the server was asked within ten seconds, the looks of the test itself left out.
async fn asked_within_ten_seconds(server: &RedisServer) -> HashMap<String, u64> {
    let before = server.commandstats().await;
    sleep(Duration::from_secs(10)).await;
    let mut calls = server.commandstats().await;
    calls.retain(|name, count| {
        *count -= before.get(name).copied().unwrap_or_default();
        *count > 0 && !["info", "hello", "client|setinfo"].contains(&name.as_str())
    });
    calls
}

/// A hundred tasks of one process wait for `keys` keys.
async fn a_hundred_wait(keys: u32) -> (RedisServer, HashMap<String, u64>) {
    // Two thirds of it, a quarter more or less, is the time from look to look.
    const SHORT: LockPolicy = LockPolicy::new(Duration::from_secs(6)).wait_forever();
    let server = RedisServer::start();
    let (holders, manager) = (server.manager(), server.manager());
    let mut held = Vec::new();
    for number in 0..keys {
        held.push(holders.acquire(&key(number), &POLICY).await.unwrap());
    }
    let mut waiting = JoinSet::new();
    for number in 0..100 {
        let manager = manager.clone();
        waiting.spawn(async move { manager.acquire(&key(number % keys), &SHORT).await.map(drop) });
    }
    until("they wait", async || server.queued().await == u64::from(keys)).await;
    let asked = asked_within_ten_seconds(&server).await;
    drop(waiting);
    (server, asked)
}

#[tokio::test]
async fn a_hundred_waiters_of_one_process_cost_nothing_but_a_look_per_key_and_ttl() {
    let (one, many) = tokio::join!(a_hundred_wait(1), a_hundred_wait(100));
    for (keys, (_server, asked)) in [(1, one), (100, many)] {
        let looks = asked.get("evalsha").copied().unwrap_or_default();
        // Every 3 to 5 s; none at all would be a wait that a lost message can make endless.
        assert!(looks >= keys && looks <= 4 * keys, "{keys} keys: {asked:?}");
        let others = ["get", "pttl", "zrange", "zadd", "pexpire", "evalsha"];
        assert!(asked.keys().all(|name| others.contains(&name.as_str())), "{keys} keys: {asked:?}");
    }
}
