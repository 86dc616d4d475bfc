//! One caller: what `acquire`, `run` and `guard` do around the machine that waits.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Claim, Released};
use crate::clock::Moment;
use crate::error::LossReason;
use crate::policy::Contention;
use crate::protocol::kept::{Id, Parting, Record, Terms, Told};
use crate::protocol::lease::{End, LeaseWord, Standing};
use crate::protocol::simulation::checks::us;
use crate::protocol::simulation::drift::{MS, Time};
use crate::protocol::simulation::plan::{Flaw, Wish};
use crate::protocol::simulation::server::Party;
use crate::protocol::simulation::world::{Order, Timer, What, World, index};
use crate::protocol::waiting::{Event, Step, Waiting};

#[derive(Debug)]
pub(super) struct Caller {
    pub(super) id: Id,
    pub(super) wish: Wish,
    pub(super) claim: Claim,
    pub(super) terms: Terms,
    pub(super) record: Arc<dyn Record>,
    pub(super) state: State,
    pub(super) waiting: Option<Waiting>,
    /// Whether a seat has asked for an attempt.
    pub(super) tried: bool,
    pub(super) seen: Seen,
}

#[derive(Debug)]
pub(super) enum State {
    NotYet,
    Acquiring,
    Body {
        token: u64,
        ends: Time,
    },
    /// Given back; the release has been asked for.
    Leaving,
    Done,
}

/// What the checks need to know of a caller.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) started: Time,
    /// How long its client had been frozen by then, or by the last renewal.
    pub(super) frozen: Time,
    pub(super) silent_since: Option<Time>,
    pub(super) refusals: u32,
    /// Grants that came too late.
    pub(super) stale: u32,
    pub(super) attempts: u64,
    /// Renewals that have left since the last one that succeeded.
    pub(super) renewals: u32,
    /// Since the newest attempt left: whether the server lost data, how far its clock was set
    /// forward, and since the start how far back.
    pub(super) data_lost: bool,
    pub(super) set_forward: u64,
    pub(super) set_back: u64,
    pub(super) losses: u32,
    pub(super) left: Option<(Time, Time, Parting)>,
    pub(super) told_release: u32,
    pub(super) granted: Time,
    /// Until when `min_hold` or `on_cancel = hold` keeps the key from others.
    pub(super) rests_until: Time,
    pub(super) abandoned: bool,
    pub(super) forgotten: bool,
}

impl Caller {
    pub(super) fn party(&self) -> Party {
        Party { key: self.wish.key, owner: self.id, ttl: self.claim.ttl(), waits: self.claim.waits() }
    }

    /// Whether the server may have ended its lease before its time.
    pub(super) fn is_betrayed(&self) -> bool {
        let margin = u64::try_from(self.terms.offset_margin.as_micros()).unwrap();
        self.seen.data_lost || self.seen.set_forward > margin
    }
}

impl World {
    pub(super) fn caller(&mut self, id: Id) -> &mut Caller {
        &mut self.callers[index(id)]
    }

    pub(super) fn start(&mut self, id: Id) {
        let now = self.clock_of(id);
        let seed = self.dice.roll();
        let frozen = self.clients[self.callers[index(id)].wish.client].frozen_for;
        let time = self.now;
        let caller = self.caller(id);
        caller.state = State::Acquiring;
        caller.seen.started = time;
        caller.seen.frozen = frozen;
        let mut waiting = Waiting::new(caller.wish.contention, caller.claim.ttl(), seed, now);
        let step = waiting.start(now);
        caller.waiting = Some(waiting);
        if let Some(patience) = caller.wish.patience {
            self.later(patience, What::Cancel(id));
        }
        self.carry_out(id, &step);
    }

    fn carry_out(&mut self, id: Id, step: &Step) {
        self.note(|| format!("caller {id}: {step:?}"));
        let now = self.now;
        match *step {
            Step::Try { within } => {
                let caller = self.caller(id);
                caller.tried = true;
                caller.seen.attempts += 1;
                caller.seen.silent_since.get_or_insert(now);
                self.order(id, Order::Try { id, within });
            }
            Step::Pause { until, listen } => self.order(id, Order::Pause { id, until, listen }),
            Step::Contended { .. } => self.refused(id, "contended"),
            Step::Unavailable(_) => self.refused(id, "unavailable"),
        }
    }

    /// The keeper's answer to an attempt has reached its caller.
    pub(super) fn told(&mut self, id: Id, told: Told) {
        let State::Acquiring = self.caller(id).state else { return };
        let event = match told {
            Told::Granted { fencing } => {
                let token = fencing.map_or(0, crate::token::FencingToken::get);
                self.check_end_of_wait(id, "granted");
                return self.begin_body(id, token);
            }
            Told::ShuttingDown => return self.refused(id, "shutting down"),
            Told::Stale => Event::Stale,
            Told::Held { free_in } => Event::Held { free_in },
            Told::Unanswered(error) => Event::Unanswered(error),
        };
        self.check_answer(id, &event);
        self.go_on(id, event);
    }

    /// A pause has ended; `woken` is none if the manager shuts down.
    pub(super) fn paused(&mut self, id: Id, woken: Option<bool>) {
        let State::Acquiring = self.caller(id).state else { return };
        match woken {
            Some(woken) => self.go_on(id, Event::Paused { woken }),
            None => self.refused(id, "shutting down"),
        }
    }

    fn go_on(&mut self, id: Id, event: Event) {
        let now = self.clock_of(id);
        let waiting = self.caller(id).waiting.as_mut().unwrap();
        let step = waiting.step(event, now);
        self.carry_out(id, &step);
    }

    fn refused(&mut self, id: Id, how: &'static str) {
        self.note(|| format!("caller {id} is refused: {how}"));
        self.check_end_of_wait(id, how);
        self.vanish(id);
    }

    /// Cancels an acquire: drops its seat.
    pub(super) fn cancel(&mut self, id: Id) {
        if let State::Acquiring = self.caller(id).state {
            self.note(|| format!("caller {id} cancels"));
            self.vanish(id);
        }
    }

    fn vanish(&mut self, id: Id) {
        let flawed = self.server.flaw == Flaw::DroppedSeatIsForgotten;
        self.checks.unwatch(id);
        let caller = self.caller(id);
        caller.state = State::Done;
        if caller.tried && !flawed {
            self.order(id, Order::Release { id, parting: Parting::Unused });
        }
    }

    fn begin_body(&mut self, id: Id, token: u64) {
        self.note(|| format!("caller {id} begins its body with token {token}"));
        let now = self.now;
        let caller = self.caller(id);
        caller.record.word().take();
        caller.state = State::Body { token, ends: now + caller.wish.body };
        if let Some(dropped) = caller.wish.dropped {
            self.later(dropped, What::DropBody(id));
        }
        self.poll_body(id);
    }

    /// Polls the body as `run` does: the clock first.
    pub(super) fn poll_body(&mut self, id: Id) {
        let clock = self.clock_of(id);
        let (flaw, now) = (self.server.flaw, self.now);
        let caller = self.caller(id);
        let State::Body { token, ends } = caller.state else { return };
        let record = Arc::clone(&caller.record);
        let word = record.word();
        let wish = caller.wish;
        let lost = flaw != Flaw::BodyIgnoresClock && self.look(id, word, clock);
        if lost && wish.cancel_on_lost {
            let parting = if wish.hold_on_cancel { Parting::Dropped } else { Parting::Ended };
            return self.give_back(id, word, parting);
        }
        self.check_poll(id, word, clock);
        if self.dice.chance(500) {
            let delay = if self.dice.chance(500) { 0 } else { self.dice.between(0, 500 * MS) };
            self.later(delay, What::Write { id, token });
        }
        if now >= ends {
            self.give_back(id, word, Parting::Ended);
        } else {
            let rest = wish.stride.min(ends - now);
            self.timer(wish.client, now + rest, Timer::Body(id));
        }
    }

    /// Reads the lease as its holder does. Whoever sees its end first tells it.
    fn look(&mut self, id: Id, word: &LeaseWord, clock: Moment) -> bool {
        let (standing, just_expired) = word.at(clock);
        if just_expired {
            self.check_loss(id, LossReason::Expired);
        }
        matches!(standing, Standing::Ended(End::Lost(_)))
    }

    pub(super) fn drop_body(&mut self, id: Id) {
        if let State::Body { .. } = self.caller(id).state {
            let record = Arc::clone(&self.caller(id).record);
            self.give_back(id, record.word(), Parting::Dropped);
        }
    }

    fn give_back(&mut self, id: Id, word: &LeaseWord, parting: Parting) {
        self.note(|| format!("caller {id} gives back: {parting:?}"));
        let clock = self.clock_of(id);
        let held = !self.look(id, word, clock) && word.end(clock, End::Released);
        let (now, frozen) = (self.now, self.clients[self.callers[index(id)].wish.client].frozen_for);
        let caller = self.caller(id);
        if let (true, Some(min_hold)) = (held, caller.wish.min_hold) {
            // A little less by the slowest clock; a key that would not live so long is another matter.
            let rest = min_hold * 99 / 100;
            let lives = word.last_deadline().since(clock) + Duration::from_micros(now - caller.seen.granted);
            caller.seen.rests_until = caller.seen.granted + us(rest.min(lives * 99 / 100));
        }
        if held && parting == Parting::Dropped && caller.wish.hold_on_cancel {
            // The server's end of a grant is never before the owner's.
            let rest = us(word.last_deadline().since(clock) * 99 / 100);
            caller.seen.rests_until = caller.seen.rests_until.max(now + rest);
        }
        caller.state = State::Leaving;
        caller.seen.left = Some((now, frozen, parting));
        self.order(id, Order::Release { id, parting });
    }

    pub(super) fn released(&mut self, id: Id, released: Released) {
        self.note(|| format!("caller {id} is told of its release: {released:?}"));
        self.check_released(id);
        self.caller(id).state = State::Done;
    }

    /// The earliest moment at which a wait may end as contended.
    pub(super) fn wait_ends(&self, id: Id) -> Option<Moment> {
        self.callers[index(id)].waiting.as_ref().and_then(Waiting::deadline)
    }

    pub(super) fn is_waiting(&self, id: Id) -> bool {
        let caller = &self.callers[index(id)];
        matches!(caller.state, State::Acquiring) && caller.wish.contention != Contention::Fail
    }
}
