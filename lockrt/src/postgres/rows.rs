//! Rows that a transaction locks.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Transaction};

use crate::error::LockError;
use crate::key::LockKey;
use crate::policy::LockPolicy;
use crate::postgres::asking::{Asking, Patience};

/// Reads rows and locks them until `transaction` ends: `select` with `FOR UPDATE` behind it.
///
/// `parameters` are values with their types, as of `query_typed`. `key` and the name of `policy` are what
/// errors carry; the [module](super) says what the policy means. No row is no contention: then there is
/// nothing to lock, and two transactions may both find nothing.
///
/// ```no_run
/// # async fn example(transaction: &tokio_postgres::Transaction<'_>, id: i64) -> Result<(), Box<dyn std::error::Error>> {
/// use lockrt::{LockKey, LockPolicy, postgres::lock_rows_in};
/// use tokio_postgres::types::Type;
///
/// let policy = LockPolicy::new(std::time::Duration::from_secs(10)).named("quotes");
/// let key = LockKey::of("quote:").part(&id).build()?;
/// let quote = "SELECT price FROM quotes WHERE id = $1";
/// let rows = lock_rows_in(transaction, quote, &[(&id, Type::INT8)], &key, &policy).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// As [`lock_in`](super::lock_in).
///
/// # Cancellation
///
/// Leaves the transaction in the middle of something: drop it, which rolls it back.
pub async fn lock_rows_in(
    transaction: &Transaction<'_>,
    select: &str,
    parameters: &[(&(dyn ToSql + Sync), Type)],
    key: &LockKey,
    policy: &LockPolicy,
) -> Result<Vec<Row>, LockError> {
    let asking = Asking::new(transaction, key, policy)?;
    let nowait = if asking.patience() == Patience::None { " NOWAIT" } else { "" };
    let statement = format!("{select} FOR UPDATE{nowait}");
    asking.bounded(transaction.query_typed(&statement, parameters)).await
}

/// Reads and locks those of the rows that nobody else has locked: `select` with `FOR UPDATE SKIP LOCKED` behind
/// it. That is how workers share a queue; it is no lock of a thing, since who gets no row cannot say why.
///
/// The contention of `policy` says nothing here, as nobody waits.
///
/// # Errors
///
/// As [`lock_in`](super::lock_in), never [`LockError::Contended`].
///
/// # Cancellation
///
/// Leaves the transaction in the middle of something: drop it, which rolls it back.
pub async fn unlocked_rows_in(
    transaction: &Transaction<'_>,
    select: &str,
    parameters: &[(&(dyn ToSql + Sync), Type)],
    key: &LockKey,
    policy: &LockPolicy,
) -> Result<Vec<Row>, LockError> {
    let asking = Asking::new(transaction, key, policy)?;
    let statement = format!("{select} FOR UPDATE SKIP LOCKED");
    asking.bounded(transaction.query_typed(&statement, parameters)).await
}
