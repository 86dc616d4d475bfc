//! Calls that must be answered, and what the cases share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Service;
use crate::backend::contract::Backend;
use crate::claim::{Attempt, Claim, Expiry, Released, Renewed};
use crate::key::LockKey;
use crate::token::FencingToken;

/// A TTL that does not end during a test.
pub(super) const LONG: Duration = Duration::from_secs(60);

/// A TTL whose end a test waits for; long enough for a few calls on a busy machine.
const SHORT: Duration = Duration::from_millis(800);

/// How long anything may take that should take next to no time.
pub(super) const SOON: Duration = Duration::from_secs(5);

/// Services count in milliseconds, so a lease may seem this much shorter than its TTL.
pub(super) const ROUNDING: Duration = Duration::from_millis(2);

/// A TTL whose end a test waits for, as short as the backend can keep it.
pub(super) fn short(client: &impl Backend) -> Duration {
    let capabilities = client.capabilities();
    SHORT.max(capabilities.shortest_ttl()).max(capabilities.offset_margin() * 4)
}

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

/// The answer to an attempt; a grant has a token if the backend says that it fences, and else none.
pub(super) async fn attempted(client: &impl Backend, claim: &Claim) -> Attempt {
    let attempt = match client.try_acquire(claim).await {
        Ok(attempt) => attempt,
        Err(error) => panic!("an attempt was not answered: {error}"),
    };
    if let Attempt::Granted { fencing } = attempt {
        let fences = client.capabilities().can_fence();
        assert_eq!(
            fencing.is_some(),
            fences,
            "a grant with {fencing:?} of a backend whose can_fence is {fences}"
        );
    }
    attempt
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

pub(super) async fn not_held(client: &impl Backend, claim: &Claim) {
    assert_eq!(released(client, claim).await, Released::NotHeld);
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

/// Attempts until granted, for next to no time and `ttl`, the rest of a lease that is in the way.
pub(super) async fn granted_within(
    ttl: Duration,
    client: &impl Backend,
    claim: &Claim,
) -> Option<FencingToken> {
    let start = Instant::now();
    loop {
        if let Attempt::Granted { fencing } = attempted(client, claim).await {
            return fencing;
        }
        assert!(start.elapsed() < ttl + SOON, "the key has not become free");
        sleep(Duration::from_millis(2)).await;
    }
}

/// A later grant of a key has a greater token, where there are tokens.
pub(super) fn rises(from: Option<FencingToken>, to: Option<FencingToken>) {
    assert!(to.is_none() || from < to, "the token of a later grant is {to:?}, after {from:?}");
}

/// Brings the leases that `client` took for `ttl` to their end, and gives a client to go on with.
pub(super) async fn ended<S: Service>(service: &S, client: S::Client, ttl: Duration) -> S::Client {
    let client = match client.capabilities().expiry() {
        Expiry::PerClaim => client,
        // A session ends with its client, as soon as the service has missed it for a TTL.
        Expiry::PerSession => {
            drop(client);
            service.client().await
        }
    };
    sleep(ttl + Duration::from_millis(50)).await;
    client
}

/// The value of `future`, which must be ready soon.
pub(super) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let Ok(value) = tokio::time::timeout(SOON, future).await else {
        panic!("waited {SOON:?} in vain for {what}");
    };
    value
}
