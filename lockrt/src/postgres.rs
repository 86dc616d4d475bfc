//! Locks that are part of a transaction of PostgreSQL: the data's own.
//!
//! Where all that a lock protects is in one database, nothing is safer than a lock that lives and dies with the
//! transaction which writes the data. There is no lease, so none can expire; no renewal, and no fencing token,
//! since nobody can come too late. It ends exactly at commit or rollback, or when the server has noticed
//! that its client is gone.
//!
//! ```no_run
//! use std::time::Duration;
//! use lockrt::{LockKey, LockPolicy, postgres::lock_in};
//!
//! # async fn example(client: &mut tokio_postgres::Client, tenant: &str) -> Result<(), Box<dyn std::error::Error>> {
//! // Its ttl says nothing here: the transaction bounds the lock.
//! let policy = LockPolicy::new(Duration::from_secs(10)).named("stock").wait(Duration::from_millis(500));
//! let transaction = client.transaction().await?;
//! lock_in(&transaction, &LockKey::of("stock:").part(tenant).build()?, &policy).await?;
//! transaction.execute("UPDATE stock SET n = n - 1 WHERE tenant = $1", &[&tenant]).await?;
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! | call | locks | meets |
//! |---|---|---|
//! | [`lock_in`] | a name, by `pg_advisory_xact_lock` | `lock_in` and `session_lock` of the same key, and nothing else |
//! | [`lock_rows_in`] | rows, by `FOR UPDATE` | everybody who writes or locks these rows |
//! | [`unlocked_rows_in`] | rows, by `FOR UPDATE SKIP LOCKED` | nobody: it leaves out what others have locked |
//! | [`session_lock`] | a name, by `pg_advisory_lock` on a connection of its own, without a transaction | `lock_in` and `session_lock` of the same key |
//!
//! They never meet the leases of a [`LockManager`](crate::LockManager), not even on the same database: lock a
//! resource in one way everywhere.
//!
//! # What a policy means
//!
//! | policy | advisory lock | rows | somebody has it |
//! |---|---|---|---|
//! | `fail`, the default | `pg_try_advisory_xact_lock` | `NOWAIT` | `Contended` at once |
//! | `wait(time)` | `lock_timeout` | `lock_timeout`, for each row | `Contended` then |
//! | `wait_forever` | no time-out | no time-out | waits |
//!
//! After `Contended` the transaction is as it was before the call, and can go on. A deadlock is no
//! contention but `Unavailable`: the server has chosen this transaction to give way, so roll it back and
//! begin again. A policy that asks for fencing tokens or for a minimum time of holding is `Unsupported`;
//! ttl, renewal and what to do after a loss say nothing here.
//!
//! # Keep it short
//!
//! An open transaction holds a connection, and back what `VACUUM` may clean up. Do not call other services
//! while it is open; for long work take a lease, and fence the write.
//!
//! A client that is stopped in the middle, or vanishes, keeps its locks until the server ends its session. So set
//! `idle_in_transaction_session_timeout`, for the connection or its role, to what a statement may be waited for. Else
//! only keepalives find out who has vanished, by default after two hours.

mod advisory;
mod asking;
mod rows;
mod session;

pub use advisory::{NAMESPACE, advisory_number, lock_in};
pub use rows::{lock_rows_in, unlocked_rows_in};
pub use session::{SessionLock, session_lock};
