//! What the callers and the driver of one keeper share: its claims, behind one mutex.
//!
//! A caller steps the machine itself and makes its own calls, so that an uncontended lock costs
//! nobody a change of threads. The driver is woken only for what a caller cannot do: work that
//! nobody waits for, and a moment earlier than the one at which it looks anyway.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use crate::backend::erased::DynBackend;
use crate::claim::{Claim, Renewed};
use crate::clock::{Clock, Moment};
use crate::keeper::effect::{After, Effect};
use crate::keeper::errand::{Answered, Call, Errand, discard};
use crate::keeper::ledger::{Kind, Ledger, Out, Seat, Work};
use crate::keeper::record::Record;
use crate::keeper::timers::Timer;
use crate::keeper::{Ended, Woken};
use crate::key::LockKey;
use crate::protocol::keeping::Event;
use crate::protocol::kept::{Id, Parting, Remains, Terms};
use crate::protocol::waiting::attempt_timeout;

/// How often a driver looks that has had something to do lately. A lease that begins now ends
/// after its next look, so it need not be woken for each.
const LOOK: Duration = Duration::from_millis(100);
/// Looks without anything new after which it rests until something is due.
const IDLE_LOOKS: u32 = 20;

pub(super) struct Desk {
    pub(super) backend: Arc<dyn DynBackend>,
    pub(super) clock: Clock,
    /// Where backends run, whoever polls them.
    pub(super) runtime: Handle,
    pub(super) bell: Notify,
    /// Whether the driver looks again and again, to be woken less often.
    looks: bool,
    /// Whose threads lock the ledger.
    process: u32,
    /// There is no driver any more. As in the ledger, for those who need nothing else of it.
    ended: AtomicBool,
    ledger: Mutex<Ledger>,
}

impl Desk {
    pub(super) fn new(backend: Arc<dyn DynBackend>, clock: Clock, runtime: Handle, looks: bool) -> Self {
        let (bell, process) = (Notify::new(), std::process::id());
        let (ended, ledger) = (AtomicBool::new(false), Mutex::default());
        Self { backend, clock, runtime, bell, looks, process, ended, ledger }
    }

    /// Registers an attempt of a caller. If the caller makes it itself, that is its errand.
    pub(super) fn attempt(
        self: &Arc<Self>,
        record: &Arc<Record>,
        claim: &Claim,
        terms: Terms,
        within: Duration,
    ) -> Result<Option<Errand>, Ended> {
        let (id, now) = (record.id, self.clock.now());
        let mut after = After::default();
        let mut ledger = self.ledger();
        if ledger.ended {
            return Err(Ended);
        }
        let seat = ledger.seats.entry(id).or_insert_with(|| Seat::new(Arc::clone(record), claim.ttl_ms()));
        seat.set_within(within);
        // A listener must be set up again before each attempt, which is the driver's to do.
        let own = (!seat.waits).then_some(id);
        let event = Event::Try { id, claim: claim.clone(), terms, record: Arc::<Record>::clone(record) };
        let made = ledger.step(event, now, own, &mut after);
        if made {
            ledger.goes_out(id, Out { sent: now, until: now + within, kind: Kind::Attempt });
        }
        self.unlock(ledger, after);
        Ok(made.then(|| {
            let call = Arc::clone(&self.backend).try_acquire(claim.clone());
            Errand::new(Arc::clone(self), id, Call::Attempt(call))
        }))
    }

    /// Gives a claim up, or back. If its caller makes the release itself, that is its errand.
    ///
    /// # Errors
    ///
    /// If the claim is over.
    pub(super) fn release(
        self: &Arc<Self>,
        id: Id,
        parting: Parting,
        own: bool,
    ) -> Result<Option<Errand>, Ended> {
        let now = self.clock.now();
        let mut after = After::default();
        let mut ledger = self.ledger();
        let seat = ledger.seats.get_mut(&id).ok_or(Ended)?;
        // Whoever never had the lock is not told of its release.
        seat.releasing = parting != Parting::Unused;
        ledger.stop_waiting(id, Woken::No);
        let made = ledger.step(Event::Release { id, parting }, now, own.then_some(id), &mut after);
        let mut claim = None;
        if made {
            claim = ledger.machine.claim(id).cloned();
            let ttl = claim.as_ref().map_or(Duration::ZERO, Claim::ttl);
            let until = now + attempt_timeout(ttl);
            ledger.goes_out(id, Out { sent: now, until, kind: Kind::Release });
        }
        self.unlock(ledger, after);
        Ok(claim.map(|claim| {
            let call = Arc::clone(&self.backend).release(claim);
            Errand::new(Arc::clone(self), id, Call::Release(call))
        }))
    }

    /// Takes in how an errand ended, unless it had been given up by then.
    pub(super) fn answered(&self, id: Id, answered: Answered) {
        let now = self.clock.now();
        let mut after = After::default();
        let mut ledger = self.ledger();
        if let Some(out) = ledger.comes_in(id) {
            let event = answered.event(id, out.sent);
            if ledger.step(event, now, Some(id), &mut after) {
                // Its caller has come to the end of its call, so this one is the driver's.
                ledger.work.push(Work::Free(id));
            }
        }
        self.unlock(ledger, after);
    }

    /// Takes over an errand whose caller is gone.
    pub(super) fn adopt(&self, id: Id, call: Call) {
        if self.process != std::process::id() {
            // In a forked child the ledger, and whatever the call would lock, may be locked for ever by a
            // thread that there is none of.
            std::mem::forget(call);
            return;
        }
        let mut ledger = self.ledger();
        if let Some(Out { sent, until, .. }) = ledger.comes_in(id) {
            ledger.work.push(Work::Adopt { id, sent, until, call });
            self.unlock(ledger, After::default());
        } else {
            drop(ledger);
            discard(call);
        }
    }

    /// Carries an event into the machine.
    pub(super) fn step(&self, event: Event) {
        let now = self.clock.now();
        let mut after = After::default();
        let mut ledger = self.ledger();
        ledger.step(event, now, None, &mut after);
        self.unlock(ledger, after);
    }

    /// Leaves work to the driver; false if there is none.
    pub(super) fn order(&self, work: Work) -> bool {
        let mut ledger = self.ledger();
        let there = !ledger.ended;
        if there {
            if let Work::Pause { id, .. } = &work
                && let Some(seat) = ledger.seats.get_mut(id)
            {
                seat.waits = true;
            }
            ledger.work.push(work);
        }
        self.unlock(ledger, After::default());
        there
    }

    pub(super) fn set_timer(&self, at: Moment, timer: Timer) {
        let mut ledger = self.ledger();
        ledger.timers.set(at, timer);
        self.unlock(ledger, After::default());
    }

    pub(super) fn close(&self, until: Moment, answer: oneshot::Sender<Remains>) {
        let now = self.clock.now();
        let mut after = After::default();
        let mut ledger = self.ledger();
        if !ledger.ended {
            ledger.closing.push(answer);
            ledger.step(Event::Close { until }, now, None, &mut after);
        }
        self.unlock(ledger, after);
    }

    /// Ends the leases of `key`, or all, as if the lock service had said that they are gone.
    /// Whether there was one.
    pub(super) fn lose(&self, key: Option<&LockKey>) -> bool {
        let now = self.clock.now();
        let mut after = After::default();
        let mut ledger = self.ledger();
        let lost = ledger.machine.has_lease(key);
        let seats = ledger.seats.iter().filter(|(_, seat)| key.is_none_or(|key| seat.record.key == *key));
        let answers = seats.map(|(id, _)| (*id, Some(Renewed::Gone))).collect();
        ledger.step(Event::Renewed { sent: now, answers }, now, None, &mut after);
        self.unlock(ledger, after);
        lost
    }

    /// Whether nothing is being given back.
    pub(super) fn is_settled(&self) -> bool {
        self.ledger().machine.is_settled()
    }

    /// Whether somebody has a lease.
    pub(super) fn has_lease(&self) -> bool {
        self.ledger().machine.has_lease(None)
    }

    /// The last handle is gone: the driver finishes what is left.
    pub(super) fn leave(&self) {
        let mut ledger = self.ledger();
        ledger.closed = true;
        ledger.rest.until = None;
        drop(ledger);
        self.bell.notify_one();
    }

    /// The claim of `id` and how long its attempts may take.
    pub(super) fn claim(&self, id: Id) -> Option<(Claim, Duration)> {
        let ledger = self.ledger();
        Some((ledger.machine.claim(id)?.clone(), ledger.seats.get(&id)?.within()))
    }

    pub(super) fn claims(&self, ids: &[Id]) -> Vec<(Id, Claim)> {
        let ledger = self.ledger();
        ids.iter().filter_map(|id| Some((*id, ledger.machine.claim(*id)?.clone()))).collect()
    }

    /// The claim of `id`, unless the manager is shutting down.
    pub(super) fn waiter(&self, id: Id) -> Option<Claim> {
        let ledger = self.ledger();
        ledger.machine.claim(id).filter(|_| !ledger.machine.is_closing()).cloned()
    }

    /// The records of the claims that are still there.
    pub(super) fn records(&self, ids: &[Id]) -> Vec<Option<Arc<Record>>> {
        let ledger = self.ledger();
        ids.iter().map(|id| ledger.seats.get(id).map(|seat| Arc::clone(&seat.record))).collect()
    }

    /// Does what is due and gives the driver its work.
    pub(super) fn look(&self) -> Vec<Work> {
        let now = self.clock.now();
        let mut after = After::default();
        let mut ledger = self.ledger();
        ledger.rest.until = None;
        ledger.due(now, &mut after);
        let work = std::mem::take(&mut ledger.work);
        drop(ledger);
        drop(after);
        work
    }

    /// How long the driver may rest: `Ok(None)` until the bell rings.
    ///
    /// # Errors
    ///
    /// If nothing is left to do.
    pub(super) fn rest(&self) -> Result<Option<Duration>, Ended> {
        let now = self.clock.now();
        let mut ledger = self.ledger();
        if !ledger.work.is_empty() {
            return Ok(Some(Duration::ZERO));
        }
        if ledger.closed && ledger.machine.is_empty() {
            return Err(Ended);
        }
        let mut until = ledger.next_due();
        if self.looks && ledger.rest.busy(IDLE_LOOKS) {
            until = Some(until.map_or(now + LOOK, |until| until.min(now + LOOK)));
        }
        ledger.rest.until = Some(until.unwrap_or(Moment::FAR));
        Ok(until.map(|until| until.since(now)))
    }

    /// Tells everybody that there is no driver any more.
    pub(super) fn end(&self) {
        let mut after = After::default();
        let mut ledger = self.ledger();
        ledger.ended = true;
        self.ended.store(true, Ordering::Release);
        let work = std::mem::take(&mut ledger.work);
        let closing = std::mem::take(&mut ledger.closing);
        ledger.seats.values().for_each(|seat| after.push(Effect::Call(Arc::clone(&seat.record))));
        drop(ledger);
        drop((work, closing));
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Unlocks the desk, wakes the driver if it would look too late, and runs the effects.
    fn unlock(&self, mut ledger: MutexGuard<'_, Ledger>, after: After) {
        ledger.rest.touched = true;
        let late = match ledger.rest.until {
            None => false,
            Some(until) => !ledger.work.is_empty() || ledger.is_due_before(until),
        };
        if late {
            ledger.rest.until = None;
        }
        drop(ledger);
        if late {
            self.bell.notify_one();
        }
        drop(after);
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::thread;

    use super::*;
    use crate::backend::memory::Memory;

    #[tokio::test]
    async fn a_call_that_is_dropped_in_a_forked_child_waits_for_no_thread_of_its_parent() {
        let mut desk = Desk::new(Arc::new(Memory::new()), Clock::system(), Handle::current(), true);
        desk.process += 1;
        let desk = Arc::new(desk);
        let errand = Errand::new(Arc::clone(&desk), 1, Call::Attempt(Box::pin(pending())));
        let _locked = desk.ledger();
        let drops = thread::spawn(move || drop(errand));
        let waits = std::time::Instant::now();
        while !drops.is_finished() {
            assert!(waits.elapsed() < Duration::from_secs(5), "it waits for the ledger");
            thread::yield_now();
        }
    }
}
