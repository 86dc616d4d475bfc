//! Locks that are part of a transaction: when they end, and what each policy makes of contention.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockrt::postgres::{NAMESPACE, advisory_number, lock_in, lock_rows_in, unlocked_rows_in};
use lockrt::{LockError, LockPolicy};
use lockrt_tests::{PooledPostgres, PostgresServer, key, soon, until};
use tokio::task::JoinSet;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls, Transaction};

const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(10)).named("orders");

async fn connected(url: &str) -> Client {
    let (client, driver) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(driver);
    client
}

/// A table with two rows, and three connections.
async fn start() -> (PostgresServer, [Client; 3]) {
    let server = PostgresServer::start_empty().await;
    let clients =
        [connected(&server.url()).await, connected(&server.url()).await, connected(&server.url()).await];
    let table = "CREATE TABLE orders (id bigint PRIMARY KEY, n bigint NOT NULL); INSERT INTO orders VALUES (1, 0), (2, 0)";
    clients[0].batch_execute(table).await.unwrap();
    (server, clients)
}

async fn is_free(client: &mut Client, name: &str) -> bool {
    let transaction = client.transaction().await.unwrap();
    let free = match lock_in(&transaction, &key(name), &POLICY).await {
        Ok(()) => true,
        Err(LockError::Contended { .. }) => false,
        Err(error) => panic!("{error}"),
    };
    // A rollback by drop comes when it comes.
    transaction.rollback().await.unwrap();
    free
}

async fn add_one(transaction: &Transaction<'_>) -> u64 {
    transaction.execute("UPDATE orders SET n = n + 1 WHERE id = 2", &[]).await.unwrap()
}

#[tokio::test]
async fn a_lock_ends_with_its_transaction_and_not_before() {
    let (server, [mut one, mut two, mut three]) = start().await;
    for end in ["commit", "rollback", "cut"] {
        let transaction = one.transaction().await.unwrap();
        lock_in(&transaction, &key("orders"), &POLICY).await.unwrap();
        lock_in(&transaction, &key("orders"), &POLICY).await.unwrap();
        assert!(!is_free(&mut two, "orders").await && is_free(&mut two, "others").await);
        match end {
            "commit" => transaction.commit().await.unwrap(),
            "rollback" => transaction.rollback().await.unwrap(),
            _ => {
                server.terminate_sessions().await;
                drop(transaction);
                (two, three) = (connected(&server.url()).await, connected(&server.url()).await);
            }
        }
        assert!(is_free(&mut two, "orders").await, "{end}");
    }
    drop(three);
}

#[tokio::test]
async fn a_refused_transaction_is_as_it_was_and_can_go_on() {
    let (_server, [mut one, mut two, mut three]) = start().await;
    let holds = one.transaction().await.unwrap();
    lock_in(&holds, &key("orders"), &POLICY).await.unwrap();
    let row = "SELECT n FROM orders WHERE id = $1";
    lock_rows_in(&holds, row, &[(&1_i64, Type::INT8)], &key("row"), &POLICY).await.unwrap();
    let transaction = two.transaction().await.unwrap();
    transaction.batch_execute("SET LOCAL lock_timeout = '7s'").await.unwrap();
    for wait in [None, Some(Duration::ZERO), Some(Duration::from_millis(150))] {
        let policy = wait.map_or(POLICY, |wait| POLICY.wait(wait));
        for rows in [false, true] {
            let start = Instant::now();
            let refusal = if rows {
                lock_rows_in(&transaction, row, &[(&1_i64, Type::INT8)], &key("row"), &policy).await.map(drop)
            } else {
                lock_in(&transaction, &key("orders"), &policy).await
            };
            let took = start.elapsed();
            let Err(LockError::Contended { name: "orders", waited, .. }) = refusal else {
                panic!("{refusal:?}")
            };
            let asked = wait.unwrap_or_default();
            assert!(
                waited >= asked && waited <= took && took < asked + Duration::from_secs(2),
                "{waited:?} {took:?}"
            );
        }
    }
    assert_eq!(add_one(&transaction).await, 1);
    let setting: String = transaction.query_one("SHOW lock_timeout", &[]).await.unwrap().get(0);
    assert_eq!(setting, "7s");
    transaction.commit().await.unwrap();
    let n: i64 = three.query_one("SELECT n FROM orders WHERE id = 2", &[]).await.unwrap().get(0);
    assert_eq!(n, 1);
    holds.commit().await.unwrap();
    assert!(is_free(&mut three, "orders").await);
}

#[tokio::test]
async fn who_waits_gets_the_lock_at_the_commit_and_for_ever_is_longer_than_the_servers_setting() {
    let (_server, [mut one, mut two, three]) = start().await;
    for policy in [POLICY.wait(Duration::from_secs(20)), POLICY.wait_forever()] {
        let holds = one.transaction().await.unwrap();
        lock_in(&holds, &key("orders"), &POLICY).await.unwrap();
        let waits = two.transaction().await.unwrap();
        waits.batch_execute("SET LOCAL lock_timeout = 50").await.unwrap();
        let waiting = async {
            lock_in(&waits, &key("orders"), &policy).await.unwrap();
            Instant::now()
        };
        let committing = async {
            let waits = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
            until("it waits", async || !three.query(waits, &[]).await.unwrap().is_empty()).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            let commit = Instant::now();
            holds.commit().await.unwrap();
            commit
        };
        let (got, commit) = soon("the lock", async { tokio::join!(waiting, committing) }).await;
        assert!(got >= commit, "it was given before the commit");
        waits.commit().await.unwrap();
    }
}

/// Both wait for each other; the server has one of them give way.
#[tokio::test]
async fn a_deadlock_is_not_contention() {
    let (_server, [mut one, mut two, _]) = start().await;
    let (one, two) = (one.transaction().await.unwrap(), two.transaction().await.unwrap());
    let patient = POLICY.wait(Duration::from_secs(20));
    lock_in(&one, &key("a"), &POLICY).await.unwrap();
    lock_in(&two, &key("b"), &POLICY).await.unwrap();
    let (keys, policy) = ([key("b"), key("a")], &patient);
    let first = async { (lock_in(&one, &keys[0], policy).await, one.rollback().await).0 };
    let second = async { (lock_in(&two, &keys[1], policy).await, two.rollback().await).0 };
    let (first, second) = tokio::join!(first, second);
    let refusal = match (first, second) {
        (Ok(()), Err(refusal)) | (Err(refusal), Ok(())) => refusal,
        both => panic!("{both:?}"),
    };
    assert!(refusal.is_unavailable() && refusal.to_string().contains("deadlock"), "{refusal}");
}

#[tokio::test]
async fn a_transaction_that_has_failed_before_and_one_that_was_cut_say_so() {
    let (server, [mut one, mut two, _]) = start().await;
    for wait in [POLICY, POLICY.wait(Duration::from_millis(50))] {
        let failed = one.transaction().await.unwrap();
        failed.batch_execute("SELECT 1/0").await.unwrap_err();
        let refusal = lock_in(&failed, &key("orders"), &wait).await.unwrap_err();
        assert!(
            refusal.is_unavailable() && refusal.to_string().contains("roll the transaction back"),
            "{refusal}"
        );
    }
    let cut = two.transaction().await.unwrap();
    server.terminate_sessions().await;
    let refusal = lock_in(&cut, &key("orders"), &POLICY).await.unwrap_err();
    assert!(refusal.is_unavailable(), "{refusal}");
}

#[tokio::test]
async fn policies_that_a_transaction_cannot_meet_are_unsupported() {
    let (_server, [mut one, ..]) = start().await;
    let transaction = one.transaction().await.unwrap();
    for policy in [POLICY.require_fencing(), POLICY.min_hold(Duration::from_secs(1))] {
        let refusal = lock_in(&transaction, &key("orders"), &policy).await.unwrap_err();
        assert!(matches!(refusal, LockError::Unsupported { name: "orders", .. }), "{refusal}");
    }
    assert_eq!(add_one(&transaction).await, 1);
}

#[tokio::test]
async fn unlocked_rows_leave_out_what_others_have_locked() {
    let (_server, [mut one, mut two, mut three]) = start().await;
    let next = "SELECT id FROM orders ORDER BY id LIMIT 1";
    let mut taken = Vec::new();
    let (one, two) = (one.transaction().await.unwrap(), two.transaction().await.unwrap());
    let three = three.transaction().await.unwrap();
    for transaction in [&one, &two, &three] {
        let rows = unlocked_rows_in(transaction, next, &[], &key("queue"), &POLICY).await.unwrap();
        taken.push(rows.first().map(|row| row.get::<_, i64>(0)));
    }
    assert_eq!(taken, [Some(1), Some(2), None]);
}

/// Read, go away for a moment, write: without the lock this loses updates.
#[tokio::test]
async fn a_counter_is_exact_directly_and_behind_a_pooler() {
    let service = PooledPostgres::start().await;
    let direct = connected(&service.server().url()).await;
    direct.batch_execute("CREATE TABLE counter (n bigint); INSERT INTO counter VALUES (0)").await.unwrap();
    let pooler = service.url().split_once('?').unwrap().0.to_owned();
    let policy = Arc::new(POLICY.wait(Duration::from_secs(30)));
    let mut tasks = JoinSet::new();
    for number in 0..8 {
        let (url, policy) =
            (if number % 2 == 0 { service.server().url() } else { pooler.clone() }, Arc::clone(&policy));
        tasks.spawn(async move {
            let mut client = connected(&url).await;
            for _ in 0..10 {
                let transaction = client.transaction().await.unwrap();
                lock_in(&transaction, &key("counter"), &policy).await.unwrap();
                let row = transaction.query_typed_one("SELECT n FROM counter", &[]).await.unwrap();
                let n: i64 = row.get(0);
                tokio::task::yield_now().await;
                let write = "UPDATE counter SET n = $1";
                transaction.query_typed(write, &[(&(n + 1), Type::INT8)]).await.unwrap();
                transaction.commit().await.unwrap();
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let n: i64 = direct.query_one("SELECT n FROM counter", &[]).await.unwrap().get(0);
    assert_eq!(n, 80);
}

/// Programs in other languages lock the same number.
#[tokio::test]
async fn the_number_of_a_key_excludes_who_locks_it_by_hand() {
    let (_server, [one, mut two, _]) = start().await;
    let number = advisory_number(NAMESPACE, &key("orders"));
    one.execute("SELECT pg_advisory_lock($1)", &[&number]).await.unwrap();
    assert!(!is_free(&mut two, "orders").await);
    one.execute("SELECT pg_advisory_unlock($1)", &[&number]).await.unwrap();
    assert!(is_free(&mut two, "orders").await);
}
