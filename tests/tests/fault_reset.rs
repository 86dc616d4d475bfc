//! Connections that are reset within an answer, after each of its bytes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use lockrt::testing::claim;
use lockrt::{Attempt, Backend, Claim, Outcome, Redis, Released, Renewed};
use lockrt_tests::{Fault, Proxy, RedisServer, granted, key, refused};
use redis::AsyncCommands as _;

const TTL: Duration = Duration::from_secs(30);

/// How long the answer of each call is on the wire: `_`, `:1`; `$16`, a token; `$1`, `1`; and `:1`.
const FIRST_GRANT: u64 = 3 + 4;
const GRANT: u64 = 5 + 18;
const RENEWAL: u64 = 4 + 3;
const RELEASE: u64 = 4;

async fn connected() -> (RedisServer, Proxy, Redis) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let client = Redis::from_url(&proxy.url()).unwrap();
    granted(&client, &claim(&key("warm"), TTL)).await;
    (server, proxy, client)
}

/// Resets the connection after each byte of the answer to an attempt, which has `bytes` of them.
async fn half_is_no_grant(connected: &(RedisServer, Proxy, Redis), bytes: u64, before: impl AsyncFn(&Claim)) {
    let (server, proxy, client) = connected;
    let mut raw = server.raw().await;
    for after_bytes in 0..bytes {
        let owner = claim(&key(&format!("orders:{bytes}:{after_bytes}")), TTL);
        before(&owner).await;
        proxy.set(Fault::ResetInReply { after_bytes });
        let error = refused(client, &owner).await;
        assert_eq!(error.outcome(), Outcome::Unknown, "after {after_bytes} bytes: {error}");
        assert_eq!(raw.get::<_, String>(owner.key().as_str()).await.unwrap(), owner.owner().wire());
        let token = granted(client, &owner).await;
        assert_eq!(token.to_string().len(), 16);
        assert!(matches!(client.try_acquire(&claim(owner.key(), TTL)).await.unwrap(), Attempt::Held { .. }));
    }
    // All of it is an answer, whatever becomes of the connection.
    let whole = claim(&key(&format!("whole:{bytes}")), TTL);
    before(&whole).await;
    proxy.set(Fault::ResetInReply { after_bytes: bytes });
    granted(client, &whole).await;
}

#[tokio::test]
async fn half_of_a_first_attempts_grant_is_no_grant_and_the_whole_is_told_when_asked_again() {
    let connected = connected().await;
    // The first token of a slot is asked for by the script.
    let was_free = async |owner: &Claim| {
        let former = claim(owner.key(), TTL);
        granted(&connected.2, &former).await;
        assert_eq!(connected.2.release(&former).await.unwrap(), Released::Freed);
    };
    half_is_no_grant(&connected, FIRST_GRANT, was_free).await;
}

#[tokio::test]
async fn half_of_a_grant_is_no_grant_and_the_whole_is_told_when_asked_again() {
    let connected = connected().await;
    // A lock that was met held is asked for by the script for a second.
    let was_held = async |owner: &Claim| {
        let holder = claim(owner.key(), TTL);
        granted(&connected.2, &holder).await;
        assert!(matches!(connected.2.try_acquire(owner).await.unwrap(), Attempt::Held { .. }));
        assert_eq!(connected.2.release(&holder).await.unwrap(), Released::Freed);
    };
    half_is_no_grant(&connected, GRANT, was_held).await;
}

#[tokio::test]
async fn half_of_a_renewals_answer_is_unknown_and_never_gone() {
    let (_server, proxy, client) = connected().await;
    let owner = claim(&key("orders"), TTL);
    for after_bytes in 0..=RENEWAL {
        // Connects.
        granted(&client, &owner).await;
        proxy.set(Fault::ResetInReply { after_bytes });
        let answers = client.renew(&[&owner]).await;
        if after_bytes < RENEWAL {
            assert!(matches!(&answers[..], [Renewed::Unknown(_)]), "after {after_bytes} bytes: {answers:?}");
        } else {
            assert!(matches!(&answers[..], [Renewed::Extended]), "{answers:?}");
        }
    }
    granted(&client, &owner).await;
    assert_eq!(client.release(&owner).await.unwrap(), Released::Freed);
}

#[tokio::test]
async fn half_of_a_releases_answer_is_unknown_and_repeating_it_is_harmless() {
    let (server, proxy, client) = connected().await;
    let mut raw = server.raw().await;
    for after_bytes in 0..RELEASE {
        let (owner, next) = (claim(&key("orders"), TTL), claim(&key("orders"), TTL));
        granted(&client, &owner).await;
        proxy.set(Fault::ResetInReply { after_bytes });
        let error = client.release(&owner).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown, "after {after_bytes} bytes: {error}");
        granted(&client, &next).await;
        assert_eq!(client.release(&owner).await.unwrap(), Released::NotHeld);
        assert_eq!(raw.get::<_, String>("orders").await.unwrap(), next.owner().wire());
        assert_eq!(client.release(&next).await.unwrap(), Released::Freed);
    }
}
