//! The fence of a store in PostgreSQL: who passes, who is refused, and that nothing is written then.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use lockrt::fence::postgres::{GUARD, GUARD_ONCE, PostgresFence, REGISTER, SCHEMA};
use lockrt::fence::{FenceError, MAX_RESOURCE_BYTES, Mistake};
use lockrt::{FencingToken, Outcome};
use lockrt_tests::{PostgresServer, soon, until};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, IsolationLevel, NoTls};

async fn connected(server: &PostgresServer) -> Client {
    let (client, driver) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(driver);
    client
}

/// A store with one row, and two connections.
async fn start() -> (PostgresServer, Client, Client) {
    let server = PostgresServer::start_empty().await;
    let client = connected(&server).await;
    client.batch_execute(SCHEMA).await.unwrap();
    client.batch_execute(SCHEMA).await.unwrap();
    let table = "CREATE TABLE stock (id text PRIMARY KEY, n bigint NOT NULL, fencing_token bigint NOT NULL DEFAULT 0);
        INSERT INTO stock VALUES ('a', 10)";
    client.batch_execute(table).await.unwrap();
    let other = connected(&server).await;
    (server, client, other)
}

/// As the replicas of a service do that start together.
#[tokio::test]
async fn many_sessions_make_the_table_at_once_and_none_fails() {
    let server = PostgresServer::start_empty().await;
    let mut clients = Vec::new();
    for _ in 0..12 {
        clients.push(connected(&server).await);
    }
    for round in 0..30 {
        // Also within a transaction of the caller's, which goes on.
        let (begin, end) =
            if round % 2 == 0 { ("", "") } else { ("BEGIN", "SELECT FROM lockrt_fence; COMMIT") };
        let makes = clients.iter().map(async |client| {
            client.batch_execute(begin).await?;
            client.batch_execute(SCHEMA).await?;
            client.batch_execute(end).await
        });
        for made in soon("the tables", futures_util::future::join_all(makes)).await {
            assert!(made.is_ok(), "round {round}: {made:?}");
        }
        // Not a batch but one statement, as some drivers send each.
        clients[0].execute(SCHEMA, &[]).await.unwrap();
        clients[0].batch_execute("DROP TABLE lockrt_fence").await.unwrap();
    }
}

fn token(number: u64) -> FencingToken {
    FencingToken::new(number)
}

async fn n(client: &Client) -> i64 {
    client.query_one("SELECT n FROM stock", &[]).await.unwrap().get(0)
}

/// Writes `value` behind the fence.
async fn writes(
    client: &mut Client,
    fence: &PostgresFence,
    number: u64,
    value: i64,
    once: bool,
) -> Result<(), FenceError> {
    let transaction = client.transaction().await.unwrap();
    if once {
        fence.guard_once(&transaction, token(number)).await?;
    } else {
        fence.guard(&transaction, token(number)).await?;
    }
    transaction.execute("UPDATE stock SET n = $1", &[&value]).await.unwrap();
    transaction.commit().await.unwrap();
    Ok(())
}

fn stale(refusal: Result<(), FenceError>) -> (u64, u64) {
    match refusal {
        Err(FenceError::Stale { offered, stored, .. }) => (offered.get(), stored.get()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_newest_holder_passes_and_older_ones_are_refused() {
    let (_server, mut client, _) = start().await;
    let fence = PostgresFence::new("stock:a").unwrap();
    writes(&mut client, &fence, 5, 11, false).await.unwrap();
    writes(&mut client, &fence, 5, 12, false).await.unwrap();
    assert_eq!(stale(writes(&mut client, &fence, 4, 99, false).await), (4, 5));
    fence.register(&client, token(7)).await.unwrap();
    fence.register(&client, token(7)).await.unwrap();
    assert_eq!(stale(fence.register(&client, token(6)).await), (6, 7));
    assert_eq!(stale(writes(&mut client, &fence, 5, 99, false).await), (5, 7));
    assert_eq!(stale(writes(&mut client, &fence, 6, 99, true).await), (6, 7));
    assert_eq!(n(&client).await, 12, "a refused holder has written");
    writes(&mut client, &fence, 7, 13, false).await.unwrap();
    // Another resource has tokens of its own.
    writes(&mut client, &PostgresFence::new("stock:b").unwrap(), 1, 14, false).await.unwrap();
    assert_eq!(n(&client).await, 14);
}

#[tokio::test]
async fn once_per_grant_is_once_also_after_a_registration_and_a_rollback_does_not_count() {
    let (_server, mut client, _) = start().await;
    let fence = PostgresFence::new("stock:a").unwrap();
    fence.register(&client, token(5)).await.unwrap();
    let transaction = client.transaction().await.unwrap();
    fence.guard_once(&transaction, token(5)).await.unwrap();
    transaction.rollback().await.unwrap();
    writes(&mut client, &fence, 5, 11, true).await.unwrap();
    for _ in 0..2 {
        let refusal = writes(&mut client, &fence, 5, 99, true).await.unwrap_err();
        assert!(refusal.is_repeated() && refusal.stored() == Some(token(5)), "{refusal}");
    }
    assert_eq!(n(&client).await, 11);
    writes(&mut client, &fence, 6, 12, true).await.unwrap();
    assert!(writes(&mut client, &fence, 5, 99, true).await.unwrap_err().is_stale());
}

/// Between comparison and commit a newer one cannot come in; it waits for the end of the transaction.
#[tokio::test]
async fn a_registration_waits_for_the_commit_of_who_was_let_pass() {
    let (_server, mut one, two) = start().await;
    let fence = PostgresFence::new("stock:a").unwrap();
    fence.register(&one, token(5)).await.unwrap();
    let transaction = one.transaction().await.unwrap();
    fence.guard(&transaction, token(5)).await.unwrap();
    let registering = tokio::spawn({
        let fence = fence.clone();
        async move {
            fence.register(&two, token(6)).await.unwrap();
            n(&two).await
        }
    });
    let waits = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    until("it waits", async || !transaction.query(waits, &[]).await.unwrap().is_empty()).await;
    transaction.execute("UPDATE stock SET n = 11", &[]).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(soon("the registration", registering).await.unwrap(), 11, "it has read what was there before");
    assert_eq!(stale(writes(&mut one, &fence, 5, 99, false).await), (5, 6));
}

#[tokio::test]
async fn tokens_of_64_bits_are_compared_as_numbers() {
    let (_server, mut client, _) = start().await;
    for (number, (small, great)) in
        [(9, 10), (1 << 53, (1 << 53) + 1), (u64::MAX - 1, u64::MAX)].into_iter().enumerate()
    {
        let fence = PostgresFence::new(&format!("stock:{number}")).unwrap();
        writes(&mut client, &fence, small, 1, false).await.unwrap();
        writes(&mut client, &fence, great, 2, false).await.unwrap();
        assert_eq!(stale(writes(&mut client, &fence, small, 3, false).await), (small, great));
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_writes_nothing() {
    let (_server, mut client, _) = start().await;
    let invalid = |error: Result<_, FenceError>| match error {
        Err(FenceError::Invalid(mistake)) => mistake,
        other => panic!("{other:?}"),
    };
    assert_eq!(invalid(PostgresFence::new("").map(drop)), Mistake::EmptyResource);
    let long = "x".repeat(MAX_RESOURCE_BYTES + 1);
    assert_eq!(invalid(PostgresFence::new(&long).map(drop)), Mistake::LongResource { bytes: 1_025 });
    assert!(matches!(PostgresFence::new("a\0b"), Err(FenceError::Unusable { .. })));
    let fence = PostgresFence::new("stock:a").unwrap();
    assert_eq!(invalid(writes(&mut client, &fence, 0, 99, false).await), Mistake::TokenZero);
    assert_eq!(invalid(fence.register(&client, token(0)).await), Mistake::TokenZero);
    assert!(matches!(fence.register(&client, None).await, Err(FenceError::NoToken { .. })));
    for raw in ["0", "-1", "NaN", "18446744073709551616", "x", ""] {
        for statement in [REGISTER, GUARD, GUARD_ONCE] {
            let (resource, digits) = ("stock:a", raw);
            let answer =
                client.query_typed(statement, &[(&resource, Type::TEXT), (&digits, Type::TEXT)]).await;
            answer.unwrap_err();
        }
    }
    assert!(client.query("SELECT FROM lockrt_fence", &[]).await.unwrap().is_empty());
    assert_eq!(n(&client).await, 10);
    // Names are values, whatever stands in them.
    for name in ["a'; DROP TABLE stock; --", "\"", "\\", "日本語", &long[1..]] {
        let fence = PostgresFence::new(name).unwrap();
        writes(&mut client, &fence, 5, 11, false).await.unwrap();
        assert!(writes(&mut client, &fence, 4, 99, false).await.unwrap_err().is_stale());
    }
}

#[tokio::test]
async fn a_failed_transaction_and_a_missing_table_say_so_and_nothing_is_written() {
    let (_server, mut client, _) = start().await;
    let fence = PostgresFence::new("stock:a").unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.execute("UPDATE stock SET n = 99", &[]).await.unwrap();
    transaction.batch_execute("SELECT 1/0").await.unwrap_err();
    let refusal = fence.guard(&transaction, token(5)).await.unwrap_err();
    assert_eq!((refusal.kind(), refusal.outcome()), ("unavailable", Outcome::NotApplied));
    assert!(refusal.to_string().contains("roll the transaction back"), "{refusal}");
    transaction.commit().await.unwrap();
    assert_eq!(n(&client).await, 10, "the commit of a failed transaction is a rollback");

    client.batch_execute("ALTER TABLE lockrt_fence RENAME TO elsewhere").await.unwrap();
    let refusal = writes(&mut client, &fence, 5, 99, false).await.unwrap_err();
    assert_eq!((refusal.kind(), refusal.outcome()), ("unavailable", Outcome::NotApplied));
    assert!(refusal.to_string().contains("a table of the statement is missing"), "{refusal}");
    assert_eq!(n(&client).await, 10);
}

#[tokio::test]
async fn a_connection_lost_in_mid_transaction_has_written_nothing_and_registered_nobody() {
    let (server, mut one, _) = start().await;
    let fence = PostgresFence::new("stock:a").unwrap();
    let transaction = one.transaction().await.unwrap();
    fence.guard(&transaction, token(5)).await.unwrap();
    transaction.execute("UPDATE stock SET n = 99", &[]).await.unwrap();
    server.terminate_sessions().await;
    let refusal = fence.guard(&transaction, token(5)).await.unwrap_err();
    assert_eq!((refusal.kind(), refusal.outcome()), ("unavailable", Outcome::NotApplied), "{refusal}");
    drop(transaction);
    let mut two = connected(&server).await;
    assert_eq!(n(&two).await, 10);
    writes(&mut two, &fence, 4, 11, false).await.unwrap();
}

/// It is a transaction of its own, which may have been committed when the connection broke.
#[tokio::test]
async fn a_registration_whose_connection_is_lost_may_have_been_made() {
    let (server, mut one, two) = start().await;
    let fence = PostgresFence::new("stock:a").unwrap();
    let transaction = one.transaction().await.unwrap();
    fence.guard(&transaction, token(5)).await.unwrap();
    let waits = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let raw = server.raw().await;
    let registering = async {
        let asked = fence.register(&two, token(6)).await;
        (asked, fence.register(&two, token(6)).await)
    };
    // Not the one that it waits for: its turn would come in the meantime.
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let ended = async {
        until("it waits", async || !raw.query(waits, &[]).await.unwrap().is_empty()).await;
        raw.execute(end, &[]).await.unwrap();
    };
    let ((asked, again), ()) = soon("the end", async { tokio::join!(registering, ended) }).await;
    for refusal in [asked.unwrap_err(), again.unwrap_err()] {
        assert_eq!((refusal.kind(), refusal.outcome()), ("unavailable", Outcome::Unknown), "{refusal}");
    }
}

/// The isolation level is the caller's; a conflict is an error to begin again after.
#[tokio::test]
async fn a_serialization_failure_says_so_and_nothing_is_written() {
    let (_server, mut one, mut two) = start().await;
    let fence = PostgresFence::new("stock:a").unwrap();
    for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let transaction = one.build_transaction().isolation_level(level).start().await.unwrap();
        transaction.query_one("SELECT n FROM stock", &[]).await.unwrap();
        writes(&mut two, &fence, 5, 11, false).await.unwrap();
        let refusal = fence.guard(&transaction, token(6)).await.unwrap_err();
        assert_eq!((refusal.kind(), refusal.outcome()), ("unavailable", Outcome::NotApplied));
        assert!(refusal.to_string().contains("begin again"), "{refusal}");
        transaction.rollback().await.unwrap();
    }
    assert_eq!(n(&one).await, 11);
}

/// As the module's page shows it.
#[tokio::test]
async fn a_column_of_the_data_refuses_a_stale_holder_too() {
    let (_server, client, _) = start().await;
    let register = "UPDATE stock SET fencing_token = $1 WHERE id = $2 AND fencing_token <= $1 RETURNING n";
    let write = "UPDATE stock SET n = $3, fencing_token = $1 WHERE id = $2 AND fencing_token <= $1";
    let once = "UPDATE stock SET n = n + 5, fencing_token = $1 WHERE id = $2 AND fencing_token < $1";
    let (old, new) = (1_796_000_000_000_000_i64, 1_796_000_000_000_001_i64);
    assert_eq!(client.execute(once, &[&old, &"a"]).await.unwrap(), 1);
    assert_eq!(client.execute(once, &[&old, &"a"]).await.unwrap(), 0, "a retry adds nothing");
    assert_eq!(client.query_one(register, &[&new, &"a"]).await.unwrap().get::<_, i64>(0), 15);
    assert_eq!(client.execute(write, &[&old, &"a", &99_i64]).await.unwrap(), 0);
    assert_eq!(client.execute(write, &[&new, &"a", &16_i64]).await.unwrap(), 1);
    assert!(client.query(register, &[&old, &"a"]).await.unwrap().is_empty());
    assert_eq!(n(&client).await, 16);
}
