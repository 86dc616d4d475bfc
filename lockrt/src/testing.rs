//! For tests of services and of backends.

use std::time::Duration;

use crate::claim::Claim;
use crate::key::LockKey;
use crate::token::{OwnerLabel, OwnerToken, ProcessRandom};

/// A claim by a new owner, for tests of a backend. It does not wait.
///
/// # Panics
///
/// If the system gives no random numbers.
#[must_use]
pub fn claim(key: &LockKey, ttl: Duration) -> Claim {
    Claim::new(key.clone(), owner(), ttl, false)
}

/// A claim by a new owner that waits when the lock is held, for tests of a backend.
///
/// # Panics
///
/// If the system gives no random numbers.
#[must_use]
pub fn waiting_claim(key: &LockKey, ttl: Duration) -> Claim {
    Claim::new(key.clone(), owner(), ttl, true)
}

fn owner() -> OwnerToken {
    match ProcessRandom::get() {
        Ok(random) => OwnerToken::fresh(&OwnerLabel::of_process(), random),
        Err(error) => panic!("the system gives no random numbers: {error}"),
    }
}
