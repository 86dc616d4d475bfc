//! The protected data: for each key two counters, one written as it comes and one with the fencing
//! token. They lie on a server of their own, which stays healthy, so that a holder that is cut off
//! from its lock still reaches them.

use std::collections::HashMap;
use std::time::Duration;

use lockrt::FencingToken;
use lockrt::fence::FenceError;
use lockrt::fence::redis::{RedisFence, Write, WriteScript};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, AsyncConnectionConfig, Client, RedisResult, Script};

use super::checks::Tally;
use super::record::Cell;
use super::spot::Spot;

/// Longer than any process is stopped: an answer that has been waiting is still read.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sets a counter, and notes in a list that it was set.
const WRITE: &str = "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('RPUSH', KEYS[2], ARGV[1])";

/// A connection to the store, and how to count there.
#[derive(Clone)]
pub(super) struct Ledger {
    store: MultiplexedConnection,
    write: Script,
    fenced_write: WriteScript,
}

impl Ledger {
    /// Connects, on the present runtime.
    pub(super) async fn open(url: &str) -> RedisResult<Self> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let store = Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Self { store, write: Script::new(WRITE), fenced_write: WriteScript::new(WRITE) })
    }

    /// What a counter says.
    pub(super) async fn read(&self, cell: Cell, spot: Spot) -> RedisResult<u64> {
        let count: Option<u64> = self.store.clone().get(count_of(cell, spot)).await?;
        Ok(count.unwrap_or_default())
    }

    /// Sets the counter without a fence, whoever comes.
    pub(super) async fn write(&self, spot: Spot, count: u64) -> RedisResult<()> {
        let mut call = self.write.key(count_of(Cell::Plain, spot));
        call.key(writes_of(Cell::Plain, spot)).arg(count).invoke_async(&mut self.store.clone()).await
    }

    /// Announces a holder to the fenced counter.
    pub(super) async fn register(&self, spot: Spot, token: FencingToken) -> Result<(), FenceError> {
        fence_of(spot)?.register(&mut self.store.clone(), token).await
    }

    /// Sets the fenced counter, unless it knows a newer holder.
    pub(super) async fn write_fenced(
        &self,
        spot: Spot,
        token: FencingToken,
        count: u64,
    ) -> Result<(), FenceError> {
        let write = Write::script(&self.fenced_write).key(writes_of(Cell::Fenced, spot)).arg(count);
        fence_of(spot)?.write(&mut self.store.clone(), token, write).await.map(drop)
    }

    /// How all counters of one kind stand, beside what their writers were told.
    pub(super) async fn tallies(
        &self,
        cell: Cell,
        spots: impl Iterator<Item = Spot>,
        added: &HashMap<(Cell, Spot), u64>,
    ) -> RedisResult<Vec<Tally>> {
        let mut tallies = Vec::new();
        for spot in spots {
            let mut pipeline = redis::pipe();
            pipeline.get(count_of(cell, spot)).llen(writes_of(cell, spot));
            let (count, carried_out): (Option<u64>, u64) =
                pipeline.query_async(&mut self.store.clone()).await?;
            let acknowledged = added.get(&(cell, spot)).copied().unwrap_or_default();
            tallies.push(Tally { count: count.unwrap_or_default(), carried_out, acknowledged });
        }
        Ok(tallies)
    }
}

fn count_of(cell: Cell, spot: Spot) -> String {
    format!("{cell:?}:{spot}:count")
}

fn writes_of(cell: Cell, spot: Spot) -> String {
    format!("{cell:?}:{spot}:writes")
}

fn fence_of(spot: Spot) -> Result<RedisFence, FenceError> {
    RedisFence::beside(&count_of(Cell::Fenced, spot))
}
