//! The claims of one keeper: the machine, and what it does not know of each claim.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::claim::{Claim, Released};
use crate::clock::Moment;
use crate::error::BackendError;
use crate::keeper::Woken;
use crate::keeper::effect::{After, Effect};
use crate::keeper::errand::Call;
use crate::keeper::record::{Letter, Record};
use crate::keeper::timers::Timers;
use crate::protocol::by_id::{ById, shrink};
use crate::protocol::due::Due;
use crate::protocol::keeping::{Event, Keeping};
use crate::protocol::kept::{Action, Id, Remains, Told};

/// Behind the desk's mutex. Nothing here runs code of others, or talks to the lock service.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) machine: Keeping,
    pub(super) seats: ById<Seat>,
    pub(super) timers: Timers,
    /// When the calls that callers make themselves are given up.
    pub(super) cuts: Due,
    pub(super) work: Vec<Work>,
    pub(super) actions: Vec<Action>,
    pub(super) closing: Vec<oneshot::Sender<Remains>>,
    pub(super) rest: Rest,
    /// No handle is left.
    pub(super) closed: bool,
    /// There is no driver any more.
    pub(super) ended: bool,
}

/// Until when the driver rests.
#[derive(Default)]
pub(super) struct Rest {
    pub(super) until: Option<Moment>,
    pub(super) touched: bool,
    pub(super) idle: u32,
}

/// What the machine does not know of a claim.
pub(super) struct Seat {
    pub(super) record: Arc<Record>,
    /// The call that its caller makes.
    pub(super) errand: Option<Out>,
    pub(super) ttl_ms: u64,
    /// How long an attempt may take: a second at most.
    within_us: u32,
    /// Somebody may wait for the release.
    pub(super) releasing: bool,
    /// The driver has pauses or listeners of it.
    pub(super) waits: bool,
}

impl Seat {
    pub(super) fn new(record: Arc<Record>, ttl_ms: u64) -> Self {
        Self { record, errand: None, ttl_ms, within_us: 0, releasing: false, waits: false }
    }

    pub(super) fn within(&self) -> Duration {
        Duration::from_micros(self.within_us.into())
    }

    pub(super) fn set_within(&mut self, within: Duration) {
        self.within_us = u32::try_from(within.as_micros()).unwrap_or(u32::MAX);
    }
}

/// A call that a caller makes itself.
#[derive(Clone, Copy)]
pub(super) struct Out {
    pub(super) sent: Moment,
    pub(super) until: Moment,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
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

impl Rest {
    /// Whether there was something to do lately.
    pub(super) fn busy(&mut self, looks: u32) -> bool {
        self.idle = if std::mem::take(&mut self.touched) { 0 } else { self.idle.saturating_add(1) };
        self.idle < looks
    }
}

impl Ledger {
    pub(super) fn next_due(&self) -> Option<Moment> {
        let cut = self.cuts.first().map(|(at, _)| at);
        [self.machine.next_due(), self.timers.next_due(), cut].into_iter().flatten().min()
    }

    /// The same question, asked after each change, where no more than the answer is wanted.
    pub(super) fn is_due_before(&self, until: Moment) -> bool {
        let earlier = |due: Option<Moment>| due.is_some_and(|due| due < until);
        earlier(self.machine.next_due())
            || earlier(self.cuts.first().map(|(at, _)| at))
            || earlier(self.timers.next_due())
    }

    /// Carries an event into the machine. Says whether the caller who `own`s a claim is to make
    /// its call itself; other calls are left to the driver.
    pub(super) fn step(&mut self, event: Event, now: Moment, own: Option<Id>, after: &mut After) -> bool {
        let mut actions = std::mem::take(&mut self.actions);
        self.machine.step_into(event, now, &mut actions);
        let mut made = false;
        for action in actions.drain(..) {
            made |= self.act(action, own, after);
        }
        self.actions = actions;
        made
    }

    pub(super) fn act(&mut self, action: Action, own: Option<Id>, after: &mut After) -> bool {
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
                    seat.record.post(Letter::Released(released));
                    if own != Some(id) {
                        after.push(Effect::Call(Arc::clone(&seat.record)));
                    }
                    after.push(Effect::Released(Arc::clone(&seat.record), released));
                }
            }
            Action::Lost(id, reason) => {
                if let Some(seat) = self.seats.get(&id) {
                    after.push(Effect::Lost(Arc::clone(&seat.record), reason));
                }
            }
            Action::Abandoned(id) => {
                if let Some(seat) = self.seats.get(&id) {
                    after.push(Effect::Abandoned(Arc::clone(&seat.record), seat.ttl_ms));
                }
            }
            Action::Forget(id) => {
                self.stop_waiting(id, Woken::No);
                let _ = self.comes_in(id);
                if let Some(seat) = self.seats.remove(&id) {
                    shrink(&mut self.seats);
                    if seat.releasing {
                        seat.record.post(Letter::Released(Released::Deferred));
                        after.push(Effect::Call(Arc::clone(&seat.record)));
                    }
                    after.push(Effect::Forget(seat.record));
                }
            }
            Action::Closed(remains) => {
                let closing = self.closing.drain(..);
                closing.for_each(|answer| after.push(Effect::Closed(answer, remains.clone())));
            }
        }
        false
    }

    pub(super) fn tell(&mut self, id: Id, told: Told, own: Option<Id>, after: &mut After) {
        match told {
            Told::ShuttingDown => self.stop_waiting(id, Woken::ShuttingDown),
            Told::Granted { .. } => self.stop_waiting(id, Woken::No),
            Told::Stale | Told::Held { .. } | Told::Unanswered(_) => {}
        }
        let Some(seat) = self.seats.get(&id) else { return };
        // A caller that is gone has dropped its seat, and that event is on its way here.
        seat.record.post(Letter::Told(told));
        if own != Some(id) {
            after.push(Effect::Call(Arc::clone(&seat.record)));
        }
    }

    pub(super) fn stop_waiting(&mut self, id: Id, why: Woken) {
        if let Some(seat) = self.seats.get_mut(&id).filter(|seat| seat.waits) {
            seat.waits = false;
            self.work.push(Work::StopWaiting { id, why });
        }
    }

    pub(super) fn goes_out(&mut self, id: Id, out: Out) {
        if let Some(seat) = self.seats.get_mut(&id) {
            seat.errand = Some(out);
            self.cuts.set(out.until, id);
        }
        self.tidy();
    }

    fn tidy(&mut self) {
        let seats = &self.seats;
        let out = |id| seats.get(&id).and_then(|seat| seat.errand);
        self.cuts.tidy(|at, id| out(id).is_some_and(|out| out.until == at));
    }

    pub(super) fn comes_in(&mut self, id: Id) -> Option<Out> {
        let out = self.seats.get_mut(&id)?.errand.take()?;
        self.tidy();
        Some(out)
    }

    /// Timers, errands that take too long, and whatever is due by the machine's account.
    pub(super) fn due(&mut self, now: Moment, after: &mut After) {
        while let Some(timer) = self.timers.take_due(now) {
            after.push(Effect::Timer(timer));
        }
        while let Some((at, id)) = self.cuts.take(now) {
            if self.seats.get(&id).and_then(|seat| seat.errand).is_none_or(|out| out.until != at) {
                continue;
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
