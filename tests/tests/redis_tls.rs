//! Redis over TLS: that all of it is, and that no other server than the one meant is told anything.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::pin::pin;
use std::time::Duration;

use lockrt::testing::{claim, waiting_claim};
use lockrt::{Attempt, Backend as _, LockManager, LockPolicy, Outcome, Redis, Released, Renewed};
use lockrt_tests::{RedisServer, SecuredRedis, Tap, granted, key, refused, soon, until};

const TTL: Duration = Duration::from_secs(30);

/// The first byte of a handshake.
const HANDSHAKE: u8 = 22;

fn at(url: &str) -> Redis {
    Redis::from_url(url).unwrap()
}

/// Whether all that was sent is TLS, and tells nothing to who listens.
fn all_encrypted(tap: &Tap) -> bool {
    let told = |sent: &[u8], word: &[u8]| sent.windows(word.len()).any(|part| part == word);
    let secret = |sent: &Vec<u8>| sent[0] == HANDSHAKE && !told(sent, b"sesame") && !told(sent, b"orders");
    !tap.sent().is_empty() && tap.sent().iter().all(secret)
}

/// What the backend says of a server, for good, before it has told it anything.
async fn untrusted(url: &str) -> String {
    let error = refused(&at(url), &claim(&key("orders"), TTL)).await;
    assert!(error.is_permanent() && error.outcome() == Outcome::NotApplied, "{error}");
    assert!(!error.to_string().contains("sesame"), "{error}");
    error.to_string()
}

/// How many clients the server has beside the one that asks.
async fn clients(server: &RedisServer) -> u64 {
    let info: redis::InfoDict =
        redis::cmd("INFO").arg("clients").query_async(&mut server.raw().await).await.unwrap();
    info.get::<u64>("connected_clients").unwrap() - 1
}

#[tokio::test]
async fn locks_are_given_renewed_and_released_over_tls_and_a_waiter_hears_of_it() {
    let secured = SecuredRedis::start();
    let tap = Tap::start(secured.port()).await;
    let (one, two) = (at(&secured.url_at(tap.port())), at(&secured.url_at(tap.port())));
    let (holder, waiter) = (claim(&key("orders"), TTL), waiting_claim(&key("orders"), TTL));
    let first = granted(&one, &holder).await;
    assert!(matches!(two.try_acquire(&waiter).await, Ok(Attempt::Held { .. })));
    assert!(matches!(one.renew(&[&holder]).await[..], [Renewed::Extended]));
    let mut freed = pin!(two.freed(&waiter));
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut freed).await.is_err());
    assert_eq!(one.release(&holder).await.unwrap(), Released::Freed);
    soon("a wake-up", freed).await;
    assert!(granted(&two, &waiter).await > first);
    assert!(tap.sent().len() == 2 && all_encrypted(&tap));
}

/// The keeper's and that of a runtime of many locks.
#[tokio::test]
async fn both_kinds_of_connections_are_tls_and_end_with_their_manager() {
    const POLICY: LockPolicy = LockPolicy::new(TTL);
    let secured = SecuredRedis::start();
    let tap = Tap::start(secured.port()).await;
    let manager = LockManager::from_url(&secured.url_at(tap.port())).await.unwrap();
    until("this runtime has its own", async || {
        for _ in 0..10 {
            let guard = manager.acquire(&key("orders"), &POLICY).await.unwrap();
            assert_eq!(guard.release().await, Released::Freed);
        }
        clients(secured.server()).await == 2
    })
    .await;
    assert!(tap.sent().len() == 2 && all_encrypted(&tap));
    drop(manager);
    until("all have ended", async || clients(secured.server()).await == 0).await;
}

#[tokio::test]
async fn a_connection_that_ends_is_noticed_and_the_next_one_is_tls_too() {
    let secured = SecuredRedis::start();
    let tap = Tap::start(secured.port()).await;
    let (client, holder) = (at(&secured.url_at(tap.port())), claim(&key("orders"), TTL));
    granted(&client, &holder).await;
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL").arg("USER").arg("app");
    let killed: u64 = kill.query_async(&mut secured.server().raw().await).await.unwrap();
    assert_eq!(killed, 1);
    let renewed = async || matches!(client.renew(&[&holder]).await[..], [Renewed::Extended]);
    until("it is renewed on another one", renewed).await;
    assert!(tap.sent().len() == 2 && all_encrypted(&tap));
}

#[tokio::test]
async fn a_server_that_an_unknown_authority_vouches_for_is_refused() {
    let (secured, stranger) = (SecuredRedis::start(), SecuredRedis::start());
    let url = secured.url_at(stranger.port());
    for url in [url.as_str(), stranger.url_at(stranger.port()).split_once('?').unwrap().0] {
        let said = untrusted(url).await;
        assert!(said.contains("no authority that is trusted here") && said.contains("sslrootcert"), "{said}");
    }
}

#[tokio::test]
async fn a_certificate_for_another_host_and_one_that_has_expired_are_refused() {
    let secured = SecuredRedis::start();
    let said = untrusted(&secured.url_at(secured.port()).replace("localhost", "127.0.0.1")).await;
    assert!(said.contains("for another host"), "{said}");
    let secured = SecuredRedis::start_as(|authority| authority.expired(SecuredRedis::HOST), &[]);
    let said = untrusted(&secured.url_at(secured.port())).await;
    assert!(said.contains("has expired"), "{said}");
}

#[tokio::test]
async fn a_server_without_tls_hears_nothing_but_a_handshake() {
    let (server, secured) = (RedisServer::start(), SecuredRedis::start());
    let tap = Tap::start(server.port()).await;
    let error = refused(&at(&secured.url_at(tap.port())), &claim(&key("orders"), TTL)).await;
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
    assert!(error.to_string().contains("cannot reach Redis"), "{error}");
    assert!(error.to_string().contains("perhaps the server speaks no TLS at this port"), "{error}");
    assert!(all_encrypted(&tap));
}

#[tokio::test]
async fn clear_text_to_a_port_for_tls_is_told_to_be_that_perhaps() {
    let secured = SecuredRedis::start();
    let clear = format!("redis://localhost:{}", secured.port());
    let error = refused(&at(&clear), &claim(&key("orders"), TTL)).await;
    assert!(error.to_string().contains("perhaps it wants TLS: `rediss://`"), "{error}");
}

#[tokio::test]
async fn a_server_that_asks_for_the_clients_certificate_is_named_as_such() {
    let ask = ["--tls-auth-clients", "yes"];
    let secured = SecuredRedis::start_as(|authority| authority.identity(SecuredRedis::HOST), &ask);
    let error = refused(&at(&secured.url_at(secured.port())), &claim(&key("orders"), TTL)).await;
    assert!(error.to_string().contains("CertificateRequired"), "{error}");
}
