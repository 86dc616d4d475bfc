//! The tables of the locks: how they are made, what stays in them, and clocks that are stepped.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use lockrt::conformance::{Fault, Power as _, Service as _, cases_under};
use lockrt::testing::{claim, waiting_claim};
use lockrt::{Attempt, Backend, Claim, Outcome, Postgres, Released, Renewed};
use lockrt_tests::{PostgresPower, PostgresServer, SteppedClock, granted, key, refused, until, wall_seconds};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(60);

#[tokio::test]
async fn tables_are_made_by_many_at_once_and_again_by_a_user_who_may_not_make_any() {
    let server = PostgresServer::start_empty().await;
    let clients = [(); 4].map(|()| Postgres::from_url(&server.url()).unwrap());
    let [a, b, c, d] = clients.each_ref().map(Postgres::migrate);
    let (a, b, c, d) = tokio::join!(a, b, c, d);
    assert!([&a, &b, &c, &d].into_iter().all(Result::is_ok), "{a:?} {b:?} {c:?} {d:?}");
    let holder = claim(&key("orders"), TTL);
    granted(&clients[0], &holder).await;
    let rights = "
        CREATE ROLE guest LOGIN;
        GRANT SELECT, INSERT, UPDATE, DELETE ON lockrt_locks, lockrt_floor TO guest;";
    server.raw().await.batch_execute(rights).await.unwrap();
    let guest = Postgres::from_url(&server.url().replace("app@", "guest@")).unwrap();
    guest.migrate().await.unwrap();
    assert!(matches!(guest.try_acquire(&claim(&key("orders"), TTL)).await, Ok(Attempt::Held { .. })));
    assert_eq!(guest.release(&holder).await.unwrap(), Released::Freed);
    assert!(clients[1].schema_sql().contains("CREATE TABLE IF NOT EXISTS \"public\".lockrt_locks"));
}

#[tokio::test]
async fn locks_of_two_schemas_never_meet_whatever_the_search_path_is() {
    let server = PostgresServer::start().await;
    server.raw().await.batch_execute("CREATE SCHEMA \"my locks\" AUTHORIZATION app").await.unwrap();
    let (one, two) = (
        Postgres::from_url(&format!("{}?options=-c%20search_path%3Dpg_catalog", server.url())).unwrap(),
        server.client().await.in_schema("my locks").unwrap(),
    );
    two.migrate().await.unwrap();
    granted(&one, &claim(&key("orders"), TTL)).await;
    granted(&two, &claim(&key("orders"), TTL)).await;
    let third = Postgres::from_url(&format!("{}?schema=my%20locks", server.url())).unwrap();
    for client in [&one, &two, &third] {
        assert!(matches!(client.try_acquire(&claim(&key("orders"), TTL)).await, Ok(Attempt::Held { .. })));
    }
}

/// A role or database may have another default; then attempts would fail where others were at it.
#[tokio::test]
async fn attempts_are_answered_whatever_the_default_isolation_level_is() {
    let server = PostgresServer::start().await;
    let level = "ALTER ROLE app SET default_transaction_isolation = 'serializable'";
    server.raw().await.batch_execute(level).await.unwrap();
    let (one, two) = (server.client().await, server.client().await);
    for round in 0..100 {
        let key = key(&format!("race:{round}"));
        let (a, b) = (claim(&key, TTL), claim(&key, TTL));
        let (a, b) = tokio::join!(one.try_acquire(&a), two.try_acquire(&b));
        let grants =
            [&a, &b].into_iter().filter(|answer| matches!(answer, Ok(Attempt::Granted { .. }))).count();
        assert!(grants == 1 && a.is_ok() && b.is_ok(), "{a:?} {b:?}");
    }
}

/// By `now()`, the time at which its statement began, an attempt that had to wait for the row would find the old
/// lease still alive, or begin the new one in the past.
#[tokio::test]
async fn an_attempt_that_waited_for_its_row_goes_by_the_clock_of_afterwards() {
    let server = PostgresServer::start().await;
    let (one, two) = (server.client().await, server.client().await);
    let mut raw = server.raw().await;
    for round in 0..5 {
        let key = key(&format!("orders:{round}"));
        let (ends, next) = (claim(&key, Duration::from_millis(800)), waiting_claim(&key, TTL));
        let first = granted(&one, &ends).await;
        let transaction = raw.transaction().await.unwrap();
        transaction.execute("SELECT FROM lockrt_locks FOR UPDATE", &[]).await.unwrap();
        sleep(Duration::from_millis(600)).await;
        let ending = async {
            sleep(Duration::from_millis(300)).await;
            transaction.commit().await.unwrap();
        };
        let second = match tokio::join!(two.try_acquire(&next), ending).0 {
            Ok(Attempt::Granted { fencing }) => fencing.unwrap().get(),
            // On a machine that stalls it may have waited for the 500 ms of our connections.
            Err(error) if error.outcome() == Outcome::NotApplied => continue,
            other => panic!("{other:?}"),
        };
        assert!(second > first);
        let left = "SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 FROM lockrt_locks WHERE key = $1";
        let left: f64 = raw.query_one(left, &[&key.as_str()]).await.unwrap().get(0);
        assert!(left > TTL.as_secs_f64() - 1.0, "{left} s are left of {TTL:?}");
        return;
    }
    panic!("it was refused each time");
}

/// The floor remembers the tokens of rows that are gone.
#[tokio::test]
async fn tokens_rise_after_the_row_was_swept_and_the_clock_put_back() {
    let service = PostgresPower::start().await;
    let one = service.client().await;
    let holder = claim(&key("orders"), TTL);
    service.inflict(Fault::ClockAhead).await;
    let first = granted(&one, &holder).await;
    assert_eq!(one.release(&holder).await.unwrap(), Released::Freed);
    swept(&service, &one).await;
    service.heal().await;
    let second = granted(&one, &claim(&key("orders"), TTL)).await;
    assert_eq!(second, first + 1, "the clock is an hour behind");
    let third = granted(&one, &claim(&key("others"), TTL)).await;
    assert_eq!(third, first + 1, "a new row begins above the floor, too");
}

#[tokio::test]
async fn a_row_whose_token_is_ahead_of_the_clock_is_not_swept() {
    let service = PostgresPower::start().await;
    let one = service.client().await;
    let (ahead, behind) = (claim(&key("ahead"), TTL), claim(&key("behind"), TTL));
    service.inflict(Fault::ClockAhead).await;
    granted(&one, &ahead).await;
    service.heal().await;
    granted(&one, &behind).await;
    for claim in [&ahead, &behind] {
        assert_eq!(one.release(claim).await.unwrap(), Released::Freed);
    }
    until_rows(&service, &one, "'behind'", 0).await;
    until_rows(&service, &one, "'ahead'", 1).await;
}

#[tokio::test]
async fn a_thousand_and_more_renewals_are_a_statement_or_two_and_each_is_answered() {
    let server = PostgresServer::start().await;
    let one = server.client().await;
    let rows = "INSERT INTO lockrt_locks SELECT 'k' || n, 'nobody', 1, clock_timestamp() + '1 min', false
        FROM generate_series(1, 20000) AS n";
    let raw = server.raw().await;
    raw.batch_execute(rows).await.unwrap();
    let claims: Vec<Claim> = (1..=2_500).map(|n| claim(&key(&format!("k{n}")), TTL)).collect();
    for claim in claims.iter().step_by(2) {
        let owner = claim.owner().wire();
        let write = "UPDATE lockrt_locks SET owner = $1 WHERE key = $2";
        raw.execute(write, &[&owner, &claim.key().as_str()]).await.unwrap();
    }
    let answers = one.renew(&claims.iter().collect::<Vec<_>>()).await;
    let extended = |answer: &Renewed| matches!(answer, Renewed::Extended);
    assert!(answers.iter().enumerate().all(|(place, answer)| extended(answer) == (place % 2 == 0)));
    // The same lease twice in a batch is the same answer twice.
    let answers = one.renew(&[&claims[0], &claims[1], &claims[0]]).await;
    assert!(matches!(answers[..], [Renewed::Extended, Renewed::Gone, Renewed::Extended]), "{answers:?}");
}

#[tokio::test]
async fn a_key_that_the_databases_encoding_lacks_is_refused_with_the_remedy() {
    let server = PostgresServer::start().await;
    let raw = server.raw().await;
    raw.batch_execute("UPDATE pg_database SET encoding = 8 WHERE datname = 'app'").await.unwrap();
    let error = refused(&server.client().await, &claim(&key("日本語"), TTL)).await;
    assert!(error.is_permanent() && error.outcome() == Outcome::NotApplied, "{error}");
    assert!(error.to_string().contains("UTF8") && !error.to_string().contains('日'), "{error}");
}

/// The suite's cases, each in a process of its own on a stepped clock.
#[tokio::test]
async fn a_step_of_the_clients_clock_changes_nothing() {
    if SteppedClock::of_this_process().is_none() {
        return SteppedClock::new().run_again("a_step_of_the_clients_clock_changes_nothing");
    }
    for pooled in [false, true] {
        let start =
            async || if pooled { PostgresPower::start_pooled().await } else { PostgresPower::start().await };
        let (service, before) = (start().await, wall_seconds());
        service.inflict(Fault::ClientAhead).await;
        assert!(wall_seconds() >= before + 3_600, "this process's clock is not stepped");
        let raw = service.server().await.raw().await;
        let now = "SELECT extract(epoch FROM clock_timestamp())::bigint";
        let servers: i64 = raw.query_one(now, &[]).await.unwrap().get(0);
        assert!(servers.abs_diff(i64::try_from(before).unwrap()) <= 5, "the server's clock is stepped, too");
        service.heal().await;
        let cases = cases_under(Fault::ClientAhead);
        assert!(!cases.is_empty());
        for case in cases {
            case.run(&start().await).await;
        }
    }
}

/// Waits until nothing is left of what has ended.
async fn swept(service: &PostgresPower, client: &Postgres) {
    until_rows(service, client, "key", 0).await;
}

async fn until_rows(service: &PostgresPower, client: &Postgres, of: &str, rows: i64) {
    let raw = service.server().await.raw().await;
    let count = format!("SELECT count(*) FROM lockrt_locks WHERE key = {of}");
    until("the table is swept", async || {
        // Who is at work sweeps.
        client.release(&claim(&key("nothing"), TTL)).await.unwrap();
        sleep(Duration::from_millis(50)).await;
        raw.query_one(&count, &[]).await.unwrap().get::<_, i64>(0) == rows
    })
    .await;
}
