//! Harness of the test suites: real servers, a proxy that misbehaves on purpose.

// A harness that cannot go on fails the test that uses it.
#![allow(clippy::missing_panics_doc, clippy::expect_used, clippy::unwrap_used)]

mod calls;
mod certificates;
pub mod chaos;
mod content_tags;
mod dice;
#[cfg(doctest)]
mod docs;
mod dropping;
mod example;
mod fake_redis;
mod faulty;
mod narrow;
mod pgbouncer;
mod polled;
mod postgres_power;
mod postgres_programs;
mod postgres_secured;
mod postgres_server;
mod program;
mod proxy;
mod redis_power;
mod redis_secured;
mod redis_server;
mod setup;
mod stepped_clock;
mod store;
mod tap;
mod together;
mod traces;
mod until;

pub use calls::{granted, key, refused};
pub use certificates::{Authority, Identity};
pub use content_tags::{ContentTags, SharedFolder};
pub use dice::Dice;
pub use dropping::dropped_at_every_poll;
pub use example::{Answer, Example, example, in_time};
pub use fake_redis::FakeRedis;
pub use lockrt::conformance::lock::{Call, Fate, Faulty, Yielding};
pub use narrow::{GetsAndPuts, Narrow};
pub use pgbouncer::PgBouncer;
pub use polled::{caught, polled};
pub use postgres_power::{PooledPostgres, PostgresPower};
pub use postgres_secured::SecuredPostgres;
pub use postgres_server::{PostgresServer, url_at};
pub use program::Program;
pub use proxy::{End, Fault, Proxy, Step, Toxic, Way};
pub use redis_power::RedisPower;
pub use redis_secured::SecuredRedis;
pub use redis_server::RedisServer;
pub use setup::{Paused, Setup, Threaded, Threads, settled};
pub use stepped_clock::{SteppedClock, wall_seconds};
pub use store::Store;
pub use tap::Tap;
pub use together::together;
pub use traces::{Traced, Traces, Watch};
pub use until::{soon, until};
