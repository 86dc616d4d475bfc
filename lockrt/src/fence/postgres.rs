//! Fenced writes for data in PostgreSQL: the comparison of tokens is a statement of the transaction that writes.
//!
//! The data may be on another server than the locks, and the locks need not be in PostgreSQL at all.
//!
//! ```no_run
//! use lockrt::fence::postgres::PostgresFence;
//! use lockrt::{LockError, distributed_lock};
//! use tokio_postgres::Client;
//!
//! #[distributed_lock(key = "quote:{id}", ttl_ms = 10_000, lease = lease, fencing = required)]
//! async fn raise_price(id: i64, client: &mut Client) -> Result<(), Box<dyn std::error::Error>> {
//!     let fence = PostgresFence::new(&format!("quote:{id}"))?;
//!     fence.register(client, lease).await?; // before the first read
//!     let row = client.query_one("SELECT price FROM quotes WHERE id = $1", &[&id]).await?;
//!     let price: i64 = row.get(0); // long work
//!     let transaction = client.transaction().await?;
//!     fence.guard(&transaction, lease).await?;
//!     transaction.execute("UPDATE quotes SET price = $1 WHERE id = $2", &[&(price + 10), &id]).await?;
//!     transaction.commit().await?;
//!     Ok(())
//! }
//! ```
//!
//! A guard that let the holder pass keeps the row of the resource locked until the transaction ends: a newer
//! holder's registration waits for it, so nobody can overtake between comparison and commit. One that refuses
//! has changed nothing; roll the transaction back. One whose client is stopped before its commit holds up the next
//! holder until the server ends its session: set `idle_in_transaction_session_timeout`.
//!
//! # The table
//!
//! `lockrt_fence`, made once by [`SCHEMA`], has a row for each resource: the greatest token seen, and the last
//! that wrote. It is looked for on the search path of the caller's connection, like the caller's own tables.
//! Rows stay: whoever deletes one lets a stale write land. One takes some 100 bytes and its index as much.
//!
//! # Without lockrt, or with another driver
//!
//! [`REGISTER`], [`GUARD`] and [`GUARD_ONCE`] are single statements with the parameters `$1`, the resource, and
//! `$2`, the token as text in decimal digits. They answer one row: whether the holder passes, and the greatest
//! token seen, as text. Where he does not, roll back.
//!
//! # A column of the data
//!
//! A row that is always written whole needs no second table:
//!
//! ```sql
//! ALTER TABLE quotes ADD COLUMN fencing_token bigint NOT NULL DEFAULT 0;
//! -- before the first read; no row: the lease is over
//! UPDATE quotes SET fencing_token = $1 WHERE id = $2 AND fencing_token <= $1 RETURNING price;
//! -- with the write; no row: the lease is over
//! UPDATE quotes SET price = $3, fencing_token = $1 WHERE id = $2 AND fencing_token <= $1;
//! -- once per grant, for a writer that has not registered
//! UPDATE quotes SET price = price + 5, fencing_token = $1 WHERE id = $2 AND fencing_token < $1;
//! ```
//!
//! That no row has changed must be looked at: it is the only sign. Every statement that writes the row needs
//! the condition. A [`FencingToken`], and the `Option` that [`Lease::fencing`](crate::Lease::fencing) gives, is a parameter
//! of type `bigint`.

mod token;

use tokio_postgres::types::Type;
use tokio_postgres::{Error, GenericClient, Row, Transaction};

use crate::backend::postgres::failure;
use crate::error::BackendError;
use crate::fence::error::FenceError;
use crate::fence::marks::usable;
use crate::fence::resource::Resource;
use crate::token::FencingToken;

/// The statement that makes the table of fences, if it is missing. For a migration of yours, or for every instance of a
/// service at its start: many may run it at once, also within transactions.
pub const SCHEMA: &str = include_str!("postgres/schema.sql");

/// Announces a holder, so that older ones are refused from now on: before its first read.
pub const REGISTER: &str = include_str!("postgres/register.sql");

/// Lets the newest holder write in this transaction, as often as it likes.
pub const GUARD: &str = include_str!("postgres/guard.sql");

/// Lets the newest holder write in one transaction, unless it has written before.
pub const GUARD_ONCE: &str = include_str!("postgres/guard_once.sql");

/// A fence around what is written under one name.
///
/// Making one sends nothing. Every call takes a connection or transaction of the caller's and a `&Lease`, or
/// for callees a [`FencingToken`] or `Option<FencingToken>`. A connection of a pool is passed as the driver's own
/// that it dereferences to: `&**client` with `deadpool-postgres`.
#[derive(Clone, Debug)]
pub struct PostgresFence {
    resource: Resource,
}

impl PostgresFence {
    /// The fence of the resource of this name, such as `quote:7`, which one lock key always locks.
    ///
    /// # Errors
    ///
    /// [`FenceError::Invalid`] for an empty name or one over 1,024 bytes, and [`FenceError::Unusable`] for one
    /// with NUL, which the server cannot store.
    pub fn new(resource: &str) -> Result<Self, FenceError> {
        let resource = Resource::new(resource)?;
        if resource.as_str().contains('\0') {
            let reason = "its name has a NUL, which PostgreSQL cannot store";
            return Err(FenceError::Unusable { resource, reason });
        }
        Ok(Self { resource })
    }

    /// Announces the holder before its first read: from now on older ones are refused, though nothing is
    /// written yet. In a transaction that holds from its commit on.
    ///
    /// # Errors
    ///
    /// [`FenceError::Stale`] if a later one has been here; [`FenceError::Unavailable`], and then the holder may
    /// be registered or not.
    ///
    /// # Cancellation
    ///
    /// The holder is registered or not; repeating it is harmless.
    pub async fn register(
        &self,
        client: &impl GenericClient,
        token: impl Into<Option<FencingToken>>,
    ) -> Result<(), FenceError> {
        let token = usable(&self.resource, token)?;
        let (resource, digits) = (self.resource.as_str(), token.get().to_string());
        let answer = client.query_typed(REGISTER, &[(&resource, Type::TEXT), (&digits, Type::TEXT)]).await;
        // Outside of a transaction it may have been committed when the connection broke.
        let failed = |error: Error| {
            if failure::ends_connection(&error) {
                failure::after_sending(&error)
            } else {
                failure::in_transaction(&error)
            }
        };
        self.passed(answer.map_err(failed), token).inspect_err(FenceError::tell)
    }

    /// Lets the holder write in this transaction. Call it before the statements that write.
    ///
    /// # Errors
    ///
    /// [`FenceError::Stale`] if a later one has been here; [`FenceError::Unavailable`] if the statement failed,
    /// as in a transaction that had failed before. Roll the transaction back in each case, and nothing is written.
    ///
    /// # Cancellation
    ///
    /// Leaves the transaction in the middle of something: drop it, which rolls it back.
    pub async fn guard(
        &self,
        transaction: &Transaction<'_>,
        token: impl Into<Option<FencingToken>>,
    ) -> Result<(), FenceError> {
        self.ask(transaction, GUARD, token).await
    }

    /// Lets the holder write in this transaction, and in no other one: for effects that must not happen twice
    /// when the call is repeated after a commit whose answer was lost.
    ///
    /// # Errors
    ///
    /// As [`guard`](Self::guard), and [`FenceError::Repeated`] if this grant has written before.
    ///
    /// # Cancellation
    ///
    /// As [`guard`](Self::guard).
    pub async fn guard_once(
        &self,
        transaction: &Transaction<'_>,
        token: impl Into<Option<FencingToken>>,
    ) -> Result<(), FenceError> {
        self.ask(transaction, GUARD_ONCE, token).await
    }

    async fn ask(
        &self,
        transaction: &Transaction<'_>,
        statement: &str,
        token: impl Into<Option<FencingToken>>,
    ) -> Result<(), FenceError> {
        let token = usable(&self.resource, token)?;
        let (resource, digits) = (self.resource.as_str(), token.get().to_string());
        let parameters = [(&resource as _, Type::TEXT), (&digits as _, Type::TEXT)];
        let answer = transaction.query_typed(statement, &parameters).await;
        let answer = answer.map_err(|error| failure::in_transaction(&error));
        self.passed(answer, token).inspect_err(FenceError::tell)
    }

    /// What the answer of a statement means for the holder.
    fn passed(
        &self,
        answer: Result<Vec<Row>, BackendError>,
        offered: FencingToken,
    ) -> Result<(), FenceError> {
        let unavailable =
            |source: BackendError| FenceError::Unavailable { resource: self.resource.clone(), source };
        let rows = answer.map_err(unavailable)?;
        let unexpected =
            || unavailable(BackendError::unknown("the fence gave an answer of an unexpected form"));
        let [row] = &rows[..] else { return Err(unexpected()) };
        let (Ok(passed), Ok(stored)) = (row.try_get::<_, bool>(0), row.try_get::<_, &str>(1)) else {
            return Err(unexpected());
        };
        if passed {
            return Ok(());
        }
        let resource = self.resource.clone();
        let Ok(stored) = stored.parse().map(FencingToken::new) else { return Err(unexpected()) };
        Err(FenceError::refused(resource, offered, stored))
    }
}
