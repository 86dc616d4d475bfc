//! Transactions that stand still, since their client does: the server ends them, and nothing is written.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use lockrt::fence::postgres::{PostgresFence, SCHEMA};
use lockrt::postgres::lock_in;
use lockrt::{FencingToken, LockPolicy};
use lockrt_tests::{PostgresServer, key, soon};
use tokio_postgres::{Client, NoTls};

const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(10)).named("orders").wait_forever();

/// A connection whose transactions may stand still for a while.
async fn connected(server: &PostgresServer) -> Client {
    let (client, driver) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(driver);
    client.batch_execute("SET idle_in_transaction_session_timeout = 200").await.unwrap();
    client
}

/// A store with a row, and two connections.
async fn start() -> (PostgresServer, [Client; 2]) {
    let server = PostgresServer::start_empty().await;
    let clients = [connected(&server).await, connected(&server).await];
    let table = "CREATE TABLE stock (n bigint NOT NULL); INSERT INTO stock VALUES (10)";
    clients[0].batch_execute(&format!("{SCHEMA} {table}")).await.unwrap();
    (server, clients)
}

async fn n(client: &Client) -> i64 {
    client.query_one("SELECT n FROM stock", &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_lock_in_a_transaction_that_stands_still_goes_to_the_next_one() {
    let (_server, [mut still, mut next]) = start().await;
    let held = still.transaction().await.unwrap();
    lock_in(&held, &key("stock"), &POLICY).await.unwrap();
    held.execute("UPDATE stock SET n = 7", &[]).await.unwrap();
    let transaction = next.transaction().await.unwrap();
    soon("the lock", lock_in(&transaction, &key("stock"), &POLICY)).await.unwrap();
    assert!(held.commit().await.is_err());
    transaction.commit().await.unwrap();
    assert_eq!(n(&next).await, 10);
}

#[tokio::test]
async fn a_guard_in_a_transaction_that_stands_still_lets_the_next_one_register() {
    let (_server, [mut still, next]) = start().await;
    let fence = PostgresFence::new("stock").unwrap();
    let held = still.transaction().await.unwrap();
    fence.guard(&held, FencingToken::new(1)).await.unwrap();
    held.execute("UPDATE stock SET n = 7", &[]).await.unwrap();
    soon("the registration", fence.register(&next, FencingToken::new(2))).await.unwrap();
    assert!(held.commit().await.is_err());
    assert_eq!(n(&next).await, 10);
}
