//! Calls that must be answered, and what the cases share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::backend::contract::Backend;
use crate::claim::{Attempt, Claim, Released, Renewed};
use crate::key::LockKey;
use crate::token::FencingToken;

/// A TTL that does not end during a test.
pub(super) const LONG: Duration = Duration::from_secs(60);

/// A TTL whose end a test waits for; long enough for a few calls on a busy machine.
pub(super) const SHORT: Duration = Duration::from_millis(800);

/// How long anything may take that should take next to no time.
pub(super) const SOON: Duration = Duration::from_secs(5);

/// A key that no other case, and no other run on the same server, uses.
pub(super) fn key(name: &str) -> LockKey {
    static KEYS: AtomicU64 = AtomicU64::new(0);
    let run = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let number = KEYS.fetch_add(1, Ordering::Relaxed);
    named(&format!("{name}:{}:{number}", run.as_nanos()))
}

pub(super) fn named(text: &str) -> LockKey {
    match LockKey::new(text) {
        Ok(key) => key,
        Err(error) => panic!("{error}"),
    }
}

pub(super) async fn attempted(client: &impl Backend, claim: &Claim) -> Attempt {
    match client.try_acquire(claim).await {
        Ok(attempt) => attempt,
        Err(error) => panic!("an attempt was not answered: {error}"),
    }
}

pub(super) async fn granted(client: &impl Backend, claim: &Claim) -> Option<FencingToken> {
    match attempted(client, claim).await {
        Attempt::Granted { fencing } => fencing,
        Attempt::Held { free_in } => panic!("the key should be free and is held for {free_in:?}"),
    }
}

pub(super) async fn held(client: &impl Backend, claim: &Claim) -> Option<Duration> {
    match attempted(client, claim).await {
        Attempt::Held { free_in } => free_in,
        Attempt::Granted { .. } => panic!("two owners hold one key"),
    }
}

pub(super) async fn released(client: &impl Backend, claim: &Claim) -> Released {
    match client.release(claim).await {
        Ok(released) => released,
        Err(error) => panic!("a release was not answered: {error}"),
    }
}

pub(super) async fn freed(client: &impl Backend, claim: &Claim) {
    assert_eq!(released(client, claim).await, Released::Freed);
}

pub(super) async fn renewed(client: &impl Backend, claims: &[&Claim]) -> Vec<Renewed> {
    let answers = client.renew(claims).await;
    assert_eq!(answers.len(), claims.len(), "one answer per claim");
    answers
}

pub(super) async fn extended(client: &impl Backend, claim: &Claim) {
    let answers = renewed(client, &[claim]).await;
    assert!(matches!(answers[0], Renewed::Extended), "{answers:?}");
}

pub(super) async fn gone(client: &impl Backend, claim: &Claim) {
    let answers = renewed(client, &[claim]).await;
    assert!(matches!(answers[0], Renewed::Gone), "{answers:?}");
}

/// Attempts until granted. Gives the time it took.
pub(super) async fn granted_soon(client: &impl Backend, claim: &Claim) -> (Duration, Option<FencingToken>) {
    let start = Instant::now();
    loop {
        if let Attempt::Granted { fencing } = attempted(client, claim).await {
            return (start.elapsed(), fencing);
        }
        assert!(start.elapsed() < SOON, "the key has not become free");
        sleep(Duration::from_millis(2)).await;
    }
}

/// Lets `ttl`, counted from now, pass by for certain.
pub(super) async fn expired(ttl: Duration) {
    sleep(ttl + Duration::from_millis(50)).await;
}

/// The value of `future`, which must be ready soon.
pub(super) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let Ok(value) = tokio::time::timeout(SOON, future).await else {
        panic!("waited {SOON:?} in vain for {what}");
    };
    value
}
