//! Distributed locks for async services.

pub mod backend;
mod backoff;
mod claim;
mod clock;
mod error;
mod key;
mod policy;
pub mod testing;
mod token;

pub use backend::contract::Backend;
pub use backend::memory::Memory;
#[cfg(feature = "redis")]
pub use backend::redis::Redis;
pub use claim::{Attempt, Capabilities, Claim, Expiry, FenceStrength, Released, Renewed};
pub use clock::{Clock, Moment};
pub use error::{
    BackendError, FromLockError, LockError, LossReason, Outcome, SetupError, Skipped, Unanswered,
};
pub use key::{InvalidKey, KeyBuilder, KeyPart, LockKey};
pub use policy::{Contention, InvalidTtl, LockPolicy, OnCancel, OnLost, ReleaseMode, Renewal};
pub use token::{FencingToken, OwnerToken};
