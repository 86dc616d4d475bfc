//! The conformance suites on PostgreSQL behind a PgBouncer in transaction mode, fresh ones for each case.

use lockrt_tests::{PooledPostgres, PostgresPower};

lockrt::conformance_tests!(
    PooledPostgres::start().await,
    power = PostgresPower::start_pooled().await,
    can = [Down, Paused, Slow, ReplyLost, Forgetful, NoWakeUps, ClockAhead],
    cannot = [],
    elsewhere = [ClientAhead], // `postgres_clocks.rs`, in processes whose clock can be stepped
);
lockrt::lock_conformance_tests!(PooledPostgres::start().await);
