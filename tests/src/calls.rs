//! Calls to a backend whose answer a test takes for granted.

use lockrt::{Attempt, Backend, BackendError, Claim, LockKey};

/// The key of this text.
#[must_use]
pub fn key(text: &str) -> LockKey {
    LockKey::new(text).expect("the text is a key")
}

/// The fencing token of a grant.
///
/// # Panics
///
/// If the claim is not granted, or has no token.
pub async fn granted(client: &impl Backend, claim: &Claim) -> u64 {
    match client.try_acquire(claim).await {
        Ok(Attempt::Granted { fencing: Some(token) }) => token.get(),
        other => panic!("not granted: {other:?}"),
    }
}

/// The error of an attempt that gets no answer.
///
/// # Panics
///
/// If it is answered.
pub async fn refused(client: &impl Backend, claim: &Claim) -> BackendError {
    match client.try_acquire(claim).await {
        Err(error) => error,
        Ok(attempt) => panic!("answered: {attempt:?}"),
    }
}
