//! Many clients at once on one key of Redis, with leases that all overlap: the worst that a lock can do.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockrt::FencingToken;
use lockrt::fence::redis::{RedisFence, Write};
use lockrt_tests::RedisServer;
use redis::AsyncCommands as _;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const CLIENTS: u64 = 8;
const ROUNDS: u64 = 100;

#[derive(Clone, Copy)]
enum Kept {
    Beside,
    Inside,
}

impl Kept {
    fn fence(self) -> RedisFence {
        match self {
            Self::Beside => RedisFence::beside("n").unwrap(),
            Self::Inside => RedisFence::inside("n").unwrap(),
        }
    }
}

/// Clients take tokens as they come, register, read, and write what they read and one. The number of
/// writes that passed, of those that were refused, and the value at the end.
async fn race(server: &RedisServer, kept: Kept, once: bool) -> (u64, u64, u64) {
    let (tokens, refused) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(0)));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (mut raw, fence) = (server.raw().await, kept.fence());
        let (tokens, refused) = (Arc::clone(&tokens), Arc::clone(&refused));
        clients.spawn(async move {
            let mut passed = 0;
            for _ in 0..ROUNDS {
                let token = FencingToken::new(tokens.fetch_add(1, Ordering::Relaxed));
                let round = async {
                    fence.register(&mut raw, token).await?;
                    let value: Option<u64> = raw.hget("n", "value").await.unwrap();
                    let write = Write::hset(("value", value.unwrap_or_default() + 1));
                    if once {
                        fence.write_once(&mut raw, token, write).await
                    } else {
                        fence.write(&mut raw, token, write).await
                    }
                };
                match round.await {
                    Ok(_) => passed += 1,
                    Err(error) => {
                        assert!(error.is_stale(), "{error}");
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            passed
        });
    }
    let passed = clients.join_all().await.iter().sum();
    let value: u64 = server.raw().await.hget("n", "value").await.unwrap();
    (passed, refused.load(Ordering::Relaxed), value)
}

async fn no_update_is_lost(kept: Kept, once: bool) {
    let server = RedisServer::start();
    let (passed, refused, value) = race(&server, kept, once).await;
    assert_eq!(value, passed);
    assert!(passed > 0 && refused > 0, "{passed} passed, {refused} were refused: there was no race");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_is_lost_with_the_token_beside_the_data() {
    no_update_is_lost(Kept::Beside, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_is_lost_with_the_token_inside_of_the_data() {
    no_update_is_lost(Kept::Inside, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_is_lost_with_one_write_per_grant() {
    no_update_is_lost(Kept::Beside, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_tries_under_one_grant_one_is_carried_out() {
    let server = RedisServer::start();
    let start = Arc::new(Barrier::new(16));
    let mut tries = JoinSet::new();
    for _ in 0..16 {
        let (mut raw, start) = (server.raw().await, Arc::clone(&start));
        tries.spawn(async move {
            start.wait().await;
            let add = Write::command("INCRBY").arg(5);
            let fence = RedisFence::beside("sum").unwrap();
            match fence.write_once(&mut raw, FencingToken::new(7), add).await {
                Ok(_) => 1,
                Err(error) => {
                    assert!(error.is_repeated(), "{error}");
                    0
                }
            }
        });
    }
    assert_eq!(tries.join_all().await.iter().sum::<u32>(), 1);
    let sum: u64 = server.raw().await.get("sum").await.unwrap();
    assert_eq!(sum, 5);
}
