//! Where the workers of one class meet: a lock server behind proxies, and a store that stays healthy.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::class::Class;
use super::crew::Crew;
use super::history::{History, Recorder};
use super::options::Plan;
use super::scene::Scene;
use super::server::Server;
use super::worker::{Command, Orders};
use crate::{Dice, Proxy, RedisServer};

/// How many worker processes there are.
const WORKERS: usize = 8;

/// How long all of the workers may take to do what takes them no time.
const PATIENCE: Duration = Duration::from_secs(20);

/// Everything that belongs to one scene.
#[derive(Debug)]
pub(super) struct Arena {
    pub(super) locks: Server,
    pub(super) store: RedisServer,
    /// One for each worker, so that each can be cut off by itself.
    pub(super) proxies: Vec<Proxy>,
    pub(super) crew: Crew,
    pub(super) recorder: Arc<Recorder>,
}

impl Arena {
    /// Starts the servers and a crew, and waits until each worker has locked something.
    pub(super) async fn open(scene: Scene, plan: &Plan, dice: &mut Dice) -> Result<Self, String> {
        let (locks, store) = (Server::start(scene).await?, RedisServer::start());
        let (mut proxies, mut orders) = (Vec::new(), Vec::new());
        for place in 0..WORKERS as u64 {
            let proxy = Proxy::start(locks.port(), dice.roll()).await;
            orders.push(Orders {
                locks: locks.url_at(proxy.port()),
                store: store.url(),
                seed: (dice.roll() & !1) | (place & 1),
                cancels: scene.class == Class::Cancelled,
                how: plan.how,
            });
            proxies.push(proxy);
        }
        let recorder = Arc::<Recorder>::default();
        let crew = Crew::start(orders, Arc::clone(&recorder));
        let arena = Self { locks, store, proxies, crew, recorder };
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

    /// Lets the tasks of all workers come to their end. Then all of them lock something at the same time once
    /// more, so that many locks have just been given back: each one that was not is still there.
    pub(super) async fn quiesce(&mut self) -> Result<(), String> {
        self.crew.order_all(Command::Stop);
        self.wait("every worker has stopped its tasks", |history| history.idle == WORKERS).await?;
        self.crew.order_all(Command::Last);
        self.wait("every worker is done", |history| history.done == WORKERS).await
    }

    /// Shuts every worker down, and ends everything.
    pub(super) async fn close(mut self) -> Result<(), String> {
        self.crew.order_all(Command::Close);
        self.wait("every worker has shut down", |history| history.closed == WORKERS).await
    }
}
