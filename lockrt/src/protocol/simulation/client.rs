//! One client: what the keeper's driver does around its machine.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::claim::{Attempt, Released, Renewed};
use crate::clock::Moment;
use crate::error::{BackendError, Outcome};
use crate::protocol::keeping::{Event, Keeping};
use crate::protocol::kept::{Action, Id, Parting, Told};
use crate::protocol::simulation::drift::{Drift, Time};
use crate::protocol::simulation::network::{Fate, LINES};
use crate::protocol::simulation::plan::Flaw;
use crate::protocol::simulation::server::{Answer, Party, Request};
use crate::protocol::simulation::world::{Order, Timer, What, World, index};
use crate::protocol::waiting::attempt_timeout;

#[derive(Debug)]
pub(super) struct Client {
    pub(super) drift: Drift,
    pub(super) keeping: Keeping,
    pub(super) seats: BTreeMap<Id, Seat>,
    pub(super) orders: VecDeque<Order>,
    pub(super) last_order: Time,
    /// What its timer is set to, and how long it had slept by then.
    tick: Option<(Time, Time)>,
    /// Nothing of it runs until then.
    pub(super) frozen_until: Time,
    /// How long it has been frozen in all, and how long of that its timers stood still, too.
    pub(super) frozen_for: Time,
    pub(super) slept: Time,
    pub(super) killed: bool,
    /// By when a shutdown must be over, how long it had been frozen by then.
    pub(super) closing: Option<(Time, Time)>,
    /// By when the first shutdown takes all leases, how long it had been frozen by then.
    pub(super) cut: Option<(Time, Time)>,
}

/// What the driver knows of a claim beside the machine.
#[derive(Debug, Default)]
pub(super) struct Seat {
    within: std::time::Duration,
    pub(super) listening: bool,
    heard: bool,
    /// The pause that runs, and whether a wake-up ends it.
    pause: Option<(u64, bool)>,
    pauses: u64,
    /// Somebody waits for the release.
    awaited: bool,
    /// Since when it may have a place in a queue, and is told what becomes of it.
    pub(super) place: Option<Moment>,
}

/// A call that is on its way.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) client: usize,
    pub(super) line: usize,
    sent: Moment,
    pub(super) left: Time,
    /// How long its client had been frozen by then.
    frozen: Time,
    kind: Kind,
    pub(super) open: bool,
}

#[derive(Clone, Debug)]
enum Kind {
    /// And whether it may have had a place before.
    Try(Id, bool),
    Renew(Vec<Id>),
    Free(Id),
    /// Nobody waits for its answer.
    Decline,
}

impl Client {
    pub(super) fn new(drift: Drift) -> Self {
        Self {
            drift,
            keeping: Keeping::default(),
            seats: BTreeMap::new(),
            orders: VecDeque::new(),
            last_order: 0,
            tick: None,
            frozen_until: 0,
            frozen_for: 0,
            slept: 0,
            killed: false,
            closing: None,
            cut: None,
        }
    }
}

impl World {
    /// The next order in the keeper's queue has come.
    pub(super) fn take_order(&mut self, client: usize) {
        let Some(order) = self.clients[client].orders.pop_front() else { return };
        match order {
            Order::Try { id, within } => {
                let caller = self.caller(id);
                let (claim, terms, record) = (caller.claim.clone(), caller.terms, Arc::clone(&caller.record));
                self.clients[client].seats.entry(id).or_default().within = within;
                self.step(client, Event::Try { id, claim, terms, record });
            }
            Order::Pause { id, until, listen } => self.pause(client, id, until, listen),
            Order::Release { id, parting } => {
                if let Some(seat) = self.clients[client].seats.get_mut(&id) {
                    seat.stop_waiting();
                    seat.awaited = parting != Parting::Unused;
                    self.step(client, Event::Release { id, parting });
                } else if parting != Parting::Unused {
                    // Forgotten, after a shutdown: the caller's end of the answer is dropped.
                    self.hop(client, What::Released(id, Released::Deferred));
                }
            }
            Order::Close { within } => {
                self.check_closing(client, within);
                let until = self.clients[client].drift.moment(self.now) + within;
                self.step(client, Event::Close { until });
            }
        }
    }

    pub(super) fn tick(&mut self, client: usize, at: Time) {
        if self.clients[client].tick.is_some_and(|(set, _)| set == at) {
            self.clients[client].tick = None;
            self.step(client, Event::Tick);
        }
    }

    fn step(&mut self, client: usize, event: Event) {
        let now = self.clients[client].drift.moment(self.now);
        self.note(|| format!("client {client}: {event:?}"));
        for action in self.clients[client].keeping.step(event, now) {
            self.note(|| format!("client {client}:   -> {action:?}"));
            self.act(client, action);
        }
        self.set_timer(client);
    }

    fn set_timer(&mut self, client: usize) {
        if self.server.flaw == Flaw::TimeStandsStill {
            return;
        }
        let one = &mut self.clients[client];
        let due = one.keeping.next_due().map(|due| one.drift.when(due).max(self.now));
        // Timers of a runtime are never early, and a little late.
        if let Some(due) = due
            && one.tick.is_none_or(|(set, slept)| set > due + 1_500 || set < due || slept < one.slept)
        {
            let at = due + self.dice.between(0, 1_500);
            self.clients[client].tick = Some((at, self.clients[client].slept));
            self.timer(client, at, Timer::Tick(at));
        }
    }

    fn act(&mut self, client: usize, action: Action) {
        let now = self.clients[client].drift.moment(self.now);
        match action {
            Action::Try(id) => {
                let party = self.caller(id).party();
                let Some(seat) = self.clients[client].seats.get_mut(&id) else { return };
                let within = seat.within;
                seat.heard = false;
                let again = seat.place.is_some();
                if party.waits && self.server.has_queues {
                    seat.place.get_or_insert(now);
                }
                self.check_attempt(id);
                self.send(client, Kind::Try(id, again), Request::Try(party), within);
            }
            Action::Renew(ids) => {
                let parties: Vec<Party> = ids.iter().map(|id| self.callers[index(*id)].party()).collect();
                let within = parties.iter().map(|party| party.ttl).min().unwrap() / 6;
                for id in &ids {
                    self.check_renewal(*id);
                }
                self.send(client, Kind::Renew(ids), Request::Renew(parties), within);
            }
            Action::Free(id) => {
                let party = self.caller(id).party();
                if let Some(seat) = self.clients[client].seats.get_mut(&id) {
                    seat.place = None;
                }
                self.send(client, Kind::Free(id), Request::Free(party), attempt_timeout(party.ttl));
            }
            Action::Tell(id, told) => self.tell(client, id, told),
            Action::TellReleased(id, released) => {
                let seat = self.clients[client].seats.get_mut(&id);
                if seat.is_some_and(|seat| std::mem::take(&mut seat.awaited)) {
                    self.hop(client, What::Released(id, released));
                }
            }
            Action::Lost(id, reason) => {
                self.check_loss(id, reason);
                self.hop(client, What::Poll(id));
            }
            Action::Abandoned(id) => self.caller(id).seen.abandoned = true,
            Action::Forget(id) => {
                let seat = self.clients[client].seats.remove(&id);
                if seat.is_some_and(|seat| seat.awaited) {
                    self.hop(client, What::Released(id, Released::Deferred));
                }
                self.check_forgotten(id);
            }
            Action::Closed(remains) => self.check_closed(client, &remains),
        }
    }

    fn tell(&mut self, client: usize, id: Id, told: Told) {
        if let Told::Granted { .. } = &told {
            self.check_grant(id);
        }
        let Some(seat) = self.clients[client].seats.get_mut(&id) else { return };
        if let (Told::ShuttingDown, Some(_)) = (&told, seat.pause.take()) {
            self.hop(client, What::Paused(id, None));
            return;
        }
        self.hop(client, What::Told(id, told));
    }

    fn send(&mut self, client: usize, kind: Kind, request: Request, within: std::time::Duration) {
        let line = self.dice.index(LINES);
        let call = self.calls.len();
        let sent = self.clients[client].drift.moment(self.now);
        let frozen = self.clients[client].frozen_for;
        self.calls.push(Call { client, line, sent, left: self.now, frozen, kind, open: true });
        self.timer(client, self.now + u64::try_from(within.as_micros()).unwrap(), Timer::TimeOut(call));
        let fate = self.network.request(client, line, self.now, &mut self.dice);
        self.note(|| format!("client {client}: call {call} on line {line}: {request:?} {fate:?}"));
        match fate {
            Fate::Arrives(at) => self.at(at, What::Arrive { call, request }),
            Fate::Lost => {}
            Fate::Refused => {
                let error = BackendError::not_applied("no connection");
                self.hop(client, What::Reply { call, answer: Err(error) });
            }
        }
    }

    /// A call has ended, by its answer or without.
    pub(super) fn end_call(&mut self, call: usize, answer: Result<Answer, BackendError>) {
        let Call { client, sent, frozen, open, kind, .. } = &mut self.calls[call];
        if !std::mem::take(open) {
            return;
        }
        let (client, mut sent, frozen, kind) = (*client, *sent, *frozen, kind.clone());
        self.checks.silent += u64::from(answer.is_err());
        if self.server.flaw == Flaw::SentIsWhenAnswered {
            sent = self.clients[client].drift.moment(self.now);
        }
        let event = match kind {
            Kind::Try(id, again) => {
                let result = answer.map(|answer| match answer {
                    Answer::Tried(attempt) => attempt,
                    other => panic!("{other:?} for an attempt"),
                });
                self.keep_place(client, id, again, &result);
                Event::Tried { id, sent, result: self.misread(result) }
            }
            Kind::Renew(ids) => {
                let answers = match answer {
                    Ok(Answer::Renewed(answers)) => answers,
                    Ok(other) => panic!("{other:?} for a renewal"),
                    Err(error) => vec![Renewed::Unknown(error); ids.len()],
                };
                Event::Renewed { sent, answers: ids.into_iter().zip(answers.into_iter().map(Some)).collect() }
            }
            Kind::Free(id) => {
                let result = answer.map(|answer| match answer {
                    Answer::Freed(released) => released,
                    other => panic!("{other:?} for a release"),
                });
                Event::Freed { id, result }
            }
            Kind::Decline => return,
        };
        let renewed = if let Event::Renewed { answers, .. } = &event { answers.clone() } else { Vec::new() };
        for (id, answer) in &renewed {
            if let Some(Renewed::Extended) = answer {
                self.check_extended(*id, frozen);
            }
        }
        self.step(client, event);
        for (id, answer) in &renewed {
            if let Some(Renewed::Gone) = answer {
                self.check_gone(*id);
            }
        }
    }

    /// Who has the lock, or has asked for nothing, hears no more of a place.
    fn keep_place(&mut self, client: usize, id: Id, again: bool, result: &Result<Attempt, BackendError>) {
        let leaves = match result {
            Ok(Attempt::Granted { .. }) => true,
            Ok(Attempt::Held { .. }) => false,
            Err(error) => !again && error.outcome() == Outcome::NotApplied,
        };
        if let Some(seat) = self.clients[client].seats.get_mut(&id).filter(|_| leaves) {
            seat.place = None;
        }
    }

    pub(super) fn decline(&mut self, client: usize, party: Party) {
        if self.declines() {
            let within = attempt_timeout(party.ttl);
            self.send(client, Kind::Decline, Request::Decline(party), within);
        }
    }

    /// What a driver makes of an answer that takes silence for something else.
    fn misread(&self, result: Result<Attempt, BackendError>) -> Result<Attempt, BackendError> {
        match (result, self.server.flaw) {
            (Err(_), Flaw::UnknownIsContended) => Ok(Attempt::Held { free_in: None }),
            (Err(_), Flaw::UnknownIsGranted) => Ok(Attempt::Granted { fencing: None }),
            (result, _) => result,
        }
    }

    fn pause(&mut self, client: usize, id: Id, until: Moment, listen: bool) {
        let one = &mut self.clients[client];
        if one.keeping.is_closing() || one.keeping.claim(id).is_none() {
            return self.hop(client, What::Paused(id, None));
        }
        let end = one.drift.when(until).max(self.now);
        let Some(seat) = one.seats.get_mut(&id) else { return };
        seat.pauses += 1;
        let pause = seat.pauses;
        seat.listening |= listen;
        if listen && std::mem::take(&mut seat.heard) {
            return self.hop(client, What::Paused(id, Some(true)));
        }
        seat.pause = Some((pause, listen));
        let late = self.dice.between(0, 1_500);
        self.timer(client, end + late, Timer::Pause(id, pause));
    }

    pub(super) fn end_pause(&mut self, client: usize, id: Id, pause: u64) {
        if let Some(seat) = self.clients[client].seats.get_mut(&id)
            && seat.pause.is_some_and(|(running, _)| running == pause)
        {
            seat.pause = None;
            self.hop(client, What::Paused(id, Some(false)));
        }
    }

    /// A hint that the lock of `id` may be free.
    pub(super) fn wake(&mut self, client: usize, id: Id) {
        let Some(seat) =
            self.clients[client].seats.get_mut(&id).filter(|seat| seat.listening || seat.place.is_some())
        else {
            return;
        };
        match seat.pause {
            Some((_, true)) => {
                seat.pause = None;
                self.hop(client, What::Paused(id, Some(true)));
            }
            _ => seat.heard = true,
        }
    }
}

impl Seat {
    fn stop_waiting(&mut self) {
        self.pause = None;
        self.listening = false;
    }
}
