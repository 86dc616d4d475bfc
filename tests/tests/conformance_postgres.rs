//! The conformance suites on one PostgreSQL server, a fresh one for each case.

use lockrt_tests::{PostgresPower, PostgresServer};

lockrt::conformance_tests!(
    PostgresServer::start().await,
    power = PostgresPower::start().await,
    can = [Down, Paused, Slow, ReplyLost, NoWakeUps, ClockAhead],
    cannot = [Forgetful],      // no statement has a name, and nothing else is kept
    elsewhere = [ClientAhead], // `postgres_clocks.rs`, in processes whose clock can be stepped
);
lockrt::lock_conformance_tests!(PostgresServer::start().await);
