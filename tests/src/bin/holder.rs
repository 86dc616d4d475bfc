//! Holds a lock in a process of its own and says what happens, for tests that stop or kill it.
//!
//! `holder <url> <key> <ttl in ms>` prints `held`, then `poll <ms since the epoch>` whenever its body is
//! polled, and at last `ended <kind>`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "it talks to its test, which sees it fail")]

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, UNIX_EPOCH};

use lockrt::{LockKey, LockManager, LockPolicy};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, url, key, ttl] = arguments.as_slice() else { panic!("holder <url> <key> <ttl in ms>") };
    let manager = LockManager::from_url(url).await.unwrap();
    let policy = LockPolicy::new(Duration::from_millis(ttl.parse().unwrap()));
    let key = LockKey::new(key).unwrap();
    let ended = manager.run(&key, &policy, async |_| {
        println!("held");
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        poll_fn(|cx| {
            println!("poll {}", UNIX_EPOCH.elapsed().unwrap().as_millis());
            while ticks.poll_tick(cx).is_ready() {}
            Poll::<()>::Pending
        })
        .await;
    });
    println!("ended {}", ended.await.map_or_else(|refusal| refusal.kind(), |()| "ok"));
}
