//! The keeper: carries out what the protocol decides, away from every caller's runtime.
//!
//! It sends each attempt, renewal and release, watches each deadline, and cleans up what was
//! dropped or is in doubt. In production it is one thread with a runtime of its own, so that a
//! body that blocks its thread cannot stop its renewal, and a guard that is dropped as the last
//! thing of a runtime is released all the same. In tests it may be a task on tokio's clock.

mod driver;
mod foreign;
mod timers;

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};

use crate::backend::erased::DynBackend;
use crate::claim::{Capabilities, Claim, Released};
use crate::clock::{Clock, Moment};
use crate::error::{BackendError, SetupError};
use crate::keeper::driver::Driver;
use crate::key::LockKey;
use crate::lease::Home;
use crate::protocol::kept::{Id, Parting, Remains, Terms, Told};

/// A handle on a keeper. The keeper finishes its work and ends when the last one is dropped.
#[derive(Clone)]
pub(crate) struct Keeper(Arc<Inner>);

struct Inner {
    orders: mpsc::UnboundedSender<Order>,
    ids: AtomicU64,
    clock: Clock,
    capabilities: Capabilities,
    /// Whose thread it is; a forked child has none of its parent's threads.
    process: u32,
}

/// What a keeper is asked to do.
pub(super) enum Order {
    Try { id: Id, claim: Claim, terms: Terms, within: Duration, answer: oneshot::Sender<Answer> },
    Pause { id: Id, until: Moment, listen: bool, answer: oneshot::Sender<Woken> },
    Release { id: Id, parting: Parting, answer: oneshot::Sender<Released> },
    At { at: Moment, timer: Timer },
    Probe { claim: Claim, within: Duration, answer: oneshot::Sender<Result<(), BackendError>> },
    Close { within: Duration, answer: oneshot::Sender<Remains> },
    Lose { key: Option<LockKey>, answer: oneshot::Sender<bool> },
    Settle { answer: oneshot::Sender<bool> },
}

/// A call to be made later.
pub(super) struct Timer {
    /// For whom; once that is gone nobody needs the call.
    of: Weak<dyn Any + Send + Sync>,
    call: Box<dyn FnOnce() + Send>,
}

/// The answer to an attempt; a grant comes with the signal of its loss.
pub(crate) struct Answer {
    pub(crate) told: Told,
    pub(crate) ended: Arc<Notify>,
}

/// How a pause ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Its time was over.
    No,
    /// The lock may be free.
    Yes,
    /// The manager is shutting down.
    ShuttingDown,
}

/// The keeper has ended; nothing can be locked any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended;

impl Keeper {
    /// A keeper on a thread of its own.
    ///
    /// # Errors
    ///
    /// [`SetupError::System`] if the system gives no thread or no runtime.
    pub(crate) fn on_thread(backend: Arc<dyn DynBackend>, clock: Clock) -> Result<Self, SetupError> {
        let refused = |what: &'static str| {
            move |error: std::io::Error| SetupError::System { what, reason: error.to_string() }
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(refused("a runtime for the keeper"))?;
        let (keeper, driver) = Self::new(backend, clock);
        thread::Builder::new()
            .name(String::from("lockrt-keeper"))
            .spawn(move || runtime.block_on(driver.run()))
            .map_err(refused("a thread for the keeper"))?;
        Ok(keeper)
    }

    /// A keeper that is a task of `runtime`, for tests whose time stands still.
    pub(crate) fn on_runtime(
        backend: Arc<dyn DynBackend>,
        clock: Clock,
        runtime: &tokio::runtime::Handle,
    ) -> Self {
        let (keeper, driver) = Self::new(backend, clock);
        runtime.spawn(driver.run());
        keeper
    }

    fn new(backend: Arc<dyn DynBackend>, clock: Clock) -> (Self, Driver) {
        let (orders, received) = mpsc::unbounded_channel();
        let capabilities = *backend.capabilities();
        let process = std::process::id();
        let inner = Inner { orders, ids: AtomicU64::new(1), clock, capabilities, process };
        (Self(Arc::new(inner)), Driver::new(backend, clock, received))
    }

    pub(crate) fn clock(&self) -> Clock {
        self.0.clock
    }

    pub(crate) fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    /// A place for a new claim. Dropping it gives up whatever the claim may have by then.
    pub(crate) fn seat(&self, claim: Claim, terms: Terms) -> Seat {
        let id = self.0.ids.fetch_add(1, Ordering::Relaxed);
        Seat { keeper: self.clone(), id, claim, terms, tried: false, taken: false }
    }

    /// Runs `call` at `at`, on the keeper, if somebody still has `whom` by then. It must be short.
    pub(crate) fn call_at<T: Send + Sync + 'static>(
        &self,
        at: Moment,
        whom: &Arc<T>,
        call: impl FnOnce(&Arc<T>) + Send + 'static,
    ) {
        let whom = Arc::downgrade(whom);
        let of: Weak<dyn Any + Send + Sync> = Weak::<T>::clone(&whom);
        let call = move || {
            if let Some(whom) = whom.upgrade() {
                call(&whom);
            }
        };
        self.order(Order::At { at, timer: Timer { of, call: Box::new(call) } });
    }

    /// Asks the lock service for a sign of life.
    pub(crate) fn probe(
        &self,
        claim: Claim,
        within: Duration,
    ) -> impl Future<Output = Result<(), BackendError>> + Send + use<> {
        let answer = self.ask(|answer| Order::Probe { claim, within, answer });
        async move {
            let gone = || BackendError::not_applied("the keeper has ended");
            answer.await.unwrap_or_else(|_| Err(gone()))
        }
    }

    /// Refuses new claims, waits for the running bodies, then takes their leases.
    pub(crate) async fn close(&self, within: Duration) -> Remains {
        self.ask(|answer| Order::Close { within, answer }).await.unwrap_or_default()
    }

    /// Ends the leases of `key`, or all, as if the lock service had said that they are gone.
    /// Whether there was one.
    pub(crate) async fn lose(&self, key: Option<LockKey>) -> bool {
        self.ask(|answer| Order::Lose { key, answer }).await.unwrap_or_default()
    }

    /// Resolves once all that has been given back by now is freed. Whether a lease is left.
    pub(crate) async fn settled(&self) -> bool {
        self.ask(|answer| Order::Settle { answer }).await.unwrap_or_default()
    }

    /// Whether this process was forked from the one that made the keeper.
    pub(crate) fn is_of_another_process(&self) -> bool {
        self.0.process != std::process::id()
    }

    fn order(&self, order: Order) {
        if self.is_of_another_process() {
            // Nobody would ever carry it out; whoever asks is told by the loss of its answer.
            return;
        }
        // A keeper that has ended has nothing left to release, and nobody to tell.
        let _ = self.0.orders.send(order);
    }

    fn ask<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        self.order(order(sender));
        receiver
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("backend", &self.0.capabilities.name()).finish()
    }
}

/// One claim's place in the keeper, held by the acquire that wants it.
pub(crate) struct Seat {
    keeper: Keeper,
    id: Id,
    claim: Claim,
    terms: Terms,
    tried: bool,
    taken: bool,
}

impl Seat {
    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Makes one attempt, bounded by `within`. The claim is registered before the first byte
    /// leaves, so that an attempt whose caller vanishes is cleaned up.
    ///
    /// # Cancellation
    ///
    /// The attempt goes on; dropping the seat cleans up behind it.
    pub(crate) async fn attempt(&mut self, within: Duration) -> Result<Answer, Ended> {
        self.tried = true;
        let (id, claim, terms) = (self.id, self.claim.clone(), self.terms.clone());
        let answer = self.keeper.ask(|answer| Order::Try { id, claim, terms, within, answer });
        answer.await.map_err(|_| Ended)
    }

    /// Waits until `until`, or until the lock may be free.
    pub(crate) async fn pause(&self, until: Moment, listen: bool) -> Result<Woken, Ended> {
        let id = self.id;
        let answer = self.keeper.ask(|answer| Order::Pause { id, until, listen, answer });
        answer.await.map_err(|_| Ended)
    }

    /// The claim is granted: hands the place over to its lease.
    pub(crate) fn into_home(mut self) -> Box<dyn Home> {
        self.taken = true;
        Box::new(Place { keeper: self.keeper.clone(), id: self.id })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.tried && !self.taken {
            drop(self.keeper.give_back(self.id, Parting::Unused));
        }
    }
}

/// A granted claim's place in the keeper.
struct Place {
    keeper: Keeper,
    id: Id,
}

impl Home for Place {
    fn give_back(&self, parting: Parting) -> oneshot::Receiver<Released> {
        self.keeper.give_back(self.id, parting)
    }
}

impl Keeper {
    fn give_back(&self, id: Id, parting: Parting) -> oneshot::Receiver<Released> {
        self.ask(|answer| Order::Release { id, parting, answer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::memory::Memory;
    use crate::key::LockKey;
    use crate::token::{OwnerLabel, OwnerToken, ProcessRandom};

    #[tokio::test]
    async fn a_child_that_was_forked_has_no_keeper() {
        let (keeper, _driver) = Keeper::new(Arc::new(Memory::new()), Clock::system());
        let Ok(mut inner) = Arc::try_unwrap(keeper.0) else { panic!("it has one handle") };
        inner.process += 1;
        let child = Keeper(Arc::new(inner));
        let owner = OwnerToken::fresh(&OwnerLabel::new("test"), ProcessRandom::get().unwrap());
        let claim = Claim::new(LockKey::new("k").unwrap(), owner, Duration::from_secs(1), false);
        assert!(child.probe(claim, Duration::from_secs(1)).await.is_err());
        assert!(child.close(Duration::from_secs(1)).await.unreleased.is_empty());
        assert!(child.is_of_another_process());
    }
}
