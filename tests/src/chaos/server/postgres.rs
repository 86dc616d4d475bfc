//! One PostgreSQL server, and a standby where that is to take over.

use tokio::runtime::Handle;
use tokio::task::block_in_place;
use tokio_postgres::Error;

use super::{Left, pause, step, step_past};
use crate::chaos::class::Class;
use crate::{Dice, PostgresServer, Proxy, SteppedClock};

#[derive(Debug)]
pub(in super::super) struct PostgresLocks {
    server: PostgresServer,
    /// Its own clock, where that is to be stepped.
    clock: Option<SteppedClock>,
    /// The standby that is to take over.
    spare: Option<PostgresServer>,
}

impl PostgresLocks {
    pub(super) async fn start(class: Class) -> Self {
        let clock = (class == Class::ClockStepped).then(SteppedClock::new);
        let server = match &clock {
            Some(clock) => PostgresServer::start_on(clock).await,
            None => PostgresServer::start().await,
        };
        let spare = if class == Class::FailedOver { Some(server.standby().await) } else { None };
        Self { server, clock, spare }
    }

    pub(super) fn port(&self) -> u16 {
        self.server.port()
    }

    pub(super) async fn strike(
        &mut self,
        class: Class,
        proxies: &[Proxy],
        dice: &mut Dice,
    ) -> Result<u64, Error> {
        Ok(match class {
            Class::SessionsEnded => self.end_sessions(dice).await?,
            Class::ServerKilled => self.kill(dice).await,
            Class::ServerStopped => self.stop(dice).await,
            Class::ServerBusy => self.busy(dice).await?,
            Class::Flushed => self.flush(dice).await?,
            Class::ClockStepped => step(self.clock.as_ref(), dice).await,
            Class::FailedOver => self.fail_over(proxies, dice).await,
            // Not of PostgreSQL, or not of a server.
            _ => 0,
        })
    }

    pub(super) async fn heal(&mut self) {
        step_past(self.clock.as_ref());
        self.server.revive().await;
    }

    pub(super) async fn held(&self) -> usize {
        self.server.locks().await
    }

    /// Rows of leases that have ended go when somebody is at work, and nobody is.
    pub(super) async fn left(&self) -> Result<Vec<Left>, Error> {
        let held = "SELECT key FROM lockrt_locks WHERE expires_at > clock_timestamp()";
        let rows = self.server.raw().await.query(held, &[]).await?;
        Ok(rows.iter().map(|row| Left { key: row.get(0), is_passing_queue: false }).collect())
    }

    /// An administrator ends up to ten sessions, whatever they are at.
    async fn end_sessions(&self, dice: &mut Dice) -> Result<u64, Error> {
        let most = i64::try_from(dice.within(1..11)).unwrap_or(1);
        let end = "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
            WHERE usename = 'app' ORDER BY random() LIMIT $1) AS sessions";
        let ended: i64 = self.server.raw().await.query_one(end, &[&most]).await?.get(0);
        pause(dice, 50..300).await;
        Ok(u64::try_from(ended).unwrap_or_default())
    }

    async fn kill(&mut self, dice: &mut Dice) -> u64 {
        block_in_place(|| self.server.kill());
        pause(dice, 0..400).await;
        self.server.revive().await;
        pause(dice, 300..1_200).await;
        1
    }

    async fn stop(&self, dice: &mut Dice) -> u64 {
        self.server.pause();
        pause(dice, 600..2_000).await;
        self.server.resume();
        pause(dice, 200..800).await;
        1
    }

    /// Somebody has locked the table: against writes, or against all.
    async fn busy(&self, dice: &mut Dice) -> Result<u64, Error> {
        let mode = if dice.within(0..2) == 0 { "EXCLUSIVE" } else { "ACCESS EXCLUSIVE" };
        let raw = self.server.raw().await;
        raw.batch_execute(&format!("BEGIN; LOCK TABLE lockrt_locks IN {mode} MODE")).await?;
        pause(dice, 300..1_500).await;
        raw.batch_execute("ROLLBACK").await?;
        pause(dice, 200..600).await;
        Ok(1)
    }

    async fn flush(&self, dice: &mut Dice) -> Result<u64, Error> {
        let every = ["TRUNCATE lockrt_locks", "UPDATE lockrt_floor SET fence = 0"];
        let flush = every[usize::from(dice.within(0..2) == 0)];
        self.server.raw().await.batch_execute(flush).await?;
        pause(dice, 200..800).await;
        Ok(1)
    }

    /// The standby hears nothing more, the workers go on for a while on the old primary, and then find the
    /// standby in its place: what was committed meanwhile is lost.
    async fn fail_over(&mut self, proxies: &[Proxy], dice: &mut Dice) -> u64 {
        let Some(mut next) = self.spare.take() else { return 0 };
        next.stop_following().await;
        pause(dice, 50..300).await;
        std::mem::swap(&mut self.server, &mut next);
        for proxy in proxies {
            proxy.lead_to(self.server.port());
            proxy.cut();
        }
        self.server.promote().await;
        block_in_place(|| drop(next));
        pause(dice, 300..1_000).await;
        // It waits for a program, and the proxies run on.
        let standby = block_in_place(|| Handle::current().block_on(self.server.standby()));
        self.spare = Some(standby);
        1
    }
}
