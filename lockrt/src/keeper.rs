//! The keeper: carries out what the protocol decides, also when no caller is left to do it.
//!
//! It watches each deadline, renews, and cleans up what was dropped or is in doubt. In production
//! it is one thread with a runtime of its own, so that a body that blocks its thread cannot stop
//! its renewal, and a guard that is dropped as the last thing of a runtime is released all the
//! same. In tests it may be a task on tokio's clock. Callers make their first attempt and their
//! release themselves, in the keeper's runtime, and leave them to the keeper when they go away.

mod desk;
mod driver;
mod effect;
mod errand;
mod foreign;
mod ledger;
mod record;
mod timers;
mod waiters;

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak, mpsc};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Handle, Runtime};
use tokio::sync::futures::Notified;
use tokio::sync::oneshot;

use crate::backend::erased::DynBackend;
use crate::claim::{Capabilities, Claim, Released};
use crate::clock::{Clock, Moment};
use crate::error::{BackendError, SetupError};
use crate::key::LockKey;
use crate::protocol::kept::{Parting, Remains, Terms, Told};
use crate::token::FencingToken;
use desk::Desk;
use driver::Driver;
use errand::Errand;
pub(crate) use foreign::waking;
use ledger::Work;
use record::Letter;
pub(crate) use record::Record;
use timers::Timer;

/// A handle on a keeper. The keeper finishes its work and ends when the last one is dropped.
#[derive(Clone)]
pub(crate) struct Keeper(Arc<Inner>);

struct Inner {
    desk: Arc<Desk>,
    ids: AtomicU64,
    capabilities: Capabilities,
    /// Whose thread it is; a forked child has none of its parent's threads.
    process: u32,
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

impl Inner {
    fn is_of(&self, pid: u32) -> bool {
        self.process == pid
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The desk of a forked child may be locked for ever, by a thread that it does not have.
        if self.is_of(std::process::id()) {
            self.desk.leave();
        }
    }
}

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
        // The thread first: a runtime that comes to nothing must not be dropped within another one.
        let (give, given) = mpsc::channel::<(Runtime, Driver)>();
        thread::Builder::new()
            .name(String::from("lockrt-keeper"))
            .spawn(move || {
                if let Ok((runtime, driver)) = given.recv() {
                    runtime.block_on(driver.run());
                }
            })
            .map_err(refused("a thread for the keeper"))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(refused("a runtime for the keeper"))?;
        let (keeper, driver) = Self::new(backend, clock, runtime.handle(), true);
        // The thread waits for it.
        let _ = give.send((runtime, driver));
        Ok(keeper)
    }

    /// A keeper that is a task of `runtime`, for tests whose time stands still.
    pub(crate) fn on_runtime(backend: Arc<dyn DynBackend>, clock: Clock, runtime: &Handle) -> Self {
        let (keeper, driver) = Self::new(backend, clock, runtime, false);
        runtime.spawn(driver.run());
        keeper
    }

    fn new(backend: Arc<dyn DynBackend>, clock: Clock, runtime: &Handle, looks: bool) -> (Self, Driver) {
        let capabilities = *backend.capabilities();
        let desk = Arc::new(Desk::new(backend, clock, runtime.clone(), looks));
        let driver = Driver::new(Arc::clone(&desk));
        let (ids, process) = (AtomicU64::new(1), std::process::id());
        (Self(Arc::new(Inner { desk, ids, capabilities, process })), driver)
    }

    pub(crate) fn clock(&self) -> Clock {
        self.0.desk.clock
    }

    pub(crate) fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    /// A place for a new claim of `manager`, for the lock that it calls `key`. Dropping it gives up whatever
    /// the claim may have by then.
    pub(crate) fn seat(
        &self,
        claim: Claim,
        terms: Terms,
        (name, key, manager): (&'static str, &LockKey, u64),
    ) -> Seat {
        let id = self.0.ids.fetch_add(1, Ordering::Relaxed);
        let record = Arc::new(Record::new(id, name, key.clone(), manager));
        let place = Place { keeper: self.clone(), record };
        Seat { place, claim, terms, tried: false, taken: false }
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
        if let Some(desk) = self.desk() {
            desk.set_timer(at, Timer { of, call: Box::new(call) });
        }
    }

    /// Asks the lock service for a sign of life.
    pub(crate) async fn probe(&self, claim: Claim, within: Duration) -> Result<(), BackendError> {
        let answer = self.ask(|answer| Work::Probe { claim, within, answer });
        answer.await.unwrap_or_else(|_| Err(BackendError::not_applied("the keeper has ended")))
    }

    /// Refuses new claims, waits for the running bodies, then takes their leases.
    pub(crate) async fn close(&self, within: Duration) -> Remains {
        // In a forked child there is nothing that this process could release.
        let Some(desk) = self.desk() else { return Remains::default() };
        let (answer, remains) = oneshot::channel();
        desk.close(desk.clock.now() + within, answer);
        remains.await.unwrap_or_default()
    }

    /// Ends the leases of `key`, or all, as if the lock service had said that they are gone.
    /// Whether there was one.
    pub(crate) fn lose(&self, key: Option<&LockKey>) -> bool {
        self.desk().is_some_and(|desk| desk.lose(key))
    }

    /// Whether all that has been given back by now is freed.
    pub(crate) fn is_settled(&self) -> bool {
        self.desk().is_none_or(|desk| desk.is_settled())
    }

    /// Whether somebody has a lease.
    pub(crate) fn has_lease(&self) -> bool {
        self.desk().is_some_and(|desk| desk.has_lease())
    }

    /// Whether the process `pid` made the keeper, and was not forked from the one that did.
    pub(crate) fn is_of(&self, pid: u32) -> bool {
        self.0.is_of(pid)
    }

    /// None in a forked child: nobody there would carry anything out.
    fn desk(&self) -> Option<&Arc<Desk>> {
        self.is_of(std::process::id()).then_some(&self.0.desk)
    }

    /// Leaves work to the driver; whoever asks where there is none is told by the loss of its answer.
    fn ask<T>(&self, work: impl FnOnce(oneshot::Sender<T>) -> Work) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        if let Some(desk) = self.desk() {
            desk.order(work(sender));
        }
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
    place: Place,
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
    pub(crate) async fn attempt(&mut self, within: Duration) -> Result<Told, Ended> {
        let Place { keeper, record } = &self.place;
        // Asking the system for the process takes time, and the poll in which a claim that does not
        // wait makes its first attempt has done so.
        let asked = !self.claim.waits() && !self.tried;
        let desk = if asked { &keeper.0.desk } else { keeper.desk().ok_or(Ended)? };
        self.tried = true;
        let errand = desk.attempt(record, &self.claim, self.terms, within)?;
        match self.place.letter(errand).await? {
            Letter::Told(told) => Ok(told),
            // There is nothing to release before the seat is given up.
            Letter::Released(_) => Err(Ended),
        }
    }

    /// Waits until `until`, or until the lock may be free.
    pub(crate) async fn pause(&self, until: Moment, listen: bool) -> Result<Woken, Ended> {
        let id = self.place.record.id;
        let answer = self.place.keeper.ask(|answer| Work::Pause { id, until, listen, answer });
        answer.await.map_err(|_| Ended)
    }

    /// The claim is granted, with this token: hands the place over to its lease.
    pub(crate) fn into_place(mut self, fencing: Option<FencingToken>) -> Place {
        self.taken = true;
        let record = &self.place.record;
        record.word.take();
        if let Some(token) = fencing {
            // It is granted once.
            let _ = record.fencing.set(token);
        }
        self.place.clone()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.tried && !self.taken {
            self.place.leave(Parting::Unused);
        }
    }
}

/// A claim's place in the keeper, and what it is told there.
#[derive(Clone)]
pub(crate) struct Place {
    keeper: Keeper,
    record: Arc<Record>,
}

impl Place {
    pub(crate) fn clock(&self) -> Clock {
        self.keeper.clock()
    }

    /// The name of the lock service.
    pub(crate) fn backend(&self) -> &'static str {
        self.keeper.capabilities().name()
    }

    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    /// Resolves when the lease is lost after this call.
    pub(crate) fn ended(&self) -> Notified<'_> {
        self.record.ended.notified()
    }

    /// Wakes whoever waits for the end of the lease.
    pub(crate) fn tell_end(&self) {
        waking(|| self.record.ended.notify_waiters());
    }

    /// Leaves the release to the keeper.
    pub(crate) fn leave(&self, parting: Parting) {
        if let Some(desk) = self.keeper.desk() {
            // A claim that is over has nothing left to release.
            let _ = desk.release(self.record.id, parting, false);
        }
    }

    /// Releases, and says what came of it.
    ///
    /// # Cancellation
    ///
    /// The release goes on at the keeper.
    pub(crate) async fn release(&self, parting: Parting) -> Released {
        let Some(desk) = self.keeper.desk() else { return Released::Deferred };
        let Ok(errand) = desk.release(self.record.id, parting, true) else { return Released::Deferred };
        match self.letter(errand).await {
            Ok(Letter::Released(released)) => released,
            Ok(Letter::Told(_)) | Err(Ended) => Released::Deferred,
        }
    }

    /// Waits for what the desk has to say, running the caller's own errand meanwhile.
    async fn letter(&self, errand: Option<Errand>) -> Result<Letter, Ended> {
        Call { place: self, errand, waits: false }.await
    }
}

/// A caller that waits for a letter.
struct Call<'a> {
    place: &'a Place,
    errand: Option<Errand>,
    /// Its waker is in the record.
    waits: bool,
}

impl Future for Call<'_> {
    type Output = Result<Letter, Ended>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Place { keeper, record } = self.place;
        // An attempt that was given up must not send anything any more. A release may, however late.
        let may_be_late = self.errand.as_ref().is_some_and(Errand::is_release);
        if !may_be_late && let Some(letter) = record.take() {
            return Poll::Ready(Ok(letter));
        }
        if self.errand.as_mut().is_some_and(|running| Pin::new(running).poll(cx).is_ready()) {
            self.errand = None;
        }
        self.waits = true;
        if let Some(letter) = record.take_or_wait(cx.waker()) {
            return Poll::Ready(Ok(letter));
        }
        // After the waker is in its place: whoever ends the desk calls all of them afterwards.
        if keeper.0.desk.has_ended() { Poll::Ready(Err(Ended)) } else { Poll::Pending }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.waits {
            self.place.record.stop_waiting();
        }
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
        let (keeper, _driver) =
            Keeper::new(Arc::new(Memory::new()), Clock::system(), &Handle::current(), true);
        let Ok(mut inner) = Arc::try_unwrap(keeper.0) else { panic!("it has one handle") };
        inner.process += 1;
        let child = Keeper(Arc::new(inner));
        let owner = OwnerToken::fresh(&OwnerLabel::new("test", ProcessRandom::get().unwrap()), 1);
        let claim = Claim::new(LockKey::new("k").unwrap(), owner, Duration::from_secs(1), false);
        assert!(child.probe(claim, Duration::from_secs(1)).await.is_err());
        assert!(child.close(Duration::from_secs(1)).await.unreleased.is_empty());
        assert!(!child.is_of(std::process::id()));
    }
}
