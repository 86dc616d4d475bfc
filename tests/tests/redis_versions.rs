//! A rolling deploy: processes of another version of this library on the same locks.
//!
//! `fixtures/scripts/<version>` holds the scripts as that version sent them, and they stay as they are. Version
//! 0.0 was never released: it kept its fencing tokens in strings. A release that has changed a script adds its
//! texts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use lockrt::testing::{claim, waiting_claim};
use lockrt::{Attempt, Backend, Claim, Redis, Released, Renewed};
use lockrt_tests::{RedisServer, granted, key};
use redis::Value;
use redis::aio::MultiplexedConnection;

const TTL: Duration = Duration::from_secs(30);

/// The scripts of one version.
struct Scripts {
    version: &'static str,
    acquire: &'static str,
    renew: &'static str,
    release: &'static str,
    /// What the names of its keys with fencing tokens end in.
    fences: &'static str,
}

macro_rules! scripts {
    ($($version:literal: $fences:literal),+) => {
        [$(Scripts {
            version: $version,
            acquire: include_str!(concat!("../fixtures/scripts/", $version, "/acquire.lua")),
            renew: include_str!(concat!("../fixtures/scripts/", $version, "/renew.lua")),
            release: include_str!(concat!("../fixtures/scripts/", $version, "/release.lua")),
            fences: $fences,
        }),+]
    };
}

static VERSIONS: [Scripts; 1] = scripts!["0.0": ":fence"];

/// A client of another version.
struct Old<'a> {
    scripts: &'a Scripts,
    connection: MultiplexedConnection,
    fence: String,
}

impl<'a> Old<'a> {
    /// Uses the fence of the one lock that has been granted so far.
    async fn start(scripts: &'a Scripts, server: &RedisServer) -> Self {
        let mut connection = server.raw().await;
        let fences: Vec<String> =
            redis::cmd("KEYS").arg("*:fencing").query_async(&mut connection).await.unwrap();
        let fence = format!("{}{}", fences[0].strip_suffix(":fencing").unwrap(), scripts.fences);
        Self { scripts, connection, fence }
    }

    async fn eval(&mut self, script: &str, keys: &[&str], arguments: &[&str]) -> Value {
        let mut call = redis::cmd("EVAL");
        call.arg(script).arg(keys.len()).arg(keys).arg(arguments);
        call.query_async(&mut self.connection).await.unwrap()
    }

    /// The token of a grant; none if the lock is held.
    async fn acquire(&mut self, claim: &Claim) -> Option<u64> {
        let fence = self.fence.clone();
        let (owner, ttl) = (claim.owner().wire(), claim.ttl().as_millis().to_string());
        match self.eval(self.scripts.acquire, &[claim.key().as_str(), &fence], &[&owner, &ttl]).await {
            Value::BulkString(token) => Some(String::from_utf8(token).unwrap().parse().unwrap()),
            Value::Int(left) => {
                assert!(left > 0, "a holder without an expiry");
                None
            }
            other => panic!("{other:?}"),
        }
    }

    async fn renews(&mut self, claim: &Claim) -> bool {
        let (owner, ttl) = (claim.owner().wire(), claim.ttl().as_millis().to_string());
        let answer = self.eval(self.scripts.renew, &[claim.key().as_str()], &[&owner, &ttl]).await;
        answer == Value::Array(vec![Value::Int(1)])
    }

    async fn releases(&mut self, claim: &Claim) -> bool {
        let owner = claim.owner().wire();
        self.eval(self.scripts.release, &[claim.key().as_str()], &[&owner]).await == Value::Int(1)
    }
}

/// A server on which `lock` was granted once, so that its fence exists; a client of this version.
async fn used(lock: &str) -> (RedisServer, Redis) {
    let server = RedisServer::start();
    let new = Redis::from_url(&server.url()).unwrap();
    let first = claim(&key(lock), TTL);
    granted(&new, &first).await;
    assert_eq!(new.release(&first).await.unwrap(), Released::Freed);
    (server, new)
}

#[tokio::test]
async fn a_lock_of_an_older_version_is_held_for_this_one() {
    for scripts in &VERSIONS {
        let (server, new) = used("orders").await;
        let mut old = Old::start(scripts, &server).await;
        let (theirs, ours) = (claim(&key("orders"), TTL), claim(&key("orders"), TTL));
        let token = old.acquire(&theirs).await.expect(scripts.version);
        let attempt = new.try_acquire(&ours).await.unwrap();
        assert!(matches!(attempt, Attempt::Held { free_in: Some(left) } if left <= TTL), "{attempt:?}");
        assert!(matches!(new.renew(&[&ours]).await[..], [Renewed::Gone]));
        assert_eq!(new.release(&ours).await.unwrap(), Released::NotHeld);
        assert!(old.renews(&theirs).await && old.releases(&theirs).await, "{}", scripts.version);
        assert!(granted(&new, &ours).await > token, "{}", scripts.version);
    }
}

#[tokio::test]
async fn a_lock_of_this_version_is_held_for_an_older_one() {
    for scripts in &VERSIONS {
        let (server, new) = used("orders").await;
        let mut old = Old::start(scripts, &server).await;
        let (theirs, ours) = (claim(&key("orders"), TTL), claim(&key("orders"), TTL));
        let token = granted(&new, &ours).await;
        assert_eq!(old.acquire(&theirs).await, None, "{}", scripts.version);
        assert!(!old.renews(&theirs).await && !old.releases(&theirs).await, "{}", scripts.version);
        assert!(matches!(new.renew(&[&ours]).await[..], [Renewed::Extended]));
        assert_eq!(new.release(&ours).await.unwrap(), Released::Freed);
        assert!(old.acquire(&theirs).await.expect(scripts.version) > token);
    }
}

#[tokio::test]
async fn a_claim_may_change_versions() {
    for scripts in &VERSIONS {
        let (server, new) = used("orders").await;
        let mut old = Old::start(scripts, &server).await;
        let owner = claim(&key("orders"), TTL);
        let first = old.acquire(&owner).await.expect(scripts.version);
        assert!(granted(&new, &owner).await >= first, "the same claim is one grant");
        assert!(old.renews(&owner).await, "{}", scripts.version);
        assert_eq!(new.release(&owner).await.unwrap(), Released::Freed);
        assert!(!old.releases(&owner).await);
    }
}

#[tokio::test]
async fn a_release_by_an_older_version_lets_a_waiter_of_this_one_in_at_its_next_look() {
    for scripts in &VERSIONS {
        let (server, new) = used("orders").await;
        let mut old = Old::start(scripts, &server).await;
        let (theirs, ours) = (claim(&key("orders"), TTL), waiting_claim(&key("orders"), TTL));
        old.acquire(&theirs).await.expect(scripts.version);
        assert!(matches!(new.try_acquire(&ours).await.unwrap(), Attempt::Held { .. }));
        // It knows nothing of queues, so nobody is told: waiters look by themselves.
        assert!(old.releases(&theirs).await);
        granted(&new, &ours).await;
    }
}
