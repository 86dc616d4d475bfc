//! What the callers and the driver of one keeper share: its claims, behind one mutex.
//!
//! A caller steps the machine itself and makes its own calls, so that an uncontended lock costs
//! nobody a change of threads. The driver is woken only for what a caller cannot do: work that
//! nobody waits for, and a moment earlier than the one at which it looks anyway.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use crate::backend::erased::DynBackend;
use crate::claim::{Claim, Released, Renewed};
use crate::clock::{Clock, Moment};
use crate::error::BackendError;
use crate::keeper::effect::Effect;
use crate::keeper::errand::{Answered, Call, Errand, discard};
use crate::keeper::signals::{Letter, Signals};
use crate::keeper::timers::{Timer, Timers};
use crate::keeper::{Ended, Woken};
use crate::key::LockKey;
use crate::protocol::keeping::{Event, Keeping};
use crate::protocol::kept::{Action, Id, Parting, Remains, Terms, Told};
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
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    machine: Keeping,
    seats: HashMap<Id, Seat>,
    timers: Timers,
    /// When the calls that callers make themselves are given up.
    cuts: BTreeSet<(Moment, Id)>,
    work: Vec<Work>,
    actions: Vec<Action>,
    closing: Vec<oneshot::Sender<Remains>>,
    rest: Rest,
    /// No handle is left.
    closed: bool,
    /// There is no driver any more.
    ended: bool,
}

/// Until when the driver rests.
#[derive(Default)]
struct Rest {
    until: Option<Moment>,
    touched: bool,
    idle: u32,
}

/// What the desk knows of one claim beside the machine.
struct Seat {
    name: &'static str,
    key: LockKey,
    ttl: Duration,
    within: Duration,
    signals: Arc<Signals>,
    /// The call that its caller makes.
    errand: Option<Out>,
    /// Somebody may wait for the release.
    releasing: bool,
    /// The driver has pauses or listeners of it.
    waits: bool,
}

#[derive(Clone, Copy)]
struct Out {
    sent: Moment,
    until: Moment,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Attempt,
    Release,
}

/// What the driver has to do.
pub(super) enum Work {
    Try(Id),
    Renew(Vec<Id>),
    Free(Id),
    /// A call whose caller is gone.
    Adopt {
        id: Id,
        sent: Moment,
        until: Moment,
        call: Call,
    },
    Pause {
        id: Id,
        until: Moment,
        listen: bool,
        answer: oneshot::Sender<Woken>,
    },
    StopWaiting {
        id: Id,
        why: Woken,
    },
    Probe {
        claim: Claim,
        within: Duration,
        answer: oneshot::Sender<Result<(), BackendError>>,
    },
}

/// Effects run when this is dropped: after the desk is unlocked, since they run code of others.
#[derive(Default)]
pub(super) struct After(Vec<Effect>);

impl Drop for After {
    fn drop(&mut self) {
        for effect in self.0.drain(..) {
            effect.run();
        }
    }
}

impl Desk {
    pub(super) fn new(backend: Arc<dyn DynBackend>, clock: Clock, runtime: Handle, looks: bool) -> Self {
        Self { backend, clock, runtime, bell: Notify::new(), looks, state: Mutex::default() }
    }

    /// Registers an attempt of a caller. If the caller makes it itself, that is its errand.
    pub(super) fn attempt(
        self: &Arc<Self>,
        id: Id,
        claim: &Claim,
        terms: &Terms,
        within: Duration,
        signals: &Arc<Signals>,
    ) -> Result<Option<Errand>, Ended> {
        let now = self.clock.now();
        let mut after = After::default();
        let mut state = self.state();
        if state.ended {
            return Err(Ended);
        }
        let seat = state.seats.entry(id).or_insert_with(|| Seat {
            name: terms.name,
            key: terms.key.clone(),
            ttl: claim.ttl(),
            within,
            signals: Arc::clone(signals),
            errand: None,
            releasing: false,
            waits: false,
        });
        seat.within = within;
        // A listener must be set up again before each attempt, which is the driver's to do.
        let own = (!seat.waits).then_some(id);
        let event = Event::Try { id, claim: claim.clone(), terms: terms.clone() };
        let made = state.step(event, now, own, &mut after);
        if made {
            state.goes_out(id, Out { sent: now, until: now + within, kind: Kind::Attempt });
        }
        self.unlock(state, after);
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
        let mut state = self.state();
        let seat = state.seats.get_mut(&id).ok_or(Ended)?;
        // Whoever never had the lock is not told of its release.
        seat.releasing = parting != Parting::Unused;
        state.stop_waiting(id, Woken::No);
        let made = state.step(Event::Release { id, parting }, now, own.then_some(id), &mut after);
        let mut claim = None;
        if made {
            claim = state.machine.claim(id).cloned();
            let ttl = claim.as_ref().map_or(Duration::ZERO, Claim::ttl);
            let until = now + attempt_timeout(ttl);
            state.goes_out(id, Out { sent: now, until, kind: Kind::Release });
        }
        self.unlock(state, after);
        Ok(claim.map(|claim| {
            let call = Arc::clone(&self.backend).release(claim);
            Errand::new(Arc::clone(self), id, Call::Release(call))
        }))
    }

    /// Takes in how an errand ended, unless it had been given up by then.
    pub(super) fn answered(&self, id: Id, answered: Answered) {
        let now = self.clock.now();
        let mut after = After::default();
        let mut state = self.state();
        if let Some(out) = state.comes_in(id) {
            let event = answered.event(id, out.sent);
            state.step(event, now, Some(id), &mut after);
        }
        self.unlock(state, after);
    }

    /// Takes over an errand whose caller is gone.
    pub(super) fn adopt(&self, id: Id, call: Call) {
        let mut state = self.state();
        if let Some(Out { sent, until, .. }) = state.comes_in(id) {
            state.work.push(Work::Adopt { id, sent, until, call });
            self.unlock(state, After::default());
        } else {
            drop(state);
            discard(call);
        }
    }

    /// Carries an event into the machine.
    pub(super) fn step(&self, event: Event) {
        let now = self.clock.now();
        let mut after = After::default();
        let mut state = self.state();
        state.step(event, now, None, &mut after);
        self.unlock(state, after);
    }

    /// Leaves work to the driver; false if there is none.
    pub(super) fn order(&self, work: Work) -> bool {
        let mut state = self.state();
        let there = !state.ended;
        if there {
            if let Work::Pause { id, .. } = &work
                && let Some(seat) = state.seats.get_mut(id)
            {
                seat.waits = true;
            }
            state.work.push(work);
        }
        self.unlock(state, After::default());
        there
    }

    pub(super) fn set_timer(&self, at: Moment, timer: Timer) {
        let mut state = self.state();
        state.timers.set(at, timer);
        self.unlock(state, After::default());
    }

    pub(super) fn close(&self, until: Moment, answer: oneshot::Sender<Remains>) {
        let now = self.clock.now();
        let mut after = After::default();
        let mut state = self.state();
        if !state.ended {
            state.closing.push(answer);
            state.step(Event::Close { until }, now, None, &mut after);
        }
        self.unlock(state, after);
    }

    /// Ends the leases of `key`, or all, as if the lock service had said that they are gone.
    /// Whether there was one.
    pub(super) fn lose(&self, key: Option<&LockKey>) -> bool {
        let now = self.clock.now();
        let mut after = After::default();
        let mut state = self.state();
        let lost = state.machine.has_lease(key);
        let seats = state.seats.iter().filter(|(_, seat)| key.is_none_or(|key| seat.key == *key));
        let answers = seats.map(|(id, _)| (*id, Some(Renewed::Gone))).collect();
        state.step(Event::Renewed { sent: now, answers }, now, None, &mut after);
        self.unlock(state, after);
        lost
    }

    /// Whether nothing is being given back.
    pub(super) fn is_settled(&self) -> bool {
        self.state().machine.is_settled()
    }

    /// Whether somebody has a lease.
    pub(super) fn has_lease(&self) -> bool {
        self.state().machine.has_lease(None)
    }

    /// The last handle is gone: the driver finishes what is left.
    pub(super) fn leave(&self) {
        let mut state = self.state();
        state.closed = true;
        state.rest.until = None;
        drop(state);
        self.bell.notify_one();
    }

    /// The claim of `id` and how long its attempts may take.
    pub(super) fn claim(&self, id: Id) -> Option<(Claim, Duration)> {
        let state = self.state();
        Some((state.machine.claim(id)?.clone(), state.seats.get(&id)?.within))
    }

    pub(super) fn claims(&self, ids: &[Id]) -> Vec<(Id, Claim)> {
        let state = self.state();
        ids.iter().filter_map(|id| Some((*id, state.machine.claim(*id)?.clone()))).collect()
    }

    /// The claim of `id`, unless the manager is shutting down.
    pub(super) fn waiter(&self, id: Id) -> Option<Claim> {
        let state = self.state();
        state.machine.claim(id).filter(|_| !state.machine.is_closing()).cloned()
    }

    /// Name and key of the claims that are still there.
    pub(super) fn names(&self, ids: &[Id]) -> Vec<Option<(&'static str, LockKey)>> {
        let state = self.state();
        ids.iter().map(|id| state.seats.get(id).map(|seat| (seat.name, seat.key.clone()))).collect()
    }

    /// Does what is due and gives the driver its work.
    pub(super) fn look(&self) -> Vec<Work> {
        let now = self.clock.now();
        let mut after = After::default();
        let mut state = self.state();
        state.rest.until = None;
        state.due(now, &mut after);
        let work = std::mem::take(&mut state.work);
        drop(state);
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
        let mut state = self.state();
        if !state.work.is_empty() {
            return Ok(Some(Duration::ZERO));
        }
        if state.closed && state.machine.is_empty() {
            return Err(Ended);
        }
        let mut until = state.next_due();
        if self.looks && state.rest.busy() {
            until = Some(until.map_or(now + LOOK, |until| until.min(now + LOOK)));
        }
        state.rest.until = Some(until.unwrap_or(Moment::FAR));
        Ok(until.map(|until| until.since(now)))
    }

    /// Tells everybody that there is no driver any more.
    pub(super) fn end(&self) {
        let mut after = After::default();
        let mut state = self.state();
        state.ended = true;
        let work = std::mem::take(&mut state.work);
        let closing = std::mem::take(&mut state.closing);
        after.0.extend(state.seats.values().map(|seat| Effect::Call(Arc::clone(&seat.signals))));
        drop(state);
        drop((work, closing));
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state().ended
    }

    /// Unlocks the desk, wakes the driver if it would look too late, and runs the effects.
    fn unlock(&self, mut state: MutexGuard<'_, State>, after: After) {
        state.rest.touched = true;
        let late = match state.rest.until {
            None => false,
            Some(until) => !state.work.is_empty() || state.next_due().is_some_and(|due| due < until),
        };
        if late {
            state.rest.until = None;
        }
        drop(state);
        if late {
            self.bell.notify_one();
        }
        drop(after);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rest {
    /// Whether there was something to do lately.
    fn busy(&mut self) -> bool {
        self.idle = if std::mem::take(&mut self.touched) { 0 } else { self.idle.saturating_add(1) };
        self.idle < IDLE_LOOKS
    }
}

impl State {
    fn next_due(&self) -> Option<Moment> {
        let cut = self.cuts.first().map(|(at, _)| *at);
        [self.machine.next_due(), self.timers.next_due(), cut].into_iter().flatten().min()
    }

    /// Carries an event into the machine. Says whether the caller who `own`s a claim is to make
    /// its call itself; other calls are left to the driver.
    fn step(&mut self, event: Event, now: Moment, own: Option<Id>, after: &mut After) -> bool {
        let mut actions = std::mem::take(&mut self.actions);
        self.machine.step_into(event, now, &mut actions);
        let mut made = false;
        for action in actions.drain(..) {
            made |= self.act(action, own, after);
        }
        self.actions = actions;
        made
    }

    fn act(&mut self, action: Action, own: Option<Id>, after: &mut After) -> bool {
        match action {
            Action::Try(id) | Action::Free(id) if own == Some(id) => return true,
            Action::Try(id) => self.work.push(Work::Try(id)),
            Action::Renew(ids) => self.work.push(Work::Renew(ids)),
            Action::Free(id) => self.work.push(Work::Free(id)),
            Action::Tell(id, told) => self.tell(id, told, own, after),
            Action::TellReleased(id, released) => {
                if let Some(seat) = self.seats.get_mut(&id)
                    && std::mem::take(&mut seat.releasing)
                {
                    seat.signals.post(Letter::Released(released));
                    if own != Some(id) {
                        after.0.push(Effect::Call(Arc::clone(&seat.signals)));
                    }
                    after.0.push(Effect::Released(seat.name, seat.key.clone(), released));
                }
            }
            Action::Lost(id, reason) => {
                if let Some(seat) = self.seats.get(&id) {
                    let signals = Arc::clone(&seat.signals);
                    after.0.push(Effect::Lost(signals, seat.name, seat.key.clone(), reason));
                }
            }
            Action::Abandoned(id) => {
                if let Some(seat) = self.seats.get(&id) {
                    after.0.push(Effect::Abandoned(seat.name, seat.key.clone(), seat.ttl));
                }
            }
            Action::Forget(id) => {
                self.stop_waiting(id, Woken::No);
                let _ = self.comes_in(id);
                if let Some(seat) = self.seats.remove(&id) {
                    if seat.releasing {
                        seat.signals.post(Letter::Released(Released::Deferred));
                        after.0.push(Effect::Call(Arc::clone(&seat.signals)));
                    }
                    after.0.push(Effect::Forget(seat.signals));
                }
            }
            Action::Closed(remains) => {
                let closing = self.closing.drain(..);
                after.0.extend(closing.map(|answer| Effect::Closed(answer, remains.clone())));
            }
        }
        false
    }

    fn tell(&mut self, id: Id, told: Told, own: Option<Id>, after: &mut After) {
        match told {
            Told::ShuttingDown => self.stop_waiting(id, Woken::ShuttingDown),
            Told::Granted { .. } => self.stop_waiting(id, Woken::No),
            Told::Stale | Told::Held { .. } | Told::Unanswered(_) => {}
        }
        let Some(seat) = self.seats.get(&id) else { return };
        // A caller that is gone has dropped its seat, and that event is on its way here.
        seat.signals.post(Letter::Told(told));
        if own != Some(id) {
            after.0.push(Effect::Call(Arc::clone(&seat.signals)));
        }
    }

    fn stop_waiting(&mut self, id: Id, why: Woken) {
        if let Some(seat) = self.seats.get_mut(&id).filter(|seat| seat.waits) {
            seat.waits = false;
            self.work.push(Work::StopWaiting { id, why });
        }
    }

    fn goes_out(&mut self, id: Id, out: Out) {
        if let Some(seat) = self.seats.get_mut(&id) {
            seat.errand = Some(out);
            self.cuts.insert((out.until, id));
        }
    }

    fn comes_in(&mut self, id: Id) -> Option<Out> {
        let out = self.seats.get_mut(&id)?.errand.take()?;
        self.cuts.remove(&(out.until, id));
        Some(out)
    }

    /// Timers, errands that take too long, and whatever is due by the machine's account.
    fn due(&mut self, now: Moment, after: &mut After) {
        while let Some(timer) = self.timers.take_due(now) {
            after.0.push(Effect::Timer(timer));
        }
        while let Some(&(at, id)) = self.cuts.first() {
            if at > now {
                break;
            }
            let Some(out) = self.comes_in(id) else { break };
            let within = out.until.since(out.sent).as_millis();
            let error = BackendError::unknown(format!("no answer within {within} ms"));
            let event = match out.kind {
                Kind::Attempt => Event::Tried { id, sent: out.sent, result: Err(error) },
                Kind::Release => Event::Freed { id, result: Err(error) },
            };
            self.step(event, now, None, after);
        }
        if self.machine.next_due().is_some_and(|due| due <= now) {
            self.step(Event::Tick, now, None, after);
        }
    }
}
