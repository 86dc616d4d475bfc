//! A process that is stopped between its read of a row and its write, for longer than its lease.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use lockrt::fence::postgres::SCHEMA;
use lockrt_tests::{PostgresServer, Program};

/// In each round two processes raise the counter; the first one is stopped in the middle until the second is
/// done. Gives how many said that they wrote, and the counter.
async fn raised(mode: &'static str, rounds: usize) -> (i64, i64) {
    let server = PostgresServer::start().await;
    let raw = server.raw().await;
    raw.batch_execute(&format!("SET ROLE app; {SCHEMA}")).await.unwrap();
    let table = "CREATE TABLE counter (n bigint NOT NULL, fencing_token bigint NOT NULL DEFAULT 0);
        INSERT INTO counter VALUES (0)";
    raw.batch_execute(table).await.unwrap();
    let url = server.url();
    let wrote = tokio::task::spawn_blocking(move || {
        let start = || Program::start(env!("CARGO_BIN_EXE_row_writer"), &[&url, mode, "300"]);
        let mut wrote = 0;
        for _ in 0..rounds {
            let mut paused = start();
            assert_eq!(paused.says(), "read");
            paused.stop();
            // It waits for the end of the lease.
            let mut next = start();
            assert_eq!(next.says(), "read");
            next.tell("go on");
            assert_eq!(next.says(), "wrote");
            paused.resume();
            paused.tell("go on");
            wrote += 1 + i64::from(paused.says() == "wrote");
        }
        wrote
    });
    let wrote = wrote.await.unwrap();
    (wrote, raw.query_one("SELECT n FROM counter", &[]).await.unwrap().get(0))
}

async fn loses_updates(mode: &'static str) {
    let (wrote, n) = raised(mode, 3).await;
    assert_eq!((wrote, n), (6, 3), "three of six increments are lost");
}

async fn loses_none(mode: &'static str) {
    let (wrote, n) = raised(mode, 3).await;
    assert_eq!((wrote, n), (3, 3), "who was stopped was refused");
}

#[tokio::test]
async fn without_a_fence_updates_are_lost() {
    loses_updates("naive").await;
}

#[tokio::test]
async fn a_check_before_the_write_changes_nothing() {
    loses_updates("checked").await;
}

#[tokio::test]
async fn behind_a_fence_none_is_lost() {
    loses_none("fenced").await;
}

#[tokio::test]
async fn behind_a_column_none_is_lost() {
    loses_none("column").await;
}
