//! A lock that somebody else holds, as `skip(|busy| ..)` sees it: [`Busy`].

use std::time::Duration;

use crate::error::LockError;
use crate::key::LockKey;

/// Somebody else holds the lock, and the body has not run.
///
/// ```
/// use lockrt::{Busy, LockError, distributed_lock};
///
/// enum Outcome {
///     Done,
///     Later { seconds: u64 },
/// }
///
/// fn later(busy: &Busy) -> Outcome {
///     Outcome::Later { seconds: busy.retry_after().map_or(1, |after| after.as_secs() + 1) }
/// }
///
/// #[distributed_lock(key = "customer:{id}", ttl_ms = 10_000, on_contention = skip(|busy| Ok(later(&busy))))]
/// async fn synchronize(id: u64) -> Result<Outcome, LockError> {
///     Ok(Outcome::Done)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Busy {
    name: &'static str,
    key: LockKey,
    waited: Duration,
    retry_after: Option<Duration>,
}

impl Busy {
    /// The word for this kind of refusal, `contended`, as [`LockError::kind`] gives it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        "contended"
    }

    /// The lock's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its key, which shows itself as a digest.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        &self.key
    }

    /// How long this call waited; under `skip` that is the time of its one attempt.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// When the present holder's lease ends unless it is renewed, if known.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl TryFrom<LockError> for Busy {
    type Error = LockError;

    fn try_from(error: LockError) -> Result<Self, LockError> {
        match error {
            LockError::Contended { name, key, waited, retry_after } => {
                Ok(Self { name, key, waited, retry_after })
            }
            other => Err(other),
        }
    }
}

impl From<Busy> for LockError {
    fn from(Busy { name, key, waited, retry_after }: Busy) -> Self {
        Self::Contended { name, key, waited, retry_after }
    }
}
