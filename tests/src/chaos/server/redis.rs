//! One Redis server, and a replica where that is to take over.

use std::time::Duration;

use lockrt::conformance::Service as _;
use redis::RedisResult;
use tokio::task::block_in_place;
use tokio::time::sleep;

use super::{Left, pause, step, step_past};
use crate::chaos::class::Class;
use crate::{Dice, Proxy, RedisServer, SteppedClock};

/// How long a queue stays after the last look of a waiter: 4 s, and a ttl.
const QUEUE_MS: i64 = 4_500;

#[derive(Debug)]
pub(in super::super) struct RedisLocks {
    server: RedisServer,
    /// Its own clock, where that is to be stepped.
    clock: Option<SteppedClock>,
    /// The replica that is to take over.
    spare: Option<RedisServer>,
}

impl RedisLocks {
    pub(super) async fn start(class: Class) -> RedisResult<Self> {
        let start =
            || RedisServer::start_with(&["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"]);
        let clock = (class == Class::ClockStepped).then(SteppedClock::new);
        let server = clock.as_ref().map_or_else(start, RedisServer::start_on);
        let spare = (class == Class::FailedOver).then(start);
        if let Some(spare) = &spare {
            follow(spare, &server).await?;
        }
        Ok(Self { server, clock, spare })
    }

    pub(super) fn port(&self) -> u16 {
        self.server.port()
    }

    pub(super) async fn strike(
        &mut self,
        class: Class,
        proxies: &[Proxy],
        dice: &mut Dice,
    ) -> RedisResult<u64> {
        match class {
            Class::ServerStopped => self.stop(dice).await,
            Class::ServerEmptied => self.empty(dice).await,
            Class::ServerBusy => self.busy(dice).await?,
            Class::Forgetful => self.forget(dice).await?,
            Class::Flushed => self.flush(dice).await?,
            Class::ClockStepped => return Ok(step(self.clock.as_ref(), dice).await),
            Class::FailedOver => self.fail_over(proxies, dice).await?,
            // Not of Redis, or not of a server.
            _ => return Ok(0),
        }
        Ok(1)
    }

    pub(super) fn heal(&self) {
        step_past(self.clock.as_ref());
        self.server.resume();
    }

    pub(super) async fn held(&self) -> usize {
        self.server.stored().await.per_key
    }

    pub(super) async fn left(&self) -> RedisResult<Vec<Left>> {
        let mut raw = self.server.raw().await;
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut raw).await?;
        let mut left = Vec::new();
        for key in keys.into_iter().filter(|key| !key.ends_with("}:fencing")) {
            // Negative if it does not expire.
            let expires_in_ms: i64 = redis::cmd("PTTL").arg(&key).query_async(&mut raw).await?;
            let is_passing_queue = key.ends_with("}:queue") && (0..=QUEUE_MS).contains(&expires_in_ms);
            left.push(Left { key, is_passing_queue });
        }
        Ok(left)
    }

    async fn stop(&self, dice: &mut Dice) {
        self.server.pause();
        pause(dice, 600..2_000).await;
        self.server.resume();
        pause(dice, 200..800).await;
    }

    async fn empty(&mut self, dice: &mut Dice) {
        block_in_place(|| self.server.restart());
        pause(dice, 300..1_200).await;
    }

    async fn busy(&self, dice: &mut Dice) -> RedisResult<()> {
        let mut raw = self.server.raw().await;
        if dice.within(0..2) == 0 {
            let ms = dice.within(300..1_500);
            redis::cmd("CLIENT").arg("PAUSE").arg(ms).arg("WRITE").query_async::<()>(&mut raw).await?;
            sleep(Duration::from_millis(ms)).await;
        } else {
            let ms = dice.within(300..1_200);
            redis::cmd("DEBUG").arg("SLEEP").arg(format!("0.{ms:04}")).query_async::<()>(&mut raw).await?;
        }
        pause(dice, 200..600).await;
        Ok(())
    }

    async fn forget(&self, dice: &mut Dice) -> RedisResult<()> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("SCRIPT").arg("FLUSH");
        for kind in ["normal", "pubsub"] {
            pipeline.cmd("CLIENT").arg(&["KILL", "TYPE", kind, "SKIPME", "yes"]);
        }
        pipeline.query_async::<()>(&mut self.server.raw().await).await?;
        pause(dice, 200..201).await;
        Ok(())
    }

    async fn flush(&self, dice: &mut Dice) -> RedisResult<()> {
        let mut raw = self.server.raw().await;
        if dice.within(0..2) == 0 {
            redis::cmd("FLUSHALL").query_async::<()>(&mut raw).await?;
        } else {
            let fences: Vec<String> = redis::cmd("KEYS").arg("*}:fencing").query_async(&mut raw).await?;
            if !fences.is_empty() {
                redis::cmd("DEL").arg(fences).query_async::<()>(&mut raw).await?;
            }
        }
        pause(dice, 200..800).await;
        Ok(())
    }

    /// The replica stops following, the workers go on for a while on the old server, and then find the
    /// replica in its place: what was written meanwhile is lost.
    async fn fail_over(&mut self, proxies: &[Proxy], dice: &mut Dice) -> RedisResult<()> {
        let Some(spare) = &mut self.spare else { return Ok(()) };
        redis::cmd("REPLICAOF").arg("NO").arg("ONE").query_async::<()>(&mut spare.raw().await).await?;
        pause(dice, 50..300).await;
        std::mem::swap(&mut self.server, spare);
        for proxy in proxies {
            proxy.lead_to(self.server.port());
            proxy.cut();
        }
        pause(dice, 300..1_000).await;
        follow(spare, &self.server).await
    }
}

/// Makes one server the replica of another, and waits until it has the same data.
async fn follow(replica: &RedisServer, of: &RedisServer) -> RedisResult<()> {
    let mut raw = replica.raw().await;
    redis::cmd("REPLICAOF").arg("127.0.0.1").arg(of.port()).query_async::<()>(&mut raw).await?;
    loop {
        let state: String = redis::cmd("INFO").arg("replication").query_async(&mut raw).await?;
        if state.contains("master_link_status:up") {
            return Ok(());
        }
        sleep(Duration::from_millis(10)).await;
    }
}
