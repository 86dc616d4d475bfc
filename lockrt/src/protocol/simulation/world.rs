//! Virtual time: one queue of events for clients, network and server.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::claim::{Attempt, Claim, Released};
use crate::clock::Moment;
use crate::error::BackendError;
use crate::key::LockKey;
use crate::protocol::kept::{Bare, Id, Parting, Terms, Told};
use crate::protocol::simulation::caller::{Caller, Seen, State};
use crate::protocol::simulation::checks::{Broken, Checks};
use crate::protocol::simulation::client::{Call, Client};
use crate::protocol::simulation::dice::Dice;
use crate::protocol::simulation::drift::{MS, Time};
use crate::protocol::simulation::network::{Fate, Network};
use crate::protocol::simulation::plan::{Fault, Flaw, Lose, Plan, Wish};
use crate::protocol::simulation::queue::Message;
use crate::protocol::simulation::server::{Answer, Request, Server};
use crate::token::{OwnerLabel, OwnerToken, ProcessRandom};

/// A run ends long before; one that does not makes no progress.
const MOST_EVENTS: u64 = 100_000;

pub(super) struct World {
    pub(super) now: Time,
    pub(super) dice: Dice,
    /// Ordered by time; what happens at one time is shuffled.
    queue: BTreeMap<(Time, u64, u64), What>,
    pub(super) events: u64,
    pub(super) server: Server,
    pub(super) network: Network,
    pub(super) clients: Vec<Client>,
    pub(super) callers: Vec<Caller>,
    pub(super) calls: Vec<Call>,
    pub(super) keys: usize,
    cries_wolf: bool,
    pub(super) checks: Checks,
    /// What happened, if somebody wants to read it.
    trace: Option<Vec<String>>,
}

/// What the callers of a client ask of its keeper; these stay in order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    Try { id: Id, within: Duration },
    Pause { id: Id, until: Moment, listen: bool },
    Release { id: Id, parting: Parting },
    Close { within: Duration },
}

/// What happens next.
#[derive(Debug)]
pub(super) enum What {
    Fault(Fault),
    /// At the server.
    Arrive {
        call: usize,
        request: Request,
    },
    /// At a client.
    Reply {
        call: usize,
        answer: Result<Answer, BackendError>,
    },
    Timer {
        client: usize,
        slept: Time,
        timer: Timer,
    },
    Orders(usize),
    Wake {
        client: usize,
        id: Id,
    },
    Hear {
        client: usize,
        message: Message,
    },
    Look {
        client: usize,
        id: Id,
        attempts: u64,
    },
    // At a caller.
    Start(Id),
    Told(Id, Told),
    Paused(Id, Option<bool>),
    Released(Id, Released),
    Cancel(Id),
    Poll(Id),
    DropBody(Id),
    /// At the store that fencing protects; needs nothing of the client.
    Write {
        id: Id,
        token: u64,
    },
}

/// Timers stand still while their machine is suspended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Timer {
    Tick(Time),
    TimeOut(usize),
    Pause(Id, u64),
    Body(Id),
}

/// The place of a caller in the list of callers.
pub(super) fn index(id: Id) -> usize {
    usize::try_from(id).unwrap()
}

impl World {
    pub(super) fn new(seed: u64, flaw: Flaw, traced: bool) -> Self {
        let mut dice = Dice::new(seed);
        let plan = Plan::draw(&mut dice);
        let mut world = Self {
            now: 0,
            queue: BTreeMap::new(),
            events: 0,
            server: Server::new(flaw, plan.server),
            network: Network::new(plan.clocks.len()),
            clients: plan.clocks.iter().map(|drift| Client::new(*drift)).collect(),
            callers: Vec::new(),
            calls: Vec::new(),
            keys: plan.keys,
            cries_wolf: plan.cries_wolf,
            checks: Checks::new(plan.keys),
            trace: traced.then(Vec::new),
            dice,
        };
        world.server.has_queues = plan.queues;
        world.note(|| format!("{plan:#?}"));
        for wish in &plan.wishes {
            world.add_caller(*wish, &plan);
        }
        for (at, fault) in &plan.faults {
            world.at(*at, What::Fault(*fault));
        }
        world
    }

    fn add_caller(&mut self, wish: Wish, plan: &Plan) {
        let id = u64::try_from(self.callers.len()).unwrap();
        let key = LockKey::new(format!("key {}", wish.key)).unwrap();
        let owner = OwnerToken::fresh(&OwnerLabel::new("simulated", ProcessRandom::get().unwrap()), 1);
        let waits = wish.contention != crate::policy::Contention::Fail;
        let claim = Claim::new(key.clone(), owner, wish.ttl, waits);
        let terms = Terms {
            renew_for: wish.renew_for,
            min_hold: wish.min_hold,
            hold_on_cancel: wish.hold_on_cancel,
            offset_margin: plan.offset_margin,
            queues: plan.queues,
        };
        let (record, state, seen) = (Bare::of(key), State::NotYet, Seen::default());
        self.callers.push(Caller {
            id,
            wish,
            claim,
            terms,
            record,
            state,
            waiting: None,
            tried: false,
            seen,
        });
        self.at(wish.start, What::Start(id));
    }

    /// Runs until nothing is left to happen, or something is wrong.
    pub(super) fn run(&mut self) -> Result<(), Broken> {
        while let Some(((at, ..), what)) = self.queue.pop_first() {
            self.checks.instant(self.now == at);
            self.now = at;
            self.events += 1;
            if self.events > MOST_EVENTS {
                self.checks.fail("progress", "the run does not come to an end");
            }
            self.happen(what);
            self.check_always();
            if let Some(broken) = self.checks.broken.take() {
                return Err(broken);
            }
        }
        self.check_end();
        self.checks.broken.take().map_or(Ok(()), Err)
    }

    pub(super) fn trace(self) -> Vec<String> {
        self.trace.unwrap_or_default()
    }

    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let (ms, us) = (self.now / MS, self.now % MS);
            trace.push(format!("{ms:>6}.{us:03} {}", what()));
        }
    }

    pub(super) fn at(&mut self, at: Time, what: What) {
        let shuffled = self.dice.roll();
        let number = u64::try_from(self.queue.len()).unwrap();
        self.queue.insert((at, shuffled, number), what);
    }

    pub(super) fn later(&mut self, delay: Time, what: What) {
        self.at(self.now + delay, what);
    }

    /// From one thread of a client to another.
    pub(super) fn hop(&mut self, client: usize, what: What) {
        debug_assert!(client < self.clients.len());
        let delay =
            if self.dice.chance(900) { self.dice.between(1, 60) } else { self.dice.between(1, 2 * MS) };
        self.later(delay, what);
    }

    pub(super) fn timer(&mut self, client: usize, at: Time, timer: Timer) {
        let slept = self.clients[client].slept;
        self.at(at, What::Timer { client, slept, timer });
    }

    /// Puts an order into the queue of a keeper.
    pub(super) fn order(&mut self, id: Id, order: Order) {
        self.order_of(self.callers[index(id)].wish.client, order);
    }

    fn order_of(&mut self, client: usize, order: Order) {
        let delay =
            if self.dice.chance(900) { self.dice.between(1, 60) } else { self.dice.between(1, 2 * MS) };
        let one = &mut self.clients[client];
        one.orders.push_back(order);
        one.last_order = one.last_order.max(self.now + delay);
        let at = one.last_order;
        self.at(at, What::Orders(client));
    }

    pub(super) fn clock_of(&self, id: Id) -> Moment {
        self.clients[self.callers[index(id)].wish.client].drift.moment(self.now)
    }

    /// At which client something happens.
    fn place(&self, what: &What) -> Option<usize> {
        let of = |id: &Id| self.callers[index(*id)].wish.client;
        match what {
            What::Fault(_) | What::Arrive { .. } | What::Write { .. } => None,
            What::Reply { call, .. } => Some(self.calls[*call].client),
            What::Timer { client, .. }
            | What::Orders(client)
            | What::Wake { client, .. }
            | What::Hear { client, .. }
            | What::Look { client, .. } => Some(*client),
            What::Start(id)
            | What::Told(id, _)
            | What::Paused(id, _)
            | What::Released(id, _)
            | What::Cancel(id)
            | What::Poll(id)
            | What::DropBody(id) => Some(of(id)),
        }
    }

    fn happen(&mut self, what: What) {
        if let Some(client) = self.place(&what) {
            let one = &self.clients[client];
            if one.killed {
                return;
            }
            if let What::Timer { slept, timer, .. } = what
                && slept < one.slept
            {
                let late = one.slept - slept;
                return self.timer(client, self.now + late, timer);
            }
            if self.now < one.frozen_until {
                let until = one.frozen_until;
                return self.at(until, what);
            }
        }
        match what {
            What::Fault(fault) => self.fault(fault),
            What::Arrive { call, request } => self.arrive(call, request),
            What::Reply { call, answer } => self.end_call(call, answer),
            What::Timer { client, timer, .. } => match timer {
                Timer::Tick(at) => self.tick(client, at),
                Timer::TimeOut(call) => self.end_call(call, Err(BackendError::unknown("no answer in time"))),
                Timer::Pause(id, pause) => self.end_pause(client, id, pause),
                Timer::Body(id) => self.poll_body(id),
            },
            What::Orders(client) => self.take_order(client),
            What::Wake { client, id } => self.wake(client, id),
            What::Hear { client, message } => self.hear(client, message),
            What::Look { client, id, attempts } => self.look_at(client, id, attempts),
            What::Start(id) => self.start(id),
            What::Told(id, told) => self.told(id, told),
            What::Paused(id, woken) => self.paused(id, woken),
            What::Released(id, released) => self.released(id, released),
            What::Cancel(id) => self.cancel(id),
            What::Poll(id) => self.poll_body(id),
            What::DropBody(id) => self.drop_body(id),
            What::Write { id, token } => self.check_write(id, token),
        }
    }

    fn arrive(&mut self, call: usize, request: Request) {
        let (client, left) = (self.calls[call].client, self.calls[call].left);
        if self.now < self.server.down_until {
            return self.note(|| format!("server: down, call {call} is lost"));
        }
        if self.now < self.server.paused_until {
            let until = self.server.paused_until;
            return self.at(until, What::Arrive { call, request });
        }
        let answer = self.server.answer(&request, self.now - left, self.now);
        self.note(|| format!("server: call {call} {answer:?}"));
        self.check_served(&request, &answer, self.now - left);
        self.look_after_foreign(client, &request, &answer);
        for message in std::mem::take(&mut self.server.told) {
            self.publish(message);
        }
        let refused = match (&request, &answer) {
            (Request::Try(party), Answer::Tried(Attempt::Held { .. })) => Some(party.key),
            _ => None,
        };
        if let Some(key) = self.server.freed.take().or(refused.filter(|_| self.cries_wolf)) {
            self.spread(key);
        }
        if let Fate::Arrives(at) = self.network.reply(client, self.now, &mut self.dice) {
            self.at(at, What::Reply { call, answer: Ok(answer) });
        }
    }

    /// Tells everybody that a key may be free; a hint that may be lost as any message.
    pub(super) fn spread(&mut self, key: usize) {
        let of_key: Vec<(usize, Id)> = self
            .callers
            .iter()
            .filter(|caller| caller.wish.key == key && matches!(caller.state, State::Acquiring))
            .map(|caller| (caller.wish.client, caller.id))
            .collect();
        for (client, id) in of_key {
            if let Fate::Arrives(at) = self.network.reply(client, self.now, &mut self.dice) {
                self.at(at, What::Wake { client, id });
            }
        }
    }

    fn fault(&mut self, fault: Fault) {
        self.note(|| format!("fault: {fault:?}"));
        match fault {
            Fault::Weather(client, weather) => self.network.set(client, weather),
            Fault::Cut { client, line, until } => self.cut(client, line, until),
            Fault::PauseServer { until } => self.server.paused_until = until,
            Fault::Crash { until, lose } => self.crash(until, lose),
            Fault::SetClock { by } => {
                self.server.set_clock(by);
                for caller in &mut self.callers {
                    caller.seen.set_forward += u64::try_from(by).unwrap_or(0);
                    caller.seen.set_back += u64::try_from(-by).unwrap_or(0);
                }
                self.checks.set_back += u64::try_from(-by).unwrap_or(0);
            }
            Fault::PauseClient { client, until, suspend } => {
                let one = &mut self.clients[client];
                let longer = until.saturating_sub(self.now.max(one.frozen_until));
                one.frozen_for += longer;
                one.slept += if suspend { longer } else { 0 };
                one.frozen_until = one.frozen_until.max(until);
            }
            Fault::Kill { client } => self.kill(client),
            Fault::Close { client, within } => self.order_of(client, Order::Close { within }),
            Fault::TakeForeign { key, until } => self.take_foreign(key, until),
            Fault::DeleteForeign { key } => self.delete_foreign(key),
            Fault::CryWolf => (0..self.keys).for_each(|key| self.spread(key)),
        }
    }

    /// Who waits for an answer on the connection gets none; what was sent still arrives.
    fn cut(&mut self, client: usize, line: usize, until: Time) {
        self.network.cut(client, line, until);
        if line == 0 {
            self.look_again(client, until);
        }
        let open: Vec<usize> = (0..self.calls.len())
            .filter(|call| {
                let call = &self.calls[*call];
                call.open && call.client == client && call.line == line
            })
            .collect();
        for call in open {
            self.hop(client, What::Reply { call, answer: Err(BackendError::unknown("cut")) });
        }
    }

    fn crash(&mut self, until: Time, lose: Lose) {
        self.server.down_until = until;
        match lose {
            Lose::Nothing => return,
            Lose::Writes(writes) => self.server.lose(Some(writes)),
            Lose::Everything => self.server.lose(None),
        }
        self.callers.iter_mut().for_each(|caller| caller.seen.data_lost = true);
        self.checks.data_lost = true;
    }
}
