//! Holds a renewed lock in a process of its own and says what happens, for tests that stop it, kill it
//! or cut it off.
//!
//! `holder <url> <key> <ttl in ms>` prints `held`, then `poll <ms since the epoch>` whenever its body is
//! polled, and at last `ended <kind>`.
//!
//! `holder <url> <key> <ttl in ms> <store's url> plain|fenced` is about to write: it prints `held`, checks its
//! lease, prints `writing` and sends its write when it gets a line. Then it prints `written` or `refused`,
//! awaits something, and prints `ended <kind>`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "it talks to its test, which sees it fail")]

use std::future::{pending, poll_fn};
use std::task::Poll;
use std::time::{Duration, UNIX_EPOCH};

use lockrt::{Lease, LockKey, LockManager, LockPolicy};
use lockrt_tests::Row;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (url, key, ttl, row) = match arguments.as_slice() {
        [url, key, ttl] => (url, key, ttl, None),
        [url, key, ttl, store, fenced] => {
            (url, key, ttl, Some(Row { url: store.to_string(), fenced: *fenced == "fenced" }))
        }
        _ => panic!("holder <url> <key> <ttl in ms> [<store's url> plain|fenced]"),
    };
    let manager = LockManager::from_url(url).await.unwrap();
    let ttl = Duration::from_millis(ttl.parse().unwrap());
    let policy = LockPolicy::new(ttl).renew(Duration::from_secs(60));
    let key = LockKey::new(*key).unwrap();
    let ended = manager.run(&key, &policy, async |lease| {
        println!("held");
        match row {
            None => polls().await,
            Some(row) => writes(lease, &row).await,
        }
    });
    println!("ended {}", ended.await.map_or_else(|refusal| refusal.kind(), |()| "ok"));
}

/// Says when it is polled, for ever.
async fn polls() {
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    poll_fn(|cx| {
        println!("poll {}", UNIX_EPOCH.elapsed().unwrap().as_millis());
        while ticks.poll_tick(cx).is_ready() {}
        Poll::<()>::Pending
    })
    .await;
}

/// Writes without an await between the check and the write: nothing can stop it there.
async fn writes(lease: &Lease, row: &Row) {
    let mut row = row.open();
    lease.check().unwrap();
    println!("writing");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let written = row.write("stale", lease.fencing().unwrap().get());
    println!("{}", if written { "written" } else { "refused" });
    pending::<()>().await;
}
