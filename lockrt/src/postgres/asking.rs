//! A call that may wait for other transactions, and what its failure means.

use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Error, Transaction};

use crate::backend::postgres::failure;
use crate::clock::{Clock, Moment};
use crate::error::{BackendError, LockError, LossReason};
use crate::key::LockKey;
use crate::policy::{Contention, LockPolicy};

/// For how long a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    None,
    Millis(u64),
    Endless,
}

/// What is asked for, and since when: what errors say.
pub(super) struct Asked {
    pub(super) key: LockKey,
    pub(super) name: &'static str,
    started: Moment,
}

impl Asked {
    pub(super) fn new(key: &LockKey, policy: &LockPolicy) -> Self {
        Self { key: key.clone(), name: policy.name(), started: Clock::system().now() }
    }

    pub(super) fn contended(&self) -> LockError {
        let waited = Clock::system().now().since(self.started);
        LockError::Contended { name: self.name, key: self.key.clone(), waited, retry_after: None }
    }

    pub(super) fn unavailable(&self, source: BackendError) -> LockError {
        LockError::Unavailable { name: self.name, key: self.key.clone(), source }
    }

    pub(super) fn lost(&self) -> LockError {
        LockError::Lost { name: self.name, key: self.key.clone(), reason: LossReason::Gone }
    }
}

/// One call in a transaction.
pub(super) struct Asking<'a> {
    transaction: &'a Transaction<'a>,
    asked: Asked,
    patience: Patience,
}

impl<'a> Asking<'a> {
    pub(super) fn new(
        transaction: &'a Transaction<'_>,
        key: &LockKey,
        policy: &LockPolicy,
    ) -> Result<Self, LockError> {
        let patience = patience_of(policy, "postgres, in a transaction")?;
        Ok(Self { transaction, asked: Asked::new(key, policy), patience })
    }

    pub(super) fn patience(&self) -> Patience {
        self.patience
    }

    /// Makes `call` with this patience. If it fails the transaction is what it was before.
    pub(super) async fn bounded<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, LockError> {
        let most_ms = match self.patience {
            Patience::Millis(most_ms) => most_ms,
            // None for the server. Who does not wait at all says so in the statement.
            Patience::None | Patience::Endless => 0,
        };
        let enter = format!(
            "SAVEPOINT lockrt;
             SELECT set_config('lockrt.lock_timeout', current_setting('lock_timeout'), true);
             SET LOCAL lock_timeout = {most_ms}"
        );
        let leave = "SELECT set_config('lock_timeout', current_setting('lockrt.lock_timeout'), true);
             RELEASE SAVEPOINT lockrt";
        let failed = |error| self.failed(&error);
        self.transaction.batch_execute(&enter).await.map_err(failed)?;
        match call.await {
            Ok(answer) => {
                self.transaction.batch_execute(leave).await.map_err(failed)?;
                Ok(answer)
            }
            Err(error) => {
                // Without a connection this fails, too, and the first error says more.
                let back = "ROLLBACK TO SAVEPOINT lockrt; RELEASE SAVEPOINT lockrt";
                let _ = self.transaction.batch_execute(back).await;
                Err(failed(error))
            }
        }
    }

    pub(super) fn contended(&self) -> LockError {
        self.asked.contended()
    }

    pub(super) fn failed(&self, error: &Error) -> LockError {
        if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
            return self.contended();
        }
        self.asked.unavailable(failure::in_transaction(error))
    }
}

/// For how long `policy` waits. Without a lease some demands cannot be met.
pub(super) fn patience_of(policy: &LockPolicy, backend: &'static str) -> Result<Patience, LockError> {
    let unsupported = |what| LockError::Unsupported { name: policy.name(), what, backend };
    if policy.requires_fencing() {
        return Err(unsupported("fencing tokens"));
    }
    if policy.hold_at_least().is_some() {
        return Err(unsupported("a minimum time of holding"));
    }
    Ok(match policy.contention() {
        Contention::Fail => Patience::None,
        Contention::Wait(time) => patience(time),
        Contention::WaitForever => Patience::Endless,
    })
}

/// The server counts in whole milliseconds, up to 24 days, and takes 0 for ever.
fn patience(time: Duration) -> Patience {
    const MOST_MS: u64 = 0x7fff_ffff;
    if time.is_zero() {
        return Patience::None;
    }
    let ms = u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(MOST_MS);
    Patience::Millis(ms.min(MOST_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_no_wait_and_never_for_ever() {
        assert_eq!(patience(Duration::ZERO), Patience::None);
        assert_eq!(patience(Duration::from_nanos(1)), Patience::Millis(1));
        assert_eq!(patience(Duration::from_micros(1_001)), Patience::Millis(2));
        assert_eq!(patience(Duration::MAX), Patience::Millis(0x7fff_ffff));
    }
}
