//! Distributed locks for async services.

mod acquire;
pub mod backend;
mod backoff;
mod claim;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod gate;
mod global;
mod guard;
mod keeper;
mod key;
mod lease;
mod manager;
mod observe;
mod policy;
#[doc(hidden)]
#[allow(missing_docs, reason = "named by the attribute's expansion only")]
pub mod private;
mod protocol;
mod run;
pub mod testing;
mod token;
mod web;

#[cfg(feature = "macros")]
pub use lockmacro::distributed_lock;

pub use backend::contract::Backend;
pub use backend::memory::Memory;
#[cfg(feature = "redis")]
pub use backend::redis::Redis;
pub use claim::{Attempt, Capabilities, Claim, Expiry, FenceStrength, Released, Renewed};
pub use clock::{Clock, Moment};
pub use error::{
    BackendError, FromLockError, LockError, LossReason, Outcome, SetupError, Skipped, Unanswered,
};
pub use global::{DefaultGuard, install, set_default};
pub use guard::LockGuard;
pub use key::{InvalidKey, KeyBuilder, KeyPart, LockKey, MAX_KEY_BYTES, MAX_STORED_BYTES};
pub use lease::{Lease, current_lease};
pub use manager::{LockManager, ManagerBuilder, ShutdownReport};
pub use policy::{Contention, InvalidTtl, LockPolicy, OnCancel, OnLost, ReleaseMode, Renewal};
pub use token::{FencingToken, OwnerToken};
