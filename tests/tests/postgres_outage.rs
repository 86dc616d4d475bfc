//! PostgreSQL down, started again, hindered or failed over: what each call says, and that the client recovers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockrt::conformance::Service as _;
use lockrt::testing::{claim, waiting_claim};
use lockrt::{
    Attempt, Backend, LockError, LockManager, LockPolicy, LossReason, Outcome, Postgres, Renewed, SetupError,
};
use lockrt_tests::{
    Fault, PooledPostgres, PostgresServer, Proxy, granted, key, refused, soon, until, url_at,
};
use tokio::time::{sleep, timeout};

const TTL: Duration = Duration::from_secs(30);

fn at(port: u16) -> Postgres {
    Postgres::from_url(&url_at(port)).unwrap()
}

async fn gets(client: &Postgres, name: &str) -> bool {
    matches!(client.try_acquire(&claim(&key(name), TTL)).await, Ok(Attempt::Granted { .. }))
}

#[tokio::test]
async fn a_refused_connection_means_not_applied() {
    let mut server = PostgresServer::start().await;
    server.kill();
    let client = server.client().await;
    let error = refused(&client, &claim(&key("orders"), TTL)).await;
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
    assert!(error.to_string().contains("cannot reach PostgreSQL") && !error.is_permanent(), "{error}");
    let answers = client.renew(&[&claim(&key("orders"), TTL)]).await;
    assert!(matches!(&answers[..], [Renewed::Unknown(_)]), "{answers:?}");
}

#[tokio::test]
async fn callers_of_a_dead_server_make_few_connections() {
    let server = PostgresServer::start().await;
    let proxy = Proxy::start(server.port(), 1).await;
    proxy.set(Fault::Refuse);
    let client = at(proxy.port());
    let (start, mut calls) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(1) {
        for _ in 0..20 {
            assert_eq!(refused(&client, &claim(&key("orders"), TTL)).await.outcome(), Outcome::NotApplied);
            calls += 1;
        }
        tokio::task::yield_now().await;
    }
    // Pauses of 10, 20, ... 250 ms, up to a quarter shorter, fit about 10 times into a second.
    assert!(proxy.accepted() < 16 && calls > 1_000, "{} for {calls} calls", proxy.accepted());
    proxy.set(Fault::None);
    until("the client is connected", async || gets(&client, "orders").await).await;
}

/// An administrator ends all sessions: nothing is lost, and waiters hear of releases on a new connection.
#[tokio::test]
async fn sessions_that_are_terminated_cost_no_lease_and_no_wake_up() {
    let server = PostgresServer::start().await;
    let manager = LockManager::builder().build(server.client().await).unwrap();
    let policy = LockPolicy::new(Duration::from_secs(2)).renew(Duration::from_secs(60));
    let guard = manager.acquire(&key("kept"), &policy).await.unwrap();
    let (one, two) = (server.client().await, Arc::new(server.client().await));
    let (holder, waiter) = (claim(&key("orders"), TTL), waiting_claim(&key("orders"), TTL));
    granted(&one, &holder).await;
    assert!(matches!(two.try_acquire(&waiter).await, Ok(Attempt::Held { .. })));
    for _ in 0..4 {
        server.terminate_sessions().await;
        sleep(Duration::from_millis(700)).await;
    }
    guard.lease().check().unwrap();
    // It looks once more when it has a new connection, and then it hears.
    soon("a look after the reconnection", two.freed(&waiter)).await;
    assert!(matches!(two.try_acquire(&waiter).await, Ok(Attempt::Held { .. })));
    let waiting = tokio::spawn({
        let two = Arc::clone(&two);
        async move { two.freed(&waiter).await }
    });
    until("the holder is connected again", async || one.release(&holder).await.is_ok()).await;
    soon("a wake-up", waiting).await.unwrap();
    guard.release().await;
}

/// The commit of a grant that was answered is on the disk.
#[tokio::test]
async fn a_crash_of_the_server_forgets_no_lock_and_a_short_one_costs_no_lease() {
    let mut server = PostgresServer::start_with(&["fsync=on"]).await;
    let manager = LockManager::builder().build(server.client().await).unwrap();
    let policy = LockPolicy::new(Duration::from_secs(20)).renew(Duration::from_secs(60));
    let guard = manager.acquire(&key("orders"), &policy).await.unwrap();
    let first = guard.lease().fencing().unwrap().get();
    server.restart().await;
    let other = server.client().await;
    let (next, mut free_in) = (claim(&key("lock:orders"), TTL), None);
    until("the server is found again", async || match other.try_acquire(&next).await {
        Ok(Attempt::Held { free_in: left }) => {
            free_in = left;
            true
        }
        Ok(attempt) => panic!("a crash has lost a lock: {attempt:?}"),
        Err(_) => false,
    })
    .await;
    assert!(free_in.is_some_and(|left| left <= Duration::from_secs(20)), "{free_in:?}");
    guard.lease().check().unwrap();
    guard.release().await;
    until("the lock is free", async || gets(&other, "lock:orders").await).await;
    assert!(granted(&other, &claim(&key("others"), TTL)).await > first);
}

/// Where commits are answered before they are written, a crash is like a failover that lost them.
#[tokio::test]
async fn a_crash_under_late_commits_loses_grants_and_the_tokens_of_the_next_ones_are_greater() {
    let late = ["synchronous_commit=off", "wal_writer_delay=10s"];
    let mut server = PostgresServer::start_with(&late).await;
    // Else the tables go, too.
    server.raw().await.batch_execute("CHECKPOINT").await.unwrap();
    let client = server.client().await;
    let lost = claim(&key("orders"), TTL);
    let first = granted(&client, &lost).await;
    server.restart().await;
    let (next, mut second) = (claim(&key("orders"), TTL), 0);
    until("the server is found again", async || match client.try_acquire(&next).await {
        Ok(Attempt::Granted { fencing }) => {
            second = fencing.unwrap().get();
            true
        }
        Ok(attempt) => panic!("the grant was written all the same: {attempt:?}"),
        Err(_) => false,
    })
    .await;
    assert!(second > first, "{second} after {first}");
    let answers = client.renew(&[&lost]).await;
    assert!(matches!(&answers[..], [Renewed::Gone]), "{answers:?}");
}

#[tokio::test]
async fn a_lease_is_lost_at_its_deadline_while_the_server_is_away_and_callers_learn_it_in_time() {
    let mut server = PostgresServer::start().await;
    let manager = LockManager::builder().build(server.client().await).unwrap();
    let policy = LockPolicy::new(Duration::from_millis(900)).renew(Duration::from_secs(60));
    let guard = manager.acquire(&key("orders"), &policy).await.unwrap();
    server.kill();
    let start = Instant::now();
    let refusal = manager.acquire(&key("others"), &policy).await.unwrap_err();
    assert!(refusal.is_unavailable() && start.elapsed() < Duration::from_secs(3), "{refusal}");
    timeout(Duration::from_secs(5), guard.lease().lost()).await.unwrap();
    let lost = guard.lease().check().unwrap_err();
    assert!(matches!(lost, LockError::Lost { reason: LossReason::Expired, .. }), "{lost}");
}

/// Somebody locks the row of one lock by hand, and forgets to commit.
#[tokio::test]
async fn a_row_that_another_transaction_has_locked_holds_up_its_own_lock_only() {
    let server = PostgresServer::start().await;
    let client = Arc::new(server.client().await);
    let holder = claim(&key("stuck"), TTL);
    granted(&*client, &holder).await;
    let mut raw = server.raw().await;
    let transaction = raw.transaction().await.unwrap();
    transaction.execute("SELECT FROM lockrt_locks WHERE key = 'stuck' FOR UPDATE", &[]).await.unwrap();
    let stuck = tokio::spawn({
        let (client, holder) = (Arc::clone(&client), holder.clone());
        async move { client.release(&holder).await }
    });
    let waits = "SELECT FROM pg_stat_activity WHERE usename = 'app' AND wait_event_type = 'Lock'";
    until("it waits", async || !transaction.query(waits, &[]).await.unwrap().is_empty()).await;
    let (mut slow, mut calls) = (0, 0);
    while !stuck.is_finished() {
        let start = Instant::now();
        assert!(gets(&client, &format!("free:{start:?}")).await);
        slow += u32::from(start.elapsed() > Duration::from_millis(300));
        calls += 1;
    }
    // Nobody waits with it but perhaps a call that has come before it took long.
    assert!(slow <= 1 && calls > 20, "{slow} of {calls}");
    let error = stuck.await.unwrap().unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
    // A renewal does not wait for it at all.
    let start = Instant::now();
    let answers = client.renew(&[&holder]).await;
    let [Renewed::Unknown(error)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
    assert!(start.elapsed() < Duration::from_millis(1_500), "{:?}", start.elapsed());
    transaction.commit().await.unwrap();
    assert!(matches!(client.renew(&[&holder]).await[..], [Renewed::Extended]));
}

/// All of a process are renewed by one statement.
#[tokio::test]
async fn a_locked_row_costs_none_of_the_other_leases_of_its_process() {
    let server = PostgresServer::start().await;
    let manager = LockManager::builder().build(server.client().await).unwrap();
    let policy = LockPolicy::new(Duration::from_secs(3)).renew(Duration::from_secs(60));
    let mut guards = Vec::new();
    for number in 0..10 {
        guards.push(manager.acquire(&key(&format!("orders:{number}")), &policy).await.unwrap());
    }
    let mut raw = server.raw().await;
    let transaction = raw.transaction().await.unwrap();
    let locked = "SELECT FROM lockrt_locks WHERE key LIKE '%orders:3' FOR UPDATE";
    assert_eq!(transaction.execute(locked, &[]).await.unwrap(), 1);
    soon("the loss of this one", guards[3].lease().lost()).await;
    // The release of this one is tried again and again.
    sleep(Duration::from_secs(3)).await;
    for (number, guard) in guards.iter().enumerate().filter(|(number, _)| *number != 3) {
        guard.lease().check().unwrap_or_else(|error| panic!("{number}: {error}"));
    }
    transaction.rollback().await.unwrap();
}

/// To ask again for the locked row takes time, which the others have not.
#[tokio::test]
async fn a_locked_row_costs_none_of_the_other_leases_where_answers_take_long() {
    let server = PostgresServer::start().await;
    let line = Proxy::start(server.port(), 1).await;
    let manager = LockManager::builder().build(at(line.port())).unwrap();
    let policy = LockPolicy::new(Duration::from_millis(1_500)).renew(Duration::from_secs(60));
    let mut guards = Vec::new();
    for number in 0..4 {
        guards.push(manager.acquire(&key(&format!("orders:{number}")), &policy).await.unwrap());
    }
    line.delay(50..51);
    sleep(Duration::from_secs(2)).await;
    for guard in &guards {
        guard.lease().check().expect("answers come in time");
    }
    let mut raw = server.raw().await;
    let transaction = raw.transaction().await.unwrap();
    let locked = "SELECT FROM lockrt_locks WHERE key LIKE '%orders:3' FOR UPDATE";
    assert_eq!(transaction.execute(locked, &[]).await.unwrap(), 1);
    soon("the loss of this one", guards[3].lease().lost()).await;
    sleep(Duration::from_secs(1)).await;
    for (number, guard) in guards.iter().enumerate().filter(|(number, _)| *number != 3) {
        guard.lease().check().unwrap_or_else(|error| panic!("{number}: {error}"));
    }
    transaction.rollback().await.unwrap();
}

/// What logs in cannot be reached, say, while those who are in already go on slowly.
#[tokio::test]
async fn calls_go_on_where_answers_take_long_and_no_new_connection_is_let_in() {
    let server = PostgresServer::start().await;
    let line = Proxy::start(server.port(), 1).await;
    let client = at(line.port());
    let holder = claim(&key("orders"), TTL);
    granted(&client, &holder).await;
    line.delay(60..61);
    let silent = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    line.lead_to(silent.local_addr().unwrap().port());
    let others = async {
        loop {
            gets(&client, "busy").await;
        }
    };
    let renewals = async {
        for _ in 0..10 {
            let answers = timeout(Duration::from_millis(500), client.renew(&[&holder])).await;
            assert!(matches!(answers.as_deref(), Ok([Renewed::Extended])), "{answers:?}");
            sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = renewals => {}
        () = others => {}
    }
}

/// Behind a pooler no statement has a bound but those of the role.
#[tokio::test]
async fn a_sweep_that_cannot_be_made_holds_up_no_lock() {
    let service = PooledPostgres::start().await;
    let client = Postgres::from_url(&service.url()).unwrap().connections(1).unwrap();
    let holder = claim(&key("orders"), TTL);
    granted(&client, &holder).await;
    let mut raw = service.server().raw().await;
    let transaction = raw.transaction().await.unwrap();
    transaction.batch_execute("LOCK TABLE lockrt_floor").await.unwrap();
    let start = Instant::now();
    // It is due after two seconds, and again after two more.
    while start.elapsed() < Duration::from_millis(4_500) {
        let answers = soon("a renewal", client.renew(&[&holder])).await;
        assert!(matches!(answers[..], [Renewed::Extended]), "{answers:?}");
        sleep(Duration::from_millis(50)).await;
    }
    transaction.rollback().await.unwrap();
}

#[tokio::test]
async fn a_pooler_that_the_url_does_not_name_is_found_out() {
    let service = PooledPostgres::start().await;
    let url = service.url();
    let direct = url.split_once('?').unwrap().0;
    let refusal = LockManager::from_url(direct).await.unwrap_err().to_string();
    assert!(refusal.contains("write `pooler=transaction` in the URL"), "{refusal}");
    LockManager::from_url(&url).await.unwrap();
}

#[tokio::test]
async fn what_is_missing_is_named_with_its_remedy() {
    let server = PostgresServer::start_empty().await;
    let told = async |url: &str| match LockManager::from_url(url).await {
        Err(error @ SetupError::Unavailable { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let missing = told(&server.url()).await;
    assert!(missing.contains("tables of the locks are missing") && missing.contains("migrate"), "{missing}");
    let missing = told(&format!("{}?schema=nowhere", server.url())).await;
    assert!(missing.contains("tables of the locks are missing"), "{missing}");
    let missing = told(&format!("postgres://app@127.0.0.1:{}/nowhere", server.port())).await;
    assert!(missing.contains("no database of this name"), "{missing}");
    let raw = server.raw().await;
    server.client().await.migrate().await.unwrap();
    raw.batch_execute("REVOKE UPDATE ON lockrt_locks FROM app; ALTER TABLE lockrt_locks OWNER TO postgres")
        .await
        .unwrap();
    let missing = told(&server.url()).await;
    assert!(missing.contains("may not select, insert, update and delete"), "{missing}");
    raw.batch_execute("GRANT ALL ON lockrt_locks TO app; ALTER TABLE lockrt_locks RENAME wanted TO w")
        .await
        .unwrap();
    let missing = told(&server.url()).await;
    assert!(missing.contains("not as this version of lockrt makes them"), "{missing}");
}
