//! Where a case runs: a lock service, and managers on it.

use std::time::Duration;

use tokio::runtime::Handle;

use crate::backend::contract::Backend;
use crate::claim::{Attempt, Capabilities};
use crate::conformance::Service;
use crate::conformance::asking::{SOON, attempted, freed, key, short};
use crate::conformance::lock::faulty::{Call, Fate, Faulty};
use crate::conformance::lock::yielding::Yielding;
use crate::key::LockKey;
use crate::manager::{LockManager, ManagerBuilder, PREFIX};
use crate::policy::margin;
use crate::testing::claim;

/// A [`Service`] with lock managers on it, for the cases of
/// [`lock_conformance_tests!`](crate::lock_conformance_tests).
#[derive(Debug)]
pub struct Locks<S: Service> {
    service: S,
    /// Asks whether somebody holds a key.
    watcher: S::Client,
    paused: bool,
}

impl<S: Service> Locks<S> {
    /// Locks in real time: each manager has a keeper on a thread of its own, as in production.
    ///
    /// # Cancellation
    ///
    /// Leaves nothing behind.
    pub async fn new(service: S) -> Self {
        Self { watcher: service.client().await, service, paused: false }
    }

    /// Locks on tokio's clock, which the test has paused; the keepers are tasks of its runtime. For
    /// a service inside the test whose leases end by that clock, such as
    /// `Memory::on(Clock::tokio())`.
    ///
    /// # Cancellation
    ///
    /// Leaves nothing behind.
    pub async fn paused(service: S) -> Self {
        Self { paused: true, ..Self::new(service).await }
    }

    pub(super) async fn client(&self) -> S::Client {
        self.service.client().await
    }

    /// A client whose calls meet the fates that `plan` says, and a manager on it.
    pub(super) async fn faulty(
        &self,
        plan: impl FnMut(Call, usize) -> Fate + Send + 'static,
    ) -> (Faulty<S::Client>, LockManager) {
        let client = Faulty::on(self.client().await, |_, _| Fate::Answered);
        let manager = connected(self.manager_on(client.clone())).await;
        client.start_over(plan);
        (client, manager)
    }

    /// Another manager with a client of its own, as another process would have.
    pub(super) async fn manager(&self) -> LockManager {
        if self.paused {
            self.yielding().await
        } else {
            connected(self.manager_on(self.client().await)).await
        }
    }

    /// One whose calls take more than one poll, whatever the service is.
    pub(super) async fn yielding(&self) -> LockManager {
        connected(self.manager_on(Yielding(self.client().await))).await
    }

    fn manager_on(&self, client: impl Backend) -> LockManager {
        self.built(LockManager::builder(), client)
    }

    pub(super) fn built(&self, builder: ManagerBuilder, client: impl Backend) -> LockManager {
        let built =
            if self.paused { builder.build_on(client, &Handle::current()) } else { builder.build(client) };
        match built {
            Ok(manager) => manager,
            Err(error) => panic!("no manager for the test: {error}"),
        }
    }

    pub(super) fn capabilities(&self) -> &Capabilities {
        self.watcher.capabilities()
    }

    /// Whether somebody holds `key`, or stands in a queue for it: then a stranger is refused.
    pub(super) async fn holds(&self, key: &LockKey) -> bool {
        let stranger = claim(&key.stored(PREFIX), self.short());
        match attempted(&self.watcher, &stranger).await {
            Attempt::Held { .. } => true,
            Attempt::Granted { .. } => {
                freed(&self.watcher, &stranger).await;
                false
            }
        }
    }

    /// How many entries of keys are at the service: locks, and what belongs to them.
    pub(super) async fn stored(&self) -> usize {
        self.service.stored().await.per_key
    }

    /// A TTL whose end a case waits for.
    pub(super) fn short(&self) -> Duration {
        short(&self.watcher)
    }

    /// How long a lease of this TTL lasts at least, counted from its request; to the millisecond.
    pub(super) fn lasting(&self, ttl: Duration) -> Duration {
        ttl.saturating_sub(margin(ttl, self.capabilities().offset_margin()) + Duration::from_millis(1))
    }

    /// How late a call may return that is bound to a moment. In real time that is for a machine
    /// which does other work too.
    pub(super) fn slack(&self) -> Duration {
        Duration::from_millis(if self.paused { 50 } else { 1_000 })
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused
    }
}

/// A manager that has made its first call: a client may have to connect for that, which takes time of its own.
pub(super) async fn connected(manager: LockManager) -> LockManager {
    if let Err(error) = manager.probe(&key("first"), SOON).await {
        panic!("the service does not answer: {error}");
    }
    manager
}
