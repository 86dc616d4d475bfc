//! The conformance suite on one Redis server, a fresh one for each case.

use lockrt_tests::{RedisPower, RedisServer};

lockrt::conformance_tests!(
    RedisServer::start(),
    power = RedisPower::start().await,
    can = [Down, Paused, Slow, ReplyLost, Forgetful, NoWakeUps, ClockAhead],
    cannot = [],
    elsewhere = [ClientAhead], // `redis_clocks.rs`, in processes whose clock can be stepped
);
