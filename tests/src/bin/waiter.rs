//! Waits for a lock in a process of its own, again and again, for tests of the queue.
//!
//! `waiter <url> <key> <ttl in ms> <body in ms> <turns>` prints `waits` before it asks for the lock, then for each
//! turn `held <fencing token>` when it has it, and `freed` when it has given it back.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "it talks to its test, which sees it fail")]

use std::time::Duration;

use lockrt::{LockKey, LockManager, LockPolicy};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, url, key, ttl, body, turns] = arguments.as_slice() else {
        panic!("waiter <url> <key> <ttl in ms> <body in ms> <turns>")
    };
    let ms = |text: &str| Duration::from_millis(text.parse().unwrap());
    let manager = LockManager::from_url(url).await.unwrap();
    let (key, policy) = (LockKey::new(key).unwrap(), LockPolicy::new(ms(ttl)).wait_forever());
    println!("waits");
    for _ in 0..turns.parse().unwrap() {
        let guard = manager.acquire(&key, &policy).await.unwrap();
        println!("held {}", guard.lease().fencing().unwrap().get());
        tokio::time::sleep(ms(body)).await;
        guard.release().await;
        println!("freed");
    }
}
