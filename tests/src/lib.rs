//! Harness of the test suites: real servers, a proxy that misbehaves on purpose.

// A harness that cannot go on fails the test that uses it.
#![allow(clippy::missing_panics_doc, clippy::expect_used, clippy::unwrap_used)]

mod calls;
mod dice;
#[cfg(doctest)]
mod docs;
mod faulty;
mod polled;
mod proxy;
mod redis_server;
mod row;
mod setup;
mod until;

pub use calls::{granted, key, refused};
pub use dice::Dice;
pub use lockrt::conformance::lock::{Call, Fate, Faulty};
pub use polled::{caught, polled};
pub use proxy::{Fault, Proxy};
pub use redis_server::RedisServer;
pub use row::{Opened, Row};
pub use setup::{Paused, Setup, Threaded, Threads, settled};
pub use until::{soon, until};
