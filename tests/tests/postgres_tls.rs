//! PostgreSQL over TLS: that all of it is, and that no other server than the one meant is told anything.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::pin::pin;
use std::process::Command;
use std::time::Duration;

use lockrt::postgres::session_lock;
use lockrt::testing::{claim, waiting_claim};
use lockrt::{
    Attempt, Backend as _, LockError, LockManager, LockPolicy, Outcome, Postgres, Released, Renewed,
    SetupError,
};
use lockrt_tests::{
    Authority, PgBouncer, PostgresServer, SecuredPostgres, Tap, granted, key, refused, soon, until,
};

const TTL: Duration = Duration::from_secs(30);
const POLICY: LockPolicy = LockPolicy::new(TTL).named("export");

/// What a client that wants TLS asks first, and all that it may say in clear text: its length, and the number of the
/// request.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// The first byte of a handshake.
const HANDSHAKE: u8 = 22;

fn at(url: &str) -> Postgres {
    Postgres::from_url(url).unwrap()
}

/// Whether the sessions of the role at the server are all encrypted, and that there are some.
async fn all_encrypted(server: &PostgresServer) -> bool {
    let sessions = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'app'";
    let sessions = server.raw().await.query(sessions, &[]).await.unwrap();
    !sessions.is_empty() && sessions.iter().all(|session| session.get(0))
}

/// What the backend says of a server, for good, before it has told it anything.
async fn untrusted(url: &str) -> String {
    let error = refused(&at(url), &claim(&key("orders"), TTL)).await;
    assert!(error.is_permanent() && error.outcome() == Outcome::NotApplied, "{error}");
    assert!(!error.to_string().contains("sesame"), "{error}");
    error.to_string()
}

/// Runs a test in a process of its own, whose system trusts the authorities in this file and no others.
async fn run_again(test: &str, url: &str, authorities: &Path) {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", test, "--nocapture"]).env("LOCKRT_TEST_URL", url);
    again.env("SSL_CERT_FILE", authorities).env_remove("SSL_CERT_DIR");
    let ended = tokio::task::spawn_blocking(move || again.output()).await.unwrap().unwrap();
    let told = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && told.contains("1 passed"), "{told}");
}

#[tokio::test]
async fn locks_are_given_renewed_and_released_over_tls_and_a_waiter_hears_of_it() {
    let secured = SecuredPostgres::start().await;
    let tap = Tap::start(secured.server().port()).await;
    let (one, two) = (at(&secured.url_at(tap.port())), at(&secured.url_at(tap.port())));
    let (holder, waiter) = (claim(&key("orders"), TTL), waiting_claim(&key("orders"), TTL));
    let first = granted(&one, &holder).await;
    assert!(matches!(two.try_acquire(&waiter).await, Ok(Attempt::Held { .. })));
    assert!(matches!(one.renew(&[&holder]).await[..], [Renewed::Extended]));
    assert!(all_encrypted(secured.server()).await);
    let mut freed = pin!(two.freed(&waiter));
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut freed).await.is_err());
    assert_eq!(one.release(&holder).await.unwrap(), Released::Freed);
    soon("a wake-up", freed).await;
    assert!(granted(&two, &waiter).await > first);
    for sent in tap.sent() {
        assert_eq!((&sent[..8], sent[8]), (&SSL_REQUEST[..], HANDSHAKE));
        assert!(!sent.windows(6).any(|part| part == b"locks " || part == b"orders"));
    }
}

#[tokio::test]
async fn a_manager_works_over_tls_in_all_three_modes_and_logs_in_bound_to_the_channel() {
    let secured = SecuredPostgres::start().await;
    for mode in ["require", "verify-ca", "verify-full", "verify-full&channel_binding=require"] {
        let url = secured.url().replace("sslmode=verify-full", &format!("sslmode={mode}"));
        let manager = LockManager::from_url(&url).await.unwrap();
        let encrypted =
            manager.run(&key("orders"), &POLICY, async |_| all_encrypted(secured.server()).await).await;
        assert!(encrypted.unwrap(), "{mode}");
    }
}

#[tokio::test]
async fn a_server_that_an_unknown_authority_vouches_for_is_refused_in_every_mode() {
    let secured = SecuredPostgres::start().await;
    let stranger = SecuredPostgres::start_as(|authority| authority.identity(SecuredPostgres::HOST)).await;
    for mode in ["require", "verify-ca", "verify-full"] {
        let url = secured.url_at(stranger.server().port()).replace("verify-full", mode);
        let said = untrusted(&url).await;
        assert!(said.contains("no authority that is trusted here") && said.contains("sslrootcert"), "{said}");
    }
    // Nor does the system trust it.
    let url = secured.url_for(SecuredPostgres::HOST, secured.server().port());
    let said = untrusted(&format!("{url}&sslmode=require")).await;
    assert!(said.contains("no authority that is trusted here"), "{said}");
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused_in_every_mode() {
    let secured = SecuredPostgres::start().await;
    for mode in ["require", "verify-ca", "verify-full"] {
        for host in ["127.0.0.1", "other.lockrt.test"] {
            let url = secured.url().replace(SecuredPostgres::HOST, host).replace("verify-full", mode);
            let said = untrusted(&url).await;
            assert!(said.contains("for another host"), "{mode}, {host}: {said}");
        }
    }
}

#[tokio::test]
async fn an_address_in_the_certificate_is_a_host_too() {
    let secured = SecuredPostgres::start_as(|authority| authority.identity("127.0.0.1")).await;
    at(&secured.url().replace(SecuredPostgres::HOST, "127.0.0.1")).migrate().await.unwrap();
}

/// The commonest one that is made by hand, trusted by its own file.
#[tokio::test]
async fn a_certificate_of_an_authority_is_no_servers() {
    let itself = Authority::itself(SecuredPostgres::HOST);
    let secured = SecuredPostgres::start_as(|authority| {
        std::fs::write(authority.file(), itself.certificate()).unwrap();
        itself
    })
    .await;
    let said = untrusted(&secured.url()).await;
    assert!(said.contains("is that of an authority"), "{said}");
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_refused() {
    let secured = SecuredPostgres::start_as(|authority| authority.expired(SecuredPostgres::HOST)).await;
    let said = untrusted(&secured.url()).await;
    assert!(said.contains("has expired"), "{said}");
}

#[tokio::test]
async fn a_server_without_tls_hears_nothing_but_the_question_for_it() {
    let (server, secured) = (PostgresServer::start().await, SecuredPostgres::start().await);
    let tap = Tap::start(server.port()).await;
    let url = secured.url_at(tap.port());
    let said = untrusted(&url).await;
    assert!(said.contains("does not speak TLS"), "{said}");
    let migrated = at(&url).migrate().await.unwrap_err().to_string();
    assert!(migrated.contains("does not speak TLS"), "{migrated}");
    let locked = at(&url).session_lock(&key("export"), &POLICY).await.unwrap_err();
    assert!(locked.to_string().contains("does not speak TLS"), "{locked}");
    let connected = LockManager::from_url(&url).await.unwrap_err();
    assert!(matches!(connected, SetupError::Unavailable { .. }), "{connected}");
    assert_eq!(tap.sent(), [SSL_REQUEST; 4]);
}

/// It may be better in a moment.
#[tokio::test]
async fn a_handshake_that_breaks_off_is_no_fault_of_the_set_up() {
    let secured = SecuredPostgres::start().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = secured.url_at(listener.local_addr().unwrap().port());
    let breaking = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (mut client, _) = listener.accept().await.unwrap();
        client.read_exact(&mut [0; 8]).await.unwrap();
        client.write_all(b"S").await.unwrap();
    });
    let error = refused(&at(&url), &claim(&key("orders"), TTL)).await;
    breaking.await.unwrap();
    assert!(!error.is_permanent() && error.outcome() == Outcome::NotApplied, "{error}");
    assert!(error.to_string().contains("cannot reach PostgreSQL: error performing TLS handshake"), "{error}");
}

#[tokio::test]
async fn a_lock_of_a_session_is_taken_and_given_up_over_tls_and_so_is_a_wait() {
    let secured = SecuredPostgres::start().await;
    let tap = Tap::start(secured.server().port()).await;
    let (raw, postgres) = (secured.server().raw().await, at(&secured.url_at(tap.port())));
    let lock = postgres.session_lock(&key("export"), &POLICY).await.unwrap();
    assert!(all_encrypted(secured.server()).await);
    let waits = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    {
        let (key, policy) = (key("export"), POLICY.wait_forever());
        let waiting = pin!(postgres.session_lock(&key, &policy));
        let seen = until("it waits", async || !raw.query(waits, &[]).await.unwrap().is_empty());
        tokio::select! {
            ended = waiting => panic!("{ended:?}"),
            () = seen => {}
        }
    }
    until("nobody waits", async || raw.query(waits, &[]).await.unwrap().is_empty()).await;
    lock.check().await.unwrap();
    lock.release().await.unwrap();
    let sent = tap.sent();
    // Two each to look for a pooler, and one to cancel.
    assert_eq!(sent.len(), 5);
    assert!(sent.iter().all(|sent| sent[..8] == SSL_REQUEST && sent[8] == HANDSHAKE), "{sent:?}");
}

/// In a process of its own, whose system trusts the authority.
#[tokio::test]
async fn a_configuration_of_the_driver_that_requires_tls_goes_by_whom_the_system_trusts() {
    const TEST: &str = "a_configuration_of_the_driver_that_requires_tls_goes_by_whom_the_system_trusts";
    if let Ok(url) = std::env::var("LOCKRT_TEST_URL") {
        let config: tokio_postgres::Config = url.parse().unwrap();
        Postgres::from_config(config.clone()).unwrap().migrate().await.unwrap();
        session_lock(&config, &key("export"), &POLICY).await.unwrap().release().await.unwrap();
        return;
    }
    let secured = SecuredPostgres::start().await;
    let url = secured.url_for(SecuredPostgres::HOST, secured.server().port()) + "&sslmode=require";
    let refusal = session_lock(&url.parse().unwrap(), &key("export"), &POLICY).await.unwrap_err();
    assert!(refusal.to_string().contains("no authority that is trusted here"), "{refusal}");
    run_again(TEST, &url, &secured.authority().file()).await;
}

#[tokio::test]
async fn a_system_that_trusts_nobody_and_a_file_that_is_not_there_are_refused_at_the_start() {
    const TEST: &str = "a_system_that_trusts_nobody_and_a_file_that_is_not_there_are_refused_at_the_start";
    if let Ok(url) = std::env::var("LOCKRT_TEST_URL") {
        let refusal = Postgres::from_url(&url).unwrap_err().to_string();
        assert!(refusal.contains("the system has no trusted certificates"), "{refusal}");
        return;
    }
    let refusal = Postgres::from_url("postgres://u:s3cret@h/d?sslmode=require&sslrootcert=/nowhere/ca.pem");
    let refusal = refusal.unwrap_err().to_string();
    assert!(
        refusal.contains("`/nowhere/ca.pem`, cannot be read") && !refusal.contains("s3cret"),
        "{refusal}"
    );
    run_again(TEST, "postgres://h/d?sslmode=require", Path::new("/dev/null")).await;
}

/// As one that is replaced while the service runs.
#[tokio::test]
async fn the_file_of_authorities_is_read_at_the_start_alone() {
    let secured = SecuredPostgres::start().await;
    let postgres = at(&secured.url());
    std::fs::remove_file(secured.authority().file()).unwrap();
    postgres.migrate().await.unwrap();
    postgres.session_lock(&key("export"), &POLICY).await.unwrap().release().await.unwrap();
    granted(&postgres, &claim(&key("orders"), TTL)).await;
}

#[tokio::test]
async fn a_pooler_speaks_tls_as_a_server_does() {
    let (server, authority) = (PostgresServer::start().await, Authority::create());
    let pooler = PgBouncer::start_secured(server.port(), &authority.identity("localhost")).await;
    let tap = Tap::start(pooler.port()).await;
    let (host, file) = (format!("localhost:{}", tap.port()), authority.file());
    let url = format!(
        "postgres://app@{host}/app?hostaddr=127.0.0.1&pooler=transaction&sslmode=verify-full&sslrootcert={}",
        file.display()
    );
    let (client, holder) = (at(&url), claim(&key("orders"), TTL));
    granted(&client, &holder).await;
    assert_eq!(client.release(&holder).await.unwrap(), Released::Freed);
    assert!(tap.sent().iter().all(|sent| sent[..8] == SSL_REQUEST && sent[8] == HANDSHAKE));
    let said = untrusted(&url.replace("localhost", "other.lockrt.test")).await;
    assert!(said.contains("for another host"), "{said}");
}

#[tokio::test]
async fn who_comes_in_clear_text_where_tls_is_demanded_learns_what_to_write() {
    let secured = SecuredPostgres::start().await;
    let said = untrusted(&secured.url_for(SecuredPostgres::HOST, secured.server().port())).await;
    assert!(said.contains("demands TLS") && said.contains("sslmode=verify-full"), "{said}");
    let wrong = untrusted(&secured.url().replace("sesame", "says-me")).await;
    assert!(wrong.contains("password is wrong"), "{wrong}");
    let error = LockManager::from_url(&secured.url().replace("sesame", "says-me")).await.unwrap_err();
    assert!(!error.to_string().contains("says-me"), "{error}");
}

#[tokio::test]
async fn a_lock_that_needs_tls_says_so_in_the_error_of_the_lock() {
    let server = PostgresServer::start().await;
    let url = format!("postgres://app@localhost:{}/app?hostaddr=127.0.0.1&sslmode=require", server.port());
    let manager = LockManager::builder().build(at(&url)).unwrap();
    let refusal = manager.acquire(&key("orders"), &POLICY).await.unwrap_err();
    assert!(matches!(refusal, LockError::Unavailable { .. }), "{refusal:?}");
    assert!(refusal.to_string().contains("does not speak TLS"), "{refusal}");
}
