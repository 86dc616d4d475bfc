//! Harness of the test suites: real servers, a proxy that misbehaves on purpose.

// A harness that cannot go on fails the test that uses it.
#![allow(clippy::missing_panics_doc, clippy::expect_used, clippy::unwrap_used)]

mod calls;
mod dice;
#[cfg(doctest)]
mod docs;
mod dropping;
mod faulty;
mod polled;
mod proxy;
mod redis_server;
mod setup;
mod traces;
mod until;

pub use calls::{granted, key, refused};
pub use dice::Dice;
pub use dropping::dropped_at_every_poll;
pub use faulty::{Call, Fate, Faulty};
pub use polled::{caught, polled};
pub use proxy::{Fault, Proxy};
pub use redis_server::RedisServer;
pub use setup::{Paused, Setup, Threaded, Threads, settled};
pub use traces::{Traced, Traces, Watch};
pub use until::{soon, until};
