//! Lock services.

pub(crate) mod caller;
pub(crate) mod contract;
pub(crate) mod erased;
pub(crate) mod hint;
pub(crate) mod memory;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) mod silence;
#[cfg(any(feature = "postgres-tls", feature = "redis-tls"))]
pub(crate) mod tls;
