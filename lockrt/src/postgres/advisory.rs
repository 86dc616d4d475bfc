//! Names that a transaction locks.

use sha2::{Digest, Sha256};
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use crate::error::LockError;
use crate::key::LockKey;
use crate::policy::LockPolicy;
use crate::postgres::asking::{Asking, Patience};

/// The namespace of [`lock_in`].
pub const NAMESPACE: &str = "lockrt";

/// The number by which [`lock_in`] knows `key`: the first 8 bytes of the SHA-256 of namespace, a zero byte and
/// key, as a big-endian number. For programs in other languages, and for a look into `pg_locks`.
///
/// All programs in a database share one space of numbers. Two of a billion keys have the same number with
/// a probability of 3 %; they exclude each other then, and one transaction that takes both has both.
#[must_use]
pub fn advisory_number(namespace: &str, key: &LockKey) -> i64 {
    let mut digest = Sha256::new();
    digest.update(namespace.as_bytes());
    digest.update([0]);
    digest.update(key.as_str().as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&digest.finalize()[..8]);
    i64::from_be_bytes(first)
}

/// Locks `key` until `transaction` ends, by a transaction-level advisory lock in [`NAMESPACE`].
///
/// The same transaction may take it again; a rollback to a savepoint from before the call ends it. The
/// [module](super) says what the policy means.
///
/// # Errors
///
/// [`LockError::Contended`] if somebody else has it; the transaction can go on.
/// [`LockError::Unavailable`] for all else, a deadlock or a transaction that had failed before among it: roll
/// the transaction back. [`LockError::Unsupported`] for a policy that cannot be met.
///
/// # Cancellation
///
/// Leaves the transaction in the middle of something: drop it, which rolls it back.
pub async fn lock_in(
    transaction: &Transaction<'_>,
    key: &LockKey,
    policy: &LockPolicy,
) -> Result<(), LockError> {
    let asking = Asking::new(transaction, key, policy)?;
    let number = advisory_number(NAMESPACE, key);
    if matches!(asking.patience(), Patience::None) {
        let attempt = "SELECT pg_try_advisory_xact_lock($1)";
        let row = transaction.query_typed_one(attempt, &[(&number, Type::INT8)]).await;
        let taken = row.and_then(|row| row.try_get(0)).map_err(|error| asking.failed(&error))?;
        return if taken { Ok(()) } else { Err(asking.contended()) };
    }
    let wait = "SELECT pg_advisory_xact_lock($1)";
    asking.bounded(transaction.query_typed(wait, &[(&number, Type::INT8)])).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(namespace: &str, key: &str) -> i64 {
        advisory_number(namespace, &LockKey::new(key).unwrap())
    }

    #[test]
    fn numbers_stay_what_they_are() {
        // `printf 'lockrt\0stock:7' | sha256sum`
        assert_eq!(number(NAMESPACE, "stock:7"), -2_604_404_029_957_340_359);
    }

    #[test]
    fn namespaces_and_keys_are_kept_apart() {
        assert_ne!(number("a", "bc"), number("ab", "c"));
        assert_ne!(number("a", "b"), number("b", "b"));
        assert_ne!(number("a", "b"), number("a", "B"));
    }
}
