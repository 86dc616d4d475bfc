//! Lock services.

pub mod contract;
pub(crate) mod erased;
pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;
