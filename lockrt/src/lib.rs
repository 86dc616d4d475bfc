//! Distributed locks for async services: one attribute, and of all the instances of a service only
//! one at a time runs the function.
//!
//! ```
//! use lockrt::{LockError, distributed_lock};
//!
//! #[distributed_lock(key = "quote:{tenant}:{id}", ttl_ms = 10_000, on_contention = fail)]
//! async fn recalculate(tenant: &str, id: u64) -> Result<u64, LockError> {
//!     Ok(id + 1)
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let _locks = lockrt::testing::memory(); // in `main`: install(LockManager::from_env().await?)?
//! assert_eq!(recalculate("acme", 41).await?, 42);
//! # Ok::<(), LockError>(())
//! # }).unwrap();
//! ```
//!
//! # What a lock is, and what it is not
//!
//! A lock in Redis, as in every lock service, is a **lease** and never an absolute guarantee: its
//! holder may be paused past its end and not know it. So each grant has
//!
//! * an [`OwnerToken`] of its own, checked by every renewal and release;
//! * a mandatory TTL, counted from before the request left;
//! * [lost-lease detection](Lease) that stops the body;
//! * a [`FencingToken`], by which a store can refuse the write of a holder that came too late.
//!
//! [`LockError`] keeps apart what must not be confused: somebody else has it (`Contended`), the lock
//! service gives no answer (`Unavailable`), and it was taken away on the way (`Lost`).
//!
//! # Where things are
//!
//! | to | see |
//! |---|---|
//! | annotate a function | [`distributed_lock`], [`Busy`] |
//! | connect, and lock without the attribute | [`LockManager`], [`LockPolicy`], [`LockKey`] |
//! | work under a lock | [`Lease`], [`LockGuard`], [`current_lease`] |
//! | make a store refuse a holder that came too late | [`fence`], and over HTTP [`web`] |
//! | lock in the data's own transaction | `postgres`, with that feature |
//! | test a service without a server | [`testing`] |
//! | use types of your own in a key, or as return value | [`KeyPart`], [`key_part!`], [`FromLockError`], [`Skipped`] |
//! | write a backend | [`Backend`], and the next section |
//!
//! # Adding a backend
//!
//! Every lock service meets one contract, [`Backend`]: four methods and a fifth that may be left out.
//! In this repository, copy `lockrt/src/backend/memory.rs`. New files:
//!
//! | file | what |
//! |---|---|
//! | `lockrt/src/backend/<name>.rs` | the type, its constructor from a URL, its `impl Backend` |
//! | `tests/tests/conformance_<name>.rs` | `conformance_tests!` and `lock_conformance_tests!` |
//! | `tests/src/<name>_server.rs` | starts its server, if it has one; its `impl lockrt::conformance::Service` |
//! | `tests/src/<name>_power.rs` | what can be done to that; its `impl lockrt::conformance::Power` |
//!
//! And a line or two in each of these:
//!
//! | file | what |
//! |---|---|
//! | `lockrt/src/backend.rs` | the module, behind its feature |
//! | `lockrt/src/lib.rs` | the re-export, and the list of features below |
//! | `lockrt/src/manager.rs` | the URL's scheme, in `fn backend` |
//! | `lockrt/Cargo.toml`, `Cargo.toml` | the feature, its optional dependency, and that one's version |
//! | `tests/Cargo.toml` | the feature |
//! | `docs/architecture.md` | the file in the table of layers, which the tests read |
//!
//! A backend may import the files of layer 0 (`clock`, `key`, `token`, `policy`, `error`, `claim`,
//! `backoff`, `masking`) and `backend::contract`, and nothing else; `tests/tests/layers.rs` reads the imports.
//! Outside this repository, implement the trait and pass it to [`ManagerBuilder::build`]; the
//! conformance suites are feature `conformance`, and the repository's folder `tests/outside` an example.
//!
//! # Features
//!
//! | feature | gives |
//! |---|---|
//! | `macros` (default) | the attribute |
//! | `redis` (default) | `redis://` URLs, and fenced writes to data in Redis |
//! | `redis-tls` | `redis`, and verified TLS for it: `rediss://` URLs |
//! | `postgres` | `postgres://` URLs: locks in a table; locks in a transaction, and fenced writes to data in PostgreSQL |
//! | `postgres-tls` | `postgres`, and verified TLS for it: `sslmode=verify-full` and its like |
//! | `object_store` | fenced writes to objects in S3, GCS, Azure and the like |
//! | `axum` | refusals as responses, and as the types that handlers return |
//! | `actix-web` | refusals as actix-web errors and `HttpResponse` |
//! | `tonic` | refusals as gRPC statuses |
//! | `tower` | fencing tokens in HTTP headers: [`web`] |
//! | `metrics` | counters, gauges and histograms through the `metrics` facade |
//! | `uuid` | `Uuid` in keys |
//! | `conformance` | the suites for authors of backends |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod backend;
mod backoff;
mod busy;
mod claim;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod digits;
mod error;
pub mod fence;
mod gate;
mod global;
mod guard;
mod keeper;
mod key;
mod lease;
mod locked;
mod manager;
mod masking;
mod mutant;
mod observe;
mod policy;
#[cfg(feature = "postgres")]
pub mod postgres;
#[doc(hidden)]
#[allow(missing_docs, reason = "named by the attribute's expansion only")]
pub mod private;
mod protocol;
mod refusal;
mod run;
pub mod testing;
mod token;
pub mod web;

#[cfg(feature = "macros")]
pub use lockmacro::distributed_lock;

pub use backend::contract::Backend;
pub use backend::memory::Memory;
#[cfg(feature = "postgres")]
pub use backend::postgres::Postgres;
#[cfg(feature = "redis")]
pub use backend::redis::Redis;
pub use busy::Busy;
pub use claim::{Attempt, Capabilities, Claim, Expiry, FenceStrength, Released, Renewed};
pub use clock::{Clock, Moment};
pub use error::{BackendError, LockError, LossReason, Outcome, SetupError};
pub use global::{DefaultGuard, install, set_default};
pub use guard::LockGuard;
pub use key::{InvalidKey, KeyBuilder, KeyPart, LockKey, MAX_KEY_BYTES, MAX_STORED_BYTES};
pub use lease::{Lease, current_lease};
pub use manager::{LockManager, ManagerBuilder, ShutdownReport};
pub use policy::{Contention, InvalidTtl, LockPolicy, OnCancel, OnLost, ReleaseMode, Renewal};
pub use refusal::{FromLockError, Skipped, Unanswered};
pub use token::{FencingToken, OwnerToken};
