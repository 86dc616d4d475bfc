//! Holds a lock in a process of its own and writes to a store when it is told, for tests that stop
//! it, or cut it off, between its check and its write.
//!
//! `writer <url> <key> <ttl in ms> <store>`: its body prints `checked`, blocks until a line comes in,
//! writes, and prints `taken` or `refused`, as the cell of the store that compares tokens has it; then
//! it awaits, and begins again. At last the program prints `ended <kind>`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "it talks to its test, which sees it fail")]

use std::time::Duration;

use lockrt::{FencingToken, LockKey, LockManager, LockPolicy};
use lockrt_tests::Store;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, url, key, ttl, store] = arguments.as_slice() else { panic!("writer <url> <key> <ttl> <store>") };
    let manager = LockManager::from_url(url).await.unwrap();
    let policy = LockPolicy::new(Duration::from_millis(ttl.parse().unwrap())).renew(Duration::from_secs(600));
    let key = LockKey::new(key).unwrap();
    let mut store = Store::at(store);
    let ended = manager.run(&key, &policy, async |lease| {
        let token = lease.fencing().map_or(0, FencingToken::get);
        while lease.check().is_ok() {
            println!("checked");
            if std::io::stdin().read_line(&mut String::new()).unwrap() == 0 {
                return;
            }
            println!("{}", if store.write(token, "old") { "taken" } else { "refused" });
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    println!("ended {}", ended.await.map_or_else(|refusal| refusal.kind(), |()| "ok"));
}
