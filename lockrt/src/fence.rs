//! Stores that refuse a holder who came too late.
//!
//! A lease can end while its holder is stopped in the middle of a write, and no client can prevent
//! that: it is not running. Looking at the lease before the write makes it rarer, not impossible. The
//! **store** can prevent it, by comparing the [fencing token](crate::FencingToken) of each writer with
//! the greatest that it has seen. This module is that comparison: [`Fence`] for a store inside of this
//! process, [`redis`] for data in Redis, `postgres` for data in PostgreSQL, `object_store` for objects in S3 and
//! the like.
//!
//! # Three idioms
//!
//! | call | lets pass | from then on refuses |
//! |---|---|---|
//! | `register`, before the first read | the newest holder | older ones, though nothing is written yet |
//! | `write` | the newest holder, as often as it writes | older ones |
//! | `write_once` | the newest holder, for one write | older ones, and the same one's next `write_once` |
//!
//! **A write that depends on a read needs `register` as well.** With the comparison at the write alone
//! an update is still lost: the new holder reads, the paused one wakes and writes (the store has seen
//! nobody newer yet), and the new holder writes over it what it made of the old value. Registering
//! before the first read closes that: after it the paused one is refused. So:
//!
//! * *read, compute, write back*: `register`, read, `write`;
//! * *write without having read* (a whole document, a flag): `write` is enough;
//! * *an effect that must not happen twice* (add 5, append a line), and may be retried after an unknown
//!   outcome: `write_once` in place of `write`. A retry that finds its first try done is
//!   [`Repeated`](FenceError::Repeated).
//!
//! ```
//! use lockrt::fence::Fence;
//! use lockrt::{LockKey, LockPolicy};
//! use std::time::Duration;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! # let locks = lockrt::testing::memory();
//! # let (mut stock, fence) = (10, Fence::new());
//! let policy = LockPolicy::new(Duration::from_secs(10)).require_fencing();
//! locks.run(&LockKey::new("stock:7")?, &policy, async |lease| {
//!     fence.register("stock:7", lease)?;
//!     let left = stock - 3; // read, and work for a while
//!     fence.write("stock:7", lease, || stock = left)
//! }).await??;
//! # assert_eq!(stock, 7);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What to fence by
//!
//! Tokens rise per lock key. So what is written under one name here must always be locked by one key,
//! else tokens of different sequences are compared. Tokens of different lock services cannot be
//! compared either: when you move to another one, fence by a new name, such as `orders/2`.
//!
//! Calls take `&Lease`. A callee that should not see the lease takes a `FencingToken`, and passes that.

mod error;
mod in_process;
mod marks;
#[cfg(feature = "object_store")]
pub mod object_store;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
mod resource;

pub use self::error::{FenceError, Mistake};
pub use self::in_process::Fence;
pub use self::resource::{MAX_RESOURCE_BYTES, Resource};
