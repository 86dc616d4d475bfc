//! What must hold after every step, and at the end.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Attempt, Renewed};
use crate::clock::Moment;
use crate::error::LossReason;
use crate::policy::Contention;
use crate::protocol::kept::{Id, Parting, Remains};
use crate::protocol::lease::LeaseWord;
use crate::protocol::simulation::caller::State;
use crate::protocol::simulation::client::Client;
use crate::protocol::simulation::drift::{MS, Time};
use crate::protocol::simulation::plan::{Flaw, HEALED};
use crate::protocol::simulation::server::{Answer, Party, Request};
use crate::protocol::simulation::world::{World, index};
use crate::protocol::waiting::{Event, attempt_timeout};

/// What threads and timers of a client may add to any bound: a few hand-overs and late timers.
const HASTE: Time = 10 * MS;
/// How many things may happen at one instant of a world where every message takes time.
const MOST_AT_ONCE: u64 = 1_000;

/// A rule that was broken.
#[derive(Clone, Debug)]
pub(super) struct Broken {
    pub(super) rule: &'static str,
    pub(super) how: String,
}

#[derive(Debug)]
struct Lease {
    id: Id,
    word: Arc<LeaseWord>,
    ended: Option<Time>,
    /// How long its client had been frozen when its end was seen, and had slept at the grant.
    frozen: Time,
    slept: Time,
    granted: (Time, Time),
}

impl Lease {
    /// Whether it was renewed for longer than `most`.
    fn is_past(&self, most: Option<Duration>, now: Time, client: &Client) -> bool {
        let (at, frozen) = self.granted;
        let bound = |most| at + stretched(us(most)) + HASTE + (client.frozen_for - frozen) + client.slept;
        most.is_some_and(|most| now > bound(most))
    }
}

#[derive(Debug, Default)]
struct Guarded {
    /// The greatest token that the server gave, and the last one that the store has seen.
    given: u64,
    applied: u64,
    /// Since when nothing has kept the waiters of this key from getting it.
    idle_since: Time,
}

#[derive(Debug)]
pub(super) struct Checks {
    pub(super) broken: Option<Broken>,
    pub(super) data_lost: bool,
    pub(super) set_back: u64,
    /// Tokens fell after a loss of data under a clock that was behind, as documented.
    fell: bool,
    leases: Vec<Lease>,
    keys: Vec<Guarded>,
    at_once: u64,
    pub(super) refused_writes: u64,
}

impl Checks {
    pub(super) fn new(keys: usize) -> Self {
        Self {
            broken: None,
            data_lost: false,
            set_back: 0,
            fell: false,
            leases: Vec::new(),
            keys: (0..keys).map(|_| Guarded::default()).collect(),
            at_once: 0,
            refused_writes: 0,
        }
    }

    /// Nobody has the lease of `id`, though it was granted.
    pub(super) fn unwatch(&mut self, id: Id) {
        self.leases.retain(|lease| lease.id != id);
    }

    /// The first broken rule counts.
    pub(super) fn fail(&mut self, rule: &'static str, how: impl Into<String>) {
        self.broken.get_or_insert_with(|| Broken { rule, how: how.into() });
    }

    pub(super) fn instant(&mut self, same: bool) {
        self.at_once = if same { self.at_once + 1 } else { 0 };
        if self.at_once > MOST_AT_ONCE {
            self.fail("progress", "time stands still");
        }
    }
}

fn us(span: Duration) -> Time {
    u64::try_from(span.as_micros()).unwrap()
}

/// `span` on a clock of the other extreme.
fn stretched(span: Time) -> Time {
    span + span / 100
}

impl World {
    fn frozen_since(&self, id: Id, frozen: Time) -> Time {
        self.clients[self.callers[index(id)].wish.client].frozen_for - frozen
    }

    pub(super) fn check_always(&mut self) {
        self.check_leases();
        if self.now >= HEALED {
            (0..self.keys).for_each(|key| self.check_progress(key));
        }
    }

    fn check_leases(&mut self) {
        let mut valid: Vec<usize> = Vec::new();
        for at in 0..self.checks.leases.len() {
            let lease = &self.checks.leases[at];
            let caller = &self.callers[index(lease.id)];
            let client = &self.clients[caller.wish.client];
            if client.killed {
                continue;
            }
            let clock = client.drift.moment(self.now);
            // Looks without ending it, so that a machine which does not is seen.
            let held = lease.word.deadline().is_some_and(|deadline| clock < deadline);
            let (id, key, ended) = (lease.id, caller.wish.key, lease.ended);
            match (held, ended) {
                (true, Some(_)) => self.checks.fail("final", format!("the lease of {id} was revived")),
                (true, None) if lease.is_past(caller.wish.renew_for, self.now, client) => {
                    self.checks.fail("cap", format!("{id} is renewed past its cap"));
                }
                (true, None) if !caller.is_betrayed() => {
                    if self.server.holder(key, self.now).is_none_or(|stored| stored.owner != id) {
                        self.checks.fail("backed", format!("{id} has a lease that the server does not know"));
                    }
                    if valid.contains(&key) {
                        self.checks.fail("exclusion", format!("{id} and another one hold key {key}"));
                    }
                    valid.push(key);
                }
                // Seen by nobody while its client is frozen.
                (false, None) if self.now < client.frozen_until => {}
                (false, None) => {
                    self.checks.leases[at].frozen = client.frozen_for;
                    self.checks.leases[at].ended = Some(self.now);
                }
                (false, Some(ended)) => self.check_stopped(at, ended),
                (true, None) => {}
            }
        }
    }

    /// A body whose lease is lost is dropped soon, also one that sleeps.
    fn check_stopped(&mut self, at: usize, ended: Time) {
        let lease = &self.checks.leases[at];
        let caller = &self.callers[index(lease.id)];
        // Timers that were set before a suspension are late by its length.
        let slept = self.clients[caller.wish.client].slept - lease.slept;
        if let State::Body { .. } = caller.state
            && caller.wish.cancel_on_lost
            && self.now > ended + HASTE + slept + self.frozen_since(lease.id, lease.frozen)
        {
            let id = lease.id;
            self.checks.fail("told", format!("the body of {id} was not told of its loss"));
        }
    }

    /// After the faults a key that nobody holds goes to one of its waiters.
    fn check_progress(&mut self, key: usize) {
        let of_key = |caller: &&crate::protocol::simulation::caller::Caller| {
            caller.wish.key == key && !self.clients[caller.wish.client].killed
        };
        let callers = || self.callers.iter().filter(of_key);
        let busy = callers().any(|caller| matches!(caller.state, State::Body { .. } | State::Leaving));
        let waits = callers().any(|caller| self.is_waiting(caller.id));
        let guarded = &mut self.checks.keys[key];
        if busy || !waits || guarded.idle_since < HEALED {
            guarded.idle_since = self.now;
            return;
        }
        let ttl = self.callers.iter().map(|caller| us(caller.claim.ttl())).max().unwrap_or(0);
        // What is left of a dead owner's lease, a pause between attempts, and an attempt that was
        // lost before the faults ended, with the pause after it.
        let bound = ttl + ttl * 2 / 3 * 5 / 4 + ttl / 3 + 320 * MS + self.checks.set_back;
        if self.now > guarded.idle_since + stretched(bound) + HASTE {
            self.checks.fail("progress", format!("key {key} is free and its waiters do not get it"));
        }
    }

    pub(super) fn check_attempt(&mut self, id: Id) {
        let caller = self.caller(id);
        caller.seen.data_lost = false;
        caller.seen.set_forward = 0;
        let (attempts, took) = (caller.seen.attempts, self.now - self.callers[index(id)].seen.started);
        // The first wake-ups are followed at once, later ones and silence after growing pauses.
        if attempts > 20 + took / (20 * MS) {
            self.checks.fail("progress", format!("{id} made {attempts} attempts within {} ms", took / MS));
        }
    }

    pub(super) fn check_grant(&mut self, id: Id, word: &Arc<LeaseWord>) {
        let caller = &self.callers[index(id)];
        if !matches!(caller.state, State::Acquiring) {
            // Given up by now: nobody reads it, and the keeper is about to free it.
            return;
        }
        let ttl = caller.claim.ttl();
        if word.last_deadline().since(self.clock_of(id)) < ttl / 2 {
            self.checks.fail("stale", format!("{id} was given a lease with less than half its ttl left"));
        }
        let client = &self.clients[caller.wish.client];
        let (slept, granted) = (client.slept, (self.now, client.frozen_for));
        self.checks.leases.push(Lease { id, word: Arc::clone(word), ended: None, frozen: 0, slept, granted });
    }

    /// What the server has just done.
    pub(super) fn check_served(&mut self, request: &Request, answer: &Answer, aged: Time) {
        let (Request::Try(party), Answer::Tried(Attempt::Granted { fencing })) = (request, answer) else {
            return;
        };
        let token = fencing.map_or(0, crate::token::FencingToken::get);
        let clock = self.server.clock(self.now);
        let guarded = &mut self.checks.keys[party.key];
        if token <= guarded.given {
            if self.checks.data_lost && clock <= guarded.given {
                self.checks.fell = true;
            } else {
                let given = guarded.given;
                self.checks.fail("fence", format!("token {token} after {given}"));
            }
        }
        self.checks.keys[party.key].given = token;
        self.check_late_grant(*party, aged);
    }

    /// Nothing is granted behind the keeper's back, but by a request that took longer than bounds.
    fn check_late_grant(&mut self, party: Party, aged: Time) {
        let (seen, dead) = self.fate(party.owner);
        if seen && !dead && aged < self.given_up_after(party.ttl) {
            self.checks.fail("leak", format!("{} was forgotten and is granted", party.owner));
        }
    }

    /// Whether its keeper has forgotten a claim, and whether it may leave its key to the TTL.
    fn fate(&self, id: Id) -> (bool, bool) {
        let caller = &self.callers[index(id)];
        let dropped = matches!(caller.seen.left, Some((_, _, Parting::Dropped)));
        let kept = caller.wish.hold_on_cancel && (dropped || self.clients[caller.wish.client].closed);
        let dead = self.clients[caller.wish.client].killed || caller.seen.abandoned || kept;
        (caller.seen.forgotten, dead)
    }

    /// For how long a keeper repeats the release of a claim in doubt, by the slowest clock.
    fn given_up_after(&self, ttl: Duration) -> Time {
        let span = us(ttl + attempt_timeout(ttl));
        span - span / 100
    }

    /// A claim is forgotten only when the server has nothing of it.
    pub(super) fn check_forgotten(&mut self, id: Id) {
        self.caller(id).seen.forgotten = true;
        let (_, dead) = self.fate(id);
        let caller = &self.callers[index(id)];
        let ttl = caller.claim.ttl();
        let Some(stored) = self.server.holder(caller.wish.key, self.now).filter(|held| held.owner == id) else {
            return;
        };
        // Clocks that differ a little, or that were set back, may add to what the server keeps.
        let rest = stored.until - self.server.clock(self.now);
        let drift = us(ttl + attempt_timeout(ttl)) / 100 + 2 * MS + caller.seen.set_back;
        let late = stored.aged + stored.aged / 100 >= us(attempt_timeout(ttl));
        if !dead && !caller.seen.data_lost && !late && rest > drift {
            self.checks.fail("leak", format!("{id} was forgotten and has its key for {} ms", rest / MS));
        }
    }

    pub(super) fn check_answer(&mut self, id: Id, event: &Event) {
        let now = self.now;
        let frozen = self.frozen_since(id, self.callers[index(id)].seen.frozen);
        let caller = self.caller(id);
        let since = caller.seen.silent_since.unwrap_or(now);
        let bound = us(caller.claim.ttl()).min(3_000 * MS);
        match event {
            Event::Unanswered(_) => {
                if now > since + stretched(bound) + HASTE + frozen {
                    let took = (now - since) / MS;
                    self.checks.fail("silence", format!("{id} was held for {took} ms by a silent server"));
                }
            }
            Event::Held { .. } => {
                caller.seen.refusals += 1;
                caller.seen.silent_since = None;
                if caller.seen.refusals > 1 && caller.wish.contention == Contention::Fail {
                    self.checks.fail("fail", format!("{id} asked again after it was refused"));
                }
            }
            Event::Stale | Event::Paused { .. } => caller.seen.silent_since = None,
        }
    }

    /// A wait ends at its deadline: not earlier as contended, at most 50 ms later.
    pub(super) fn check_end_of_wait(&mut self, id: Id, how: &'static str) {
        if how == "contended" && self.callers[index(id)].seen.refusals == 0 {
            self.checks.fail("silence", format!("{id} took silence for contention"));
        }
        let Some(deadline) = self.wait_ends(id) else { return };
        let clock = self.clock_of(id);
        let frozen = self.frozen_since(id, self.callers[index(id)].seen.frozen);
        if how == "contended" && clock < deadline {
            self.checks.fail("wait", format!("the wait of {id} ended early"));
        }
        if clock > deadline + Duration::from_micros(50 * MS + stretched(frozen) + HASTE / 2) {
            let late = clock.since(deadline).as_millis();
            self.checks.fail("wait", format!("the wait of {id} ended {late} ms late ({how})"));
        }
    }

    /// A body is polled while its lease is held.
    pub(super) fn check_poll(&mut self, id: Id, word: &LeaseWord, clock: Moment) {
        let caller = &self.callers[index(id)];
        let held = word.deadline().is_some_and(|deadline| clock < deadline);
        if !held && caller.wish.cancel_on_lost {
            self.checks.fail("poll", format!("the body of {id} was polled after its lease"));
        }
    }

    /// A renewal is about to leave.
    pub(super) fn check_renewal(&mut self, id: Id) {
        self.caller(id).seen.renewals += 1;
    }

    /// What was answered has been acted upon.
    pub(super) fn check_renewed(&mut self, id: Id, answer: &Renewed) {
        let clock = self.clock_of(id);
        let frozen = self.clients[self.callers[index(id)].wish.client].frozen_for;
        match answer {
            Renewed::Extended => {
                let caller = self.caller(id);
                caller.seen.renewals = 0;
                caller.seen.frozen = frozen;
            }
            Renewed::Gone => {
                let held = |lease: &Lease| lease.id == id && lease.word.deadline().is_some_and(|end| clock < end);
                if self.checks.leases.iter().any(held) {
                    self.checks.fail("gone", format!("{id} goes on though the server says it has nothing"));
                }
            }
            Renewed::Unknown(_) => {}
        }
    }

    pub(super) fn check_loss(&mut self, id: Id, reason: LossReason) {
        self.note(|| format!("caller {id} has lost its lease: {reason:?}"));
        let seen = &mut self.caller(id).seen;
        seen.losses += 1;
        let (losses, tries) = (seen.losses, seen.renewals);
        if losses > 1 {
            self.checks.fail("told", format!("the loss of {id} was told twice"));
        }
        let renews = self.callers[index(id)].wish.renew_for.is_some() && self.server.flaw != Flaw::TimeStandsStill;
        let frozen = self.frozen_since(id, self.callers[index(id)].seen.frozen);
        if reason == LossReason::Expired && renews && tries < 2 && frozen == 0 {
            self.checks.fail("renewal", format!("{id} expired after {tries} tries to renew it"));
        }
    }

    /// What a store does that refuses old tokens.
    pub(super) fn check_write(&mut self, id: Id, token: u64) {
        let caller = &self.callers[index(id)];
        let (key, betrayed) = (caller.wish.key, caller.is_betrayed());
        let (clock, killed) = (self.clock_of(id), self.clients[caller.wish.client].killed);
        let held = |lease: &Lease| lease.id == id && lease.word.deadline().is_some_and(|end| clock < end);
        let holds = !killed && self.checks.leases.iter().any(held);
        let guarded = &mut self.checks.keys[key];
        if token < guarded.applied && self.server.flaw != Flaw::StoreIgnoresFence {
            self.checks.refused_writes += 1;
            if holds && !betrayed && !self.checks.fell {
                self.checks.fail("fence", format!("a write of {id} was refused while it held its lease"));
            }
            return;
        }
        if token < guarded.applied {
            self.checks.fail("store", format!("a write of {id} came after one by a later owner"));
            return;
        }
        guarded.applied = token;
    }

    /// A caller waits for its release at most 250 ms, and is told once.
    pub(super) fn check_released(&mut self, id: Id) {
        let now = self.now;
        let left = self.callers[index(id)].seen.left;
        let late = left.is_none_or(|(at, frozen, _)| {
            now > at + 250 * MS + HASTE + self.frozen_since(id, frozen)
        });
        let caller = self.caller(id);
        caller.seen.told_release += 1;
        if caller.seen.told_release > 1 {
            self.checks.fail("release", format!("the release of {id} was told twice"));
        } else if left.is_some() && late {
            self.checks.fail("release", format!("{id} waited too long for its release"));
        }
    }

    pub(super) fn check_closing(&mut self, client: usize, within: Duration) {
        let end = self.now + us(within) + 1_000 * MS;
        let frozen = self.clients[client].frozen_for;
        let earlier = self.clients[client].closing;
        self.clients[client].closed = true;
        self.clients[client].closing = Some(earlier.filter(|(by, _)| *by < end).unwrap_or((end, frozen)));
    }

    /// A shutdown is over in time, and names whatever it leaves on the server.
    pub(super) fn check_closed(&mut self, client: usize, remains: &Remains) {
        let Some((by, frozen)) = self.clients[client].closing.take() else { return };
        if self.now > stretched(by) + HASTE + (self.clients[client].frozen_for - frozen) {
            self.checks.fail("shutdown", format!("client {client} took too long to shut down"));
        }
        let named = |id: Id| {
            let key = &self.callers[index(id)].terms.key;
            remains.unreleased.iter().chain(&remains.kept).any(|(_, named)| named == key)
        };
        let silent: Vec<Id> = (0..self.keys)
            .filter_map(|key| self.server.holder(key, self.now))
            .map(|stored| stored.owner)
            .filter(|id| self.callers[index(*id)].wish.client == client && !named(*id))
            .filter(|id| {
                let seen = &self.callers[index(*id)].seen;
                !seen.forgotten && !seen.data_lost
            })
            .collect();
        if let Some(id) = silent.first() {
            self.checks.fail("shutdown", format!("client {client} does not say that it leaves {id}"));
        }
    }

    /// Nothing is left of anybody.
    pub(super) fn check_end(&mut self) {
        let longest = self.callers.iter().map(|caller| caller.claim.ttl()).max().unwrap_or_default();
        let over = self.now + stretched(us(longest + attempt_timeout(longest))) + self.checks.set_back;
        if self.server.keys(over) > 0 {
            self.checks.fail("leak", "a key is left on the server");
        }
        for at in 0..self.clients.len() {
            let client = &self.clients[at];
            if !client.killed && !(client.keeping.is_empty() && client.seats.is_empty()) {
                self.checks.fail("leak", format!("client {at} keeps a claim for ever"));
            }
        }
        for at in 0..self.callers.len() {
            let caller = &self.callers[at];
            if self.clients[caller.wish.client].killed {
                continue;
            }
            let ended = match caller.state {
                State::NotYet | State::Acquiring | State::Body { .. } => false,
                // Nobody waits for the release of what was dropped.
                State::Leaving => matches!(caller.seen.left, Some((_, _, Parting::Dropped))),
                State::Done => true,
            };
            if !ended {
                let state = format!("caller {at} hangs: {:?}", caller.state);
                self.checks.fail("progress", state);
            }
        }
    }
}
