//! The lock service of an arena, and what can be done to it.

mod postgres;
mod redis;

use std::ops::Range;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use self::postgres::PostgresLocks;
use self::redis::RedisLocks;
use super::class::Class;
use super::scene::{Scene, Store};
use crate::{Dice, Proxy, SteppedClock};

/// A service of either kind.
#[derive(Debug)]
pub(super) enum Server {
    Redis(RedisLocks),
    Postgres(PostgresLocks),
}

impl Server {
    /// Starts what the scene needs.
    pub(super) async fn start(scene: Scene) -> Result<Self, String> {
        match scene.store {
            Store::Redis => RedisLocks::start(scene.class).await.map(Self::Redis).map_err(said),
            Store::Postgres => Ok(Self::Postgres(PostgresLocks::start(scene.class).await)),
        }
    }

    /// Where its proxies lead.
    pub(super) fn port(&self) -> u16 {
        match self {
            Self::Redis(locks) => locks.port(),
            Self::Postgres(locks) => locks.port(),
        }
    }

    /// Its URL through a proxy at that port, or its own.
    pub(super) fn url_at(&self, port: u16) -> String {
        match self {
            Self::Redis(_) => format!("redis://127.0.0.1:{port}"),
            Self::Postgres(_) => crate::url_at(port),
        }
    }

    /// One blow of a class that strikes the service itself: how many faults it was. Whoever takes over is behind
    /// the proxies afterwards.
    pub(super) async fn strike(
        &mut self,
        class: Class,
        proxies: &[Proxy],
        dice: &mut Dice,
    ) -> Result<u64, String> {
        match self {
            Self::Redis(locks) => locks.strike(class, proxies, dice).await.map_err(said),
            Self::Postgres(locks) => locks.strike(class, proxies, dice).await.map_err(|error| told(&error)),
        }
    }

    /// Ends every fault.
    pub(super) async fn heal(&mut self) {
        match self {
            Self::Redis(locks) => locks.heal(),
            Self::Postgres(locks) => locks.heal().await,
        }
    }

    /// What it still has after that time at the latest, beside its fences.
    pub(super) async fn left(&self, within: Duration) -> Result<Vec<Left>, String> {
        let deadline = Instant::now() + within;
        while self.held().await > 0 && Instant::now() < deadline {
            sleep(Duration::from_millis(10)).await;
        }
        match self {
            Self::Redis(locks) => locks.left().await.map_err(said),
            Self::Postgres(locks) => locks.left().await.map_err(|error| told(&error)),
        }
    }

    async fn held(&self) -> usize {
        match self {
            Self::Redis(locks) => locks.held().await,
            Self::Postgres(locks) => locks.held().await,
        }
    }
}

/// A key that is still there though nobody holds or wants a lock.
#[derive(Clone, Debug)]
pub(super) struct Left {
    pub(super) key: String,
    /// Whether it is a queue, which has an end of its own.
    pub(super) is_passing_queue: bool,
}

/// Lets the workers work on for some time.
pub(super) async fn pause(dice: &mut Dice, ms: Range<u64>) {
    sleep(Duration::from_millis(dice.within(ms))).await;
}

/// How far a clock is set ahead or back at most, in seconds.
const FARTHEST: u64 = 3_600;

/// Sets a server's clock ahead or back, as by an administrator.
async fn step(clock: Option<&SteppedClock>, dice: &mut Dice) -> u64 {
    let Some(clock) = clock else { return 0 };
    let most = if dice.within(0..2) == 0 { 3 } else { FARTHEST };
    let by = i64::try_from(dice.within(1..most + 1)).unwrap_or(1);
    clock.differ_by(if dice.within(0..2) == 0 { by } else { -by });
    pause(dice, 200..1_000).await;
    1
}

/// Sets a server's clock to a time at which every lease has ended. Set back it would keep what a client could not
/// release, for as long as that.
fn step_past(clock: Option<&SteppedClock>) {
    if let Some(clock) = clock {
        clock.differ_by(i64::try_from(FARTHEST + 10).unwrap_or(i64::MAX));
    }
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// What PostgreSQL said; the error alone does not.
fn told(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string)
}
