//! One process that raises the counter under the lock, again and again.

use std::time::{Duration, Instant};

use lockrt::fence::FenceError;
use lockrt::fence::redis::{RedisFence, Write};
use lockrt::{LockError, LockKey, LockManager, LockPolicy};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands as _, AsyncConnectionConfig};

use lexopt::prelude::*;
use rustix::process::{Signal, getpid, kill_process};

use crate::Store;

pub(crate) const COUNTER: &str = "counter";
const POLICY: LockPolicy = LockPolicy::new(Duration::from_millis(300)).wait(Duration::from_secs(2));
/// How long a worker thinks between reading and writing.
const WORK: Duration = Duration::from_millis(10);

/// Why a round has written nothing.
#[derive(Debug)]
enum Refused {
    /// The lease was over at the check.
    Lost(LockError),
    /// The store said no.
    Stale(FenceError),
}

struct Worker {
    store: Store,
    fence: RedisFence,
    connection: MultiplexedConnection,
}

/// Prints `wrote <value>`, `lost <why>` or `refused <why>` for each round.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn work(mut parser: lexopt::Parser) -> Result<(), lexopt::Error> {
    let (mut url, mut store) = (String::new(), Store::Naive);
    let (mut seconds, mut rounds, mut stop_every) = (u64::MAX, u32::MAX, 0);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("url") => url = parser.value()?.string()?,
            Long("store") => store = parser.value()?.parse()?,
            Long("seconds") => seconds = parser.value()?.parse()?,
            Long("rounds") => rounds = parser.value()?.parse()?,
            Long("stop-every") => stop_every = parser.value()?.parse::<u32>()?,
            _ => return Err(argument.unexpected()),
        }
    }
    let manager = LockManager::from_url(&url).await.unwrap();
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(30)));
    let client = redis::Client::open(url).unwrap();
    let connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    let mut worker = Worker { store, fence: RedisFence::beside(COUNTER).unwrap(), connection };
    let key = LockKey::new("the counter").unwrap();
    let began = Instant::now();
    let mut round = 0;
    while round < rounds && began.elapsed().as_secs() < seconds {
        let Ok(guard) = manager.acquire(&key, &POLICY).await else { continue };
        round += 1;
        let stops = stop_every > 0 && round % stop_every == 0;
        match worker.raise(guard.lease(), stops).await {
            Ok(value) => println!("wrote {value}"),
            Err(Refused::Lost(why)) => println!("lost {why}"),
            Err(Refused::Stale(why)) => println!("refused {why}"),
        }
        guard.release().await;
    }
    Ok(())
}

impl Worker {
    async fn raise(&mut self, lease: &lockrt::Lease, stops: bool) -> Result<u64, Refused> {
        if self.store == Store::Fenced {
            self.fence.register(&mut self.connection, lease).await.map_err(Refused::Stale)?;
        }
        let read: Option<u64> = self.connection.get(COUNTER).await.unwrap();
        let value = read.unwrap_or_default() + 1;
        tokio::time::sleep(WORK).await;
        if self.store == Store::Checked {
            lease.check().map_err(Refused::Lost)?;
        }
        if stops {
            // The signal is delivered before the call returns, since this is the process's first thread.
            kill_process(getpid(), Signal::STOP).unwrap();
        }
        self.write(lease, value).await.map_err(Refused::Stale)?;
        Ok(value)
    }

    async fn write(&mut self, lease: &lockrt::Lease, value: u64) -> Result<(), FenceError> {
        let (fence, connection) = (&self.fence, &mut self.connection);
        match self.store {
            Store::Naive | Store::Checked => {
                let () = connection.set(COUNTER, value).await.unwrap();
            }
            Store::Fenced | Store::Compared => {
                fence.write(connection, lease, Write::set(value)).await?;
            }
            Store::Once => {
                fence.write_once(connection, lease, Write::set(value)).await?;
            }
        }
        Ok(())
    }
}
