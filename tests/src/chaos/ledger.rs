//! The protected data: for each key two counters, one written as it comes and one with the fencing
//! token. They lie on a server of their own, which stays healthy, so that a holder that is cut off
//! from its lock still reaches them.

use std::collections::HashMap;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, AsyncConnectionConfig, Client, RedisResult, Script};

use super::checks::Tally;
use super::record::Cell;
use super::spot::Spot;

/// Longer than any process is stopped: an answer that has been waiting is still read.
const PATIENCE: Duration = Duration::from_secs(30);

/// Writes a counter and notes that it was written.
/// KEYS: the counter, its list of writes. ARGV: the new value.
const WRITE: &str = "redis.call('SET', KEYS[1], ARGV[1]) redis.call('RPUSH', KEYS[2], ARGV[1]) return 1";

/// Lets a holder in that is not older than the newest one seen, and reads the counter.
/// KEYS: the counter, its fence. ARGV: the token.
const ENTER: &str = "
local seen = tonumber(redis.call('GET', KEYS[2]) or 0)
if seen > tonumber(ARGV[1]) then return -1 end
redis.call('SET', KEYS[2], ARGV[1])
return tonumber(redis.call('GET', KEYS[1]) or 0)";

/// The same write, refused to an older holder.
/// KEYS: the counter, its list of writes, its fence. ARGV: the new value, the token.
const WRITE_FENCED: &str = "
local seen = tonumber(redis.call('GET', KEYS[3]) or 0)
if seen > tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[3], ARGV[2])
redis.call('SET', KEYS[1], ARGV[1]) redis.call('RPUSH', KEYS[2], ARGV[1]) return 1";

/// A connection to the store, and how to count there.
#[derive(Clone)]
pub(super) struct Ledger {
    store: MultiplexedConnection,
    write: Script,
    enter: Script,
    write_fenced: Script,
}

impl Ledger {
    /// Connects, on the present runtime.
    pub(super) async fn open(url: &str) -> RedisResult<Self> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
        let store = Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?;
        let [write, enter, write_fenced] = [WRITE, ENTER, WRITE_FENCED].map(Script::new);
        Ok(Self { store, write, enter, write_fenced })
    }

    /// What the counter without a fence says.
    pub(super) async fn read(&self, spot: Spot) -> RedisResult<u64> {
        let count: Option<u64> = self.store.clone().get(count_of(Cell::Plain, spot)).await?;
        Ok(count.unwrap_or_default())
    }

    /// Sets it, whoever comes.
    pub(super) async fn write(&self, spot: Spot, count: u64) -> RedisResult<()> {
        let mut call = self.write.key(count_of(Cell::Plain, spot));
        call.key(writes_of(Cell::Plain, spot)).arg(count).invoke_async(&mut self.store.clone()).await
    }

    /// What the fenced counter says, once it knows this holder; none if it knows a newer one.
    pub(super) async fn enter(&self, spot: Spot, token: u64) -> RedisResult<Option<u64>> {
        let mut call = self.enter.key(count_of(Cell::Fenced, spot));
        let count: i64 = call.key(fence_of(spot)).arg(token).invoke_async(&mut self.store.clone()).await?;
        Ok(u64::try_from(count).ok())
    }

    /// Sets it, unless it knows a newer holder: then false.
    pub(super) async fn write_fenced(&self, spot: Spot, token: u64, count: u64) -> RedisResult<bool> {
        let mut call = self.write_fenced.key(count_of(Cell::Fenced, spot));
        call.key(writes_of(Cell::Fenced, spot)).key(fence_of(spot)).arg(count).arg(token);
        call.invoke_async(&mut self.store.clone()).await
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

fn fence_of(spot: Spot) -> String {
    format!("{spot}:fence")
}
