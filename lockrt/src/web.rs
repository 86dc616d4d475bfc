//! Refusals as answers of web frameworks, and fencing tokens on their way from service to service.
//!
//! What writes is often another service than the one that holds the lock. [`CarryToken`] puts the token
//! of the current lease into each request that a client sends, and [`CheckToken`] refuses requests of
//! holders that came too late before the service behind it sees them.
//!
//! The check at the door refuses what is late by then. Between it and the write another holder may
//! come, so the write itself must be compared, too: by [`Fence::write`](crate::fence::Fence::write), or by
//! the store in one step with the write. The token is in the request's extensions for that.

#[cfg(feature = "actix-web")]
pub(crate) mod actix;
#[cfg(feature = "axum")]
pub(crate) mod axum;
#[cfg(feature = "tower")]
mod carry;
#[cfg(feature = "tower")]
mod check;
#[cfg(feature = "tower")]
mod header;
#[cfg(any(feature = "actix-web", feature = "axum", feature = "tonic", feature = "tower"))]
mod problem;
#[cfg(feature = "tonic")]
pub(crate) mod tonic;

#[cfg(feature = "tower")]
pub use self::carry::{CarryToken, Carrying};
#[cfg(feature = "tower")]
pub use self::check::{CheckToken, Checking, CheckingFuture};
#[cfg(feature = "tower")]
pub use self::header::{FENCING_TOKEN, InvalidToken, token_of, value_of};
