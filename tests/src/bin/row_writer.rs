//! Raises a counter in a row of PostgreSQL under a lock, in a process of its own, for tests that stop it
//! between its read and its write.
//!
//! `row_writer <url> <mode> <ttl in ms>`: it takes the lock, reads the counter, prints `read`, blocks until a
//! line comes in, writes one more than it has read, and prints `wrote` or `refused`. `naive` is the lock alone,
//! `checked` looks at its lease before the write, `fenced` has the table of fences compare tokens, and `column`
//! a column of the row.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "it talks to its test, which sees it fail")]

use std::time::Duration;

use lockrt::fence::postgres::PostgresFence;
use lockrt::{Lease, LockKey, LockManager, LockPolicy, OnLost};
use tokio_postgres::{Client, NoTls};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, url, mode, ttl] = arguments.as_slice() else { panic!("row_writer <url> <mode> <ttl>") };
    let manager = LockManager::from_url(url).await.unwrap();
    let (mut client, driver) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(driver);
    // The store has to stop it: its lock would.
    let policy = LockPolicy::new(Duration::from_millis(ttl.parse().unwrap())).on_lost(OnLost::Report);
    let policy = policy.wait(Duration::from_secs(20));
    let key = LockKey::new("counter").unwrap();
    let wrote = manager.run(&key, &policy, async |lease| raised(&mut client, mode, lease).await).await;
    println!("{}", if wrote.unwrap() { "wrote" } else { "refused" });
}

/// Reads and writes; whether it was let.
async fn raised(client: &mut Client, mode: &str, lease: &Lease) -> bool {
    let fence = PostgresFence::new("counter").unwrap();
    if mode == "fenced" && fence.register(client, lease).await.is_err() {
        return false;
    }
    let token = lease.fencing();
    let register = "UPDATE counter SET fencing_token = $1 WHERE fencing_token <= $1";
    if mode == "column" && client.execute(register, &[&token]).await.unwrap() == 0 {
        return false;
    }
    let n: i64 = client.query_one("SELECT n FROM counter", &[]).await.unwrap().get(0);
    if mode == "checked" && lease.check().is_err() {
        return false;
    }
    println!("read");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    if mode == "column" {
        let write = "UPDATE counter SET n = $2, fencing_token = $1 WHERE fencing_token <= $1";
        return client.execute(write, &[&token, &(n + 1)]).await.unwrap() == 1;
    }
    let transaction = client.transaction().await.unwrap();
    if mode == "fenced" && fence.guard(&transaction, lease).await.is_err() {
        return false;
    }
    transaction.execute("UPDATE counter SET n = $1", &[&(n + 1)]).await.unwrap();
    transaction.commit().await.unwrap();
    true
}
