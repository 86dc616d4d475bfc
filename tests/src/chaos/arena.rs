//! Where the workers of one class meet: a lock server behind proxies, and a store that stays healthy.

use std::sync::Arc;
use std::time::Duration;

use lockrt::conformance::Service as _;
use redis::RedisResult;
use tokio::time::{Instant, sleep};

use super::class::Class;
use super::crew::Crew;
use super::history::{History, Recorder};
use super::options::Plan;
use super::worker::{Command, Orders};
use crate::{Dice, Proxy, RedisServer};

/// How many worker processes there are.
const WORKERS: usize = 8;

/// How long all of the workers may take to do what takes them no time.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a queue stays after the last look of a waiter: 4 s, and a ttl.
const QUEUE_MS: i64 = 4_500;

/// Everything that belongs to one class.
#[derive(Debug)]
pub(super) struct Arena {
    pub(super) locks: RedisServer,
    /// The replica that is to take over, where that is the fault.
    pub(super) spare: Option<RedisServer>,
    pub(super) store: RedisServer,
    /// One for each worker, so that each can be cut off by itself.
    pub(super) proxies: Vec<Proxy>,
    pub(super) crew: Crew,
    pub(super) recorder: Arc<Recorder>,
}

impl Arena {
    /// Starts the servers and a crew, and waits until each worker has locked something.
    pub(super) async fn open(class: Class, plan: &Plan, dice: &mut Dice) -> Result<Self, String> {
        let start =
            || RedisServer::start_with(&["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"]);
        let (locks, store) = (start(), RedisServer::start());
        let spare = (class == Class::FailedOver).then(start);
        let (mut proxies, mut orders) = (Vec::new(), Vec::new());
        for place in 0..WORKERS as u64 {
            let proxy = Proxy::start(locks.port(), dice.roll()).await;
            orders.push(Orders {
                locks: proxy.url(),
                store: store.url(),
                seed: (dice.roll() & !1) | (place & 1),
                cancels: class == Class::Cancelled,
                how: plan.how,
            });
            proxies.push(proxy);
        }
        let recorder = Arc::<Recorder>::default();
        let crew = Crew::start(orders, Arc::clone(&recorder));
        let arena = Self { locks, spare, store, proxies, crew, recorder };
        if let Some(spare) = &arena.spare {
            follow(spare, &arena.locks).await.map_err(|error| error.to_string())?;
        }
        arena
            .wait("every worker has asked for a lock", |history| {
                (0..WORKERS).all(|place| history.waits.iter().any(|wait| wait.place == place))
            })
            .await?;
        Ok(arena)
    }

    /// Waits until the history says so.
    async fn wait(&self, what: &str, condition: impl Fn(&History) -> bool) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while !condition(&self.recorder.history()) {
            if Instant::now() > deadline {
                return Err(format!("waited {PATIENCE:?} in vain until {what}"));
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Lets the tasks of all workers come to their end, so that nobody holds a lock.
    pub(super) async fn quiesce(&mut self) -> Result<(), String> {
        self.crew.order_all(Command::Stop);
        self.wait("every worker has stopped its tasks", |history| history.idle == WORKERS).await
    }

    /// What the lock server still has after that time at the latest, beside its fences.
    pub(super) async fn left(&self, within: Duration) -> RedisResult<Vec<Left>> {
        let deadline = Instant::now() + within;
        while self.locks.stored().await.per_key > 0 && Instant::now() < deadline {
            sleep(Duration::from_millis(10)).await;
        }
        let mut raw = self.locks.raw().await;
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut raw).await?;
        let mut left = Vec::new();
        for key in keys.into_iter().filter(|key| !key.ends_with("}:fencing")) {
            let expires_in_ms = redis::cmd("PTTL").arg(&key).query_async(&mut raw).await?;
            left.push(Left { key, expires_in_ms });
        }
        Ok(left)
    }

    /// Shuts every worker down, and ends everything.
    pub(super) async fn close(mut self) -> Result<(), String> {
        self.crew.order_all(Command::Close);
        self.wait("every worker has shut down", |history| history.closed == WORKERS).await
    }
}

/// A key that is still there though nobody holds or wants a lock.
#[derive(Clone, Debug)]
pub(super) struct Left {
    pub(super) key: String,
    /// Negative if it does not expire.
    expires_in_ms: i64,
}

impl Left {
    /// Whether it is a queue, which has an end of its own.
    pub(super) fn is_passing_queue(&self) -> bool {
        self.key.ends_with("}:queue") && (0..=QUEUE_MS).contains(&self.expires_in_ms)
    }
}

/// Makes one server the replica of another, and waits until it has the same data.
pub(super) async fn follow(replica: &RedisServer, of: &RedisServer) -> RedisResult<()> {
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
