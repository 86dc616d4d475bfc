//! Locks of a session: when they end, what each policy makes of contention, and that a pooler is refused.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::pin::pin;
use std::time::{Duration, Instant};

use lockrt::postgres::{NAMESPACE, advisory_number, lock_in, session_lock};
use lockrt::{LockError, LockPolicy, LossReason};
use lockrt_tests::{Fault, PgBouncer, PooledPostgres, PostgresServer, Proxy, key, soon, until, url_at};
use tokio::time::timeout;
use tokio_postgres::{Client, Config, NoTls};

const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(10)).named("export");

fn config(port: u16) -> Config {
    url_at(port).parse().unwrap()
}

fn is_lost(answer: &Result<(), LockError>) -> bool {
    matches!(answer, Err(LockError::Lost { name: "export", reason: LossReason::Gone, .. }))
}

#[tokio::test]
async fn a_lock_of_a_session_excludes_until_it_is_released_or_dropped() {
    let server = PostgresServer::start_empty().await;
    let (config, key) = (config(server.port()), key("export"));
    let (mut other, driver) = config.connect(NoTls).await.unwrap();
    tokio::spawn(driver);
    let lock = session_lock(&config, &key, &POLICY).await.unwrap();
    lock.check().await.unwrap();
    let refusal = session_lock(&config, &key, &POLICY).await.unwrap_err();
    assert!(refusal.is_contended(), "{refusal:?}");
    let transaction = other.transaction().await.unwrap();
    assert!(lock_in(&transaction, &key, &POLICY).await.unwrap_err().is_contended());
    transaction.rollback().await.unwrap();
    lock.release().await.unwrap();
    let lock = session_lock(&config, &key, &POLICY).await.unwrap();
    drop(lock);
    until("it is free", async || session_lock(&config, &key, &POLICY).await.is_ok()).await;
}

#[tokio::test]
async fn who_waits_for_a_session_gets_the_lock_or_learns_in_time_whatever_the_role_has_set() {
    let server = PostgresServer::start_empty().await;
    let raw = server.raw().await;
    raw.batch_execute("ALTER ROLE app SET statement_timeout = 50; ALTER ROLE app SET lock_timeout = 50")
        .await
        .unwrap();
    let (config, key) = (config(server.port()), key("export"));
    let lock = session_lock(&config, &key, &POLICY).await.unwrap();
    let (start, wait) = (Instant::now(), Duration::from_millis(300));
    let refusal = session_lock(&config, &key, &POLICY.wait(wait)).await.unwrap_err();
    assert!(matches!(refusal, LockError::Contended { waited, .. } if waited >= wait), "{refusal:?}");
    assert!(start.elapsed() < wait + Duration::from_secs(2));
    for policy in [POLICY.wait(Duration::from_secs(20)), POLICY.wait_forever()] {
        let held = session_lock(&config, &self::key("next"), &POLICY).await.unwrap();
        let waiting = tokio::spawn({
            let (config, key) = (config.clone(), self::key("next"));
            async move { session_lock(&config, &key, &policy).await.map(|lock| (lock, Instant::now())) }
        });
        let waits = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        until("it waits", async || !raw.query(waits, &[]).await.unwrap().is_empty()).await;
        // For longer than the role's own bounds.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let released = Instant::now();
        held.release().await.unwrap();
        let (next, got) = soon("the lock", waiting).await.unwrap().unwrap();
        assert!(got >= released);
        next.release().await.unwrap();
    }
    lock.check().await.unwrap();
}

#[tokio::test]
async fn a_wait_that_is_given_up_is_given_up_at_the_server_too() {
    let server = PostgresServer::start_empty().await;
    let (config, key, raw) = (config(server.port()), key("export"), server.raw().await);
    let lock = session_lock(&config, &key, &POLICY).await.unwrap();
    let waits = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    {
        let policy = POLICY.wait_forever();
        let waiting = pin!(session_lock(&config, &key, &policy));
        let seen = until("it waits", async || !raw.query(waits, &[]).await.unwrap().is_empty());
        tokio::select! {
            ended = waiting => panic!("{ended:?}"),
            () = seen => {}
        }
    }
    until("nobody waits", async || raw.query(waits, &[]).await.unwrap().is_empty()).await;
    lock.check().await.unwrap();
}

#[tokio::test]
async fn a_lock_is_lost_with_its_session_and_that_is_reported() {
    let server = PostgresServer::start_empty().await;
    let (config, key) = (config(server.port()), key("export"));
    let lock = session_lock(&config, &key, &POLICY).await.unwrap();
    assert!(timeout(Duration::from_millis(50), lock.lost()).await.is_err());
    server.terminate_sessions().await;
    soon("the loss", lock.lost()).await;
    assert!(is_lost(&lock.check().await));
    let next = session_lock(&config, &key, &POLICY).await.unwrap();
    assert!(is_lost(&lock.release().await));
    next.release().await.unwrap();
}

/// The server's last word is the answer to what was asked, and comes before the end of the connection.
#[tokio::test]
async fn a_session_that_is_ended_while_it_is_asked_is_lost() {
    let server = PostgresServer::start_empty().await;
    let (config, mut raw) = (config(server.port()), server.raw().await);
    for round in 0..5 {
        let lock = session_lock(&config, &key(&format!("export:{round}")), &POLICY).await.unwrap();
        let transaction = raw.transaction().await.unwrap();
        transaction.batch_execute("LOCK TABLE pg_locks").await.unwrap();
        let asking = tokio::spawn(async move { lock.check().await });
        let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE usename = 'app' AND wait_event_type = 'Lock'";
        until("it is asked", async || transaction.execute(ended, &[]).await.unwrap() > 0).await;
        let answer = soon("the end", asking).await.unwrap();
        assert!(is_lost(&answer), "{answer:?}");
        transaction.rollback().await.unwrap();
    }
}

/// In seconds, until the server asks the client of a connection for a sign of life; none while it waits for one.
fn asks_within(server: u16, client: u16) -> Option<u64> {
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let ends = format!("0100007F:{server:04X} 0100007F:{client:04X} ");
    let socket = sockets.lines().find(|line| line.contains(&ends)).unwrap();
    // The kind of timer, and when it is due, in hundredths.
    let hundredths = socket.split_whitespace().nth(5).unwrap().strip_prefix("02:")?;
    Some(u64::from_str_radix(hundredths, 16).unwrap() / 100)
}

#[tokio::test]
async fn the_server_asks_a_silent_client_for_a_sign_of_life() {
    let server = PostgresServer::start_empty().await;
    let (config, raw) = (config(server.port()), server.raw().await);
    let _lock = session_lock(&config, &key("export"), &POLICY).await.unwrap();
    let holder =
        "SELECT client_port FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory'";
    let port: i32 = raw.query_one(holder, &[]).await.unwrap().get(0);
    let within = async || asks_within(server.port(), port.try_into().unwrap());
    until("nothing is on its way", async || within().await.is_some()).await;
    assert!(within().await.is_none_or(|seconds| seconds <= 15), "{:?} s", within().await);
}

/// Its process has ended, say, so that it cannot ask the server to wait no longer.
#[tokio::test]
async fn a_client_that_is_gone_waits_no_longer_at_the_server() {
    let server = PostgresServer::start_empty().await;
    let (raw, key) = (server.raw().await, key("export"));
    let _held = session_lock(&config(server.port()), &key, &POLICY).await.unwrap();
    let proxy = Proxy::start(server.port(), 1).await;
    let behind = config(proxy.port());
    let waiting = tokio::spawn(async move { session_lock(&behind, &key, &POLICY.wait_forever()).await });
    let waits = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    until("it waits", async || !raw.query(waits, &[]).await.unwrap().is_empty()).await;
    proxy.set(Fault::Refuse);
    proxy.cut();
    assert!(soon("the end", waiting).await.unwrap().unwrap_err().is_unavailable());
    until("nobody waits", async || raw.query(waits, &[]).await.unwrap().is_empty()).await;
}

#[tokio::test]
async fn a_lock_is_lost_with_the_runtime_on_which_it_was_taken() {
    let server = PostgresServer::start_empty().await;
    let (config, key) = (config(server.port()), key("export"));
    let taken = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(session_lock(&config, &key, &POLICY)).unwrap()
    });
    let lock = taken.await.unwrap();
    soon("the loss", lock.lost()).await;
    assert!(is_lost(&lock.check().await));
}

#[tokio::test]
async fn a_server_that_is_silent_or_gone_is_unavailable() {
    let mut server = PostgresServer::start_empty().await;
    let proxy = Proxy::start(server.port(), 1).await;
    let (config, key) = (config(proxy.port()), key("export"));
    let lock = session_lock(&config, &key, &POLICY).await.unwrap();
    proxy.set(Fault::Silence);
    let start = Instant::now();
    let unknown = lock.check().await.unwrap_err();
    assert!(unknown.is_unavailable() && start.elapsed() < Duration::from_secs(4), "{unknown:?}");
    server.kill();
    let refusal = session_lock(&config, &key, &POLICY).await.unwrap_err();
    assert!(refusal.is_unavailable(), "{refusal:?}");
}

#[tokio::test]
async fn a_wait_whose_answer_never_comes_ends_in_time() {
    let server = PostgresServer::start_empty().await;
    let (raw, key) = (server.raw().await, key("export"));
    let _held = session_lock(&config(server.port()), &key, &POLICY).await.unwrap();
    let proxy = Proxy::start(server.port(), 1).await;
    let (behind, wait) = (config(proxy.port()), Duration::from_millis(500));
    let waiting = tokio::spawn(async move { session_lock(&behind, &key, &POLICY.wait(wait)).await });
    let waits = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    until("it waits", async || !raw.query(waits, &[]).await.unwrap().is_empty()).await;
    proxy.set(Fault::Silence);
    let refusal = soon("the end of the wait", waiting).await.unwrap().unwrap_err();
    assert!(refusal.is_unavailable(), "{refusal:?}");
}

/// Also while nobody else uses it, when it gives each statement to the same process.
#[tokio::test]
async fn a_pooler_that_shares_sessions_is_refused_before_anything_is_locked() {
    let service = PooledPostgres::start().await;
    let config: Config = service.url().split_once('?').unwrap().0.parse().unwrap();
    for _ in 0..5 {
        for policy in [POLICY, POLICY.wait(Duration::from_secs(1)), POLICY.wait_forever()] {
            let refusal = session_lock(&config, &key("export"), &policy).await.unwrap_err();
            let said = refusal.to_string();
            assert!(matches!(refusal, LockError::Unsupported { .. }) && said.contains("pooler"), "{said}");
        }
    }
    let raw = service.server().raw().await;
    let locks = raw.query("SELECT FROM pg_locks WHERE locktype = 'advisory'", &[]).await.unwrap();
    assert!(locks.is_empty());
}

async fn set(pooler: &PgBouncer, settings: &[&str]) {
    let (console, driver) = config(pooler.port()).dbname("pgbouncer").connect(NoTls).await.unwrap();
    tokio::spawn(driver);
    for setting in settings {
        console.batch_execute(&format!("SET {setting}")).await.unwrap();
    }
}

/// Gives each client of a pooler a process, so that there are so many, and looks whether its settings are those of the role.
async fn each_on_its_own(clients: &[Client]) {
    for client in clients {
        client.batch_execute("BEGIN").await.unwrap();
        let set: String = client.query_typed("SHOW statement_timeout", &[]).await.unwrap()[0].get(0);
        assert_eq!(set, "7s", "the pooler's other clients live with it");
    }
    for client in clients {
        client.batch_execute("ROLLBACK").await.unwrap();
    }
}

/// One that takes its processes in turn comes back to the first one after as many statements as it has processes.
#[tokio::test]
async fn a_pooler_that_takes_its_processes_in_turn_is_refused_too() {
    let server = PostgresServer::start_empty().await;
    server.raw().await.batch_execute("ALTER ROLE app SET statement_timeout = '7s'").await.unwrap();
    let pooler = PgBouncer::start(server.port()).await;
    let config = config(pooler.port());
    set(&pooler, &["server_round_robin = 1"]).await;
    let mut clients = Vec::new();
    for _ in 0..5 {
        let (client, driver) = config.connect(NoTls).await.unwrap();
        tokio::spawn(driver);
        clients.push(client);
        each_on_its_own(&clients).await;
        let refusal = session_lock(&config, &key("export"), &POLICY).await.unwrap_err();
        assert!(matches!(refusal, LockError::Unsupported { .. }), "{}: {refusal:?}", clients.len());
        each_on_its_own(&clients).await;
    }
    let locks = "SELECT FROM pg_locks WHERE locktype = 'advisory'";
    assert!(server.raw().await.query(locks, &[]).await.unwrap().is_empty());
}

/// The server counts how often a process takes its lock: it would have it twice.
#[tokio::test]
async fn a_process_that_has_the_lock_from_another_client_does_not_get_it_again() {
    let server = PostgresServer::start_empty().await;
    let pooler = PgBouncer::start(server.port()).await;
    set(&pooler, &["pool_mode = session", "server_reset_query = ''"]).await;
    let (config, key) = (config(pooler.port()), key("export"));
    let (other, driver) = config.connect(NoTls).await.unwrap();
    let driver = tokio::spawn(driver);
    let lock = format!("SELECT pg_advisory_lock({})", advisory_number(NAMESPACE, &key));
    other.batch_execute(&lock).await.unwrap();
    drop(other);
    soon("its end", driver).await.unwrap().unwrap();
    for policy in [POLICY, POLICY.wait(Duration::from_secs(1))] {
        let refusal = session_lock(&config, &key, &policy).await.unwrap_err();
        assert!(matches!(refusal, LockError::Unsupported { .. }), "{refusal:?}");
    }
    let lock = session_lock(&config, &self::key("another"), &POLICY).await.unwrap();
    lock.check().await.unwrap();
    lock.release().await.unwrap();
}

#[tokio::test]
async fn policies_that_a_session_cannot_meet_are_unsupported() {
    let server = PostgresServer::start_empty().await;
    for policy in [POLICY.require_fencing(), POLICY.min_hold(Duration::from_secs(1))] {
        let refusal = session_lock(&config(server.port()), &key("export"), &policy).await.unwrap_err();
        assert!(matches!(refusal, LockError::Unsupported { .. }), "{refusal:?}");
    }
}
