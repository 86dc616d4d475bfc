//! What must hold after every step, and at the end.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::Attempt;
use crate::clock::Moment;
use crate::error::LossReason;
use crate::protocol::kept::{Id, Parting, Record};
use crate::protocol::lease::LeaseWord;
use crate::protocol::simulation::caller::State;
use crate::protocol::simulation::client::Client;
use crate::protocol::simulation::drift::{MS, Time};
use crate::protocol::simulation::plan::{Flaw, HEALED};
use crate::protocol::simulation::queue::LINGER;
use crate::protocol::simulation::server::{Answer, Party, Request};
use crate::protocol::simulation::world::{World, index};
use crate::protocol::waiting::attempt_timeout;

/// What threads and timers of a client may add to any bound: a few hand-overs and late timers.
pub(super) const HASTE: Time = 10 * MS;
/// How many things may happen at one instant of a world where every message takes time.
const MOST_AT_ONCE: u64 = 1_000;

/// A rule that was broken.
#[derive(Clone, Debug)]
pub(super) struct Broken {
    pub(super) rule: &'static str,
    pub(super) how: String,
}

#[derive(Debug)]
pub(super) struct Lease {
    pub(super) id: Id,
    record: Arc<dyn Record>,
    ended: Option<Time>,
    /// How long its client had been frozen when its end was seen, and had slept at the grant.
    pub(super) frozen: Time,
    pub(super) slept: Time,
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

impl Client {
    /// Whether a shutdown must have taken every lease by now.
    fn is_cut(&self, now: Time) -> bool {
        self.cut.is_some_and(|(at, frozen)| now > stretched(at) + HASTE + 2 * (self.frozen_for - frozen))
    }
}

#[derive(Debug, Default)]
pub(super) struct Guarded {
    /// The greatest token that the server gave, and the last one that the store has seen.
    given: u64,
    applied: u64,
    /// Since when nothing has kept the waiters of this key from getting it.
    pub(super) idle_since: Time,
}

#[derive(Debug)]
pub(super) struct Checks {
    pub(super) broken: Option<Broken>,
    pub(super) data_lost: bool,
    pub(super) set_back: u64,
    /// Tokens fell after a loss of data under a clock that was behind, as documented.
    fell: bool,
    pub(super) leases: Vec<Lease>,
    pub(super) keys: Vec<Guarded>,
    at_once: u64,
    // What came to pass.
    pub(super) grants: u64,
    pub(super) renewals: u64,
    pub(super) silent: u64,
    pub(super) refused_writes: u64,
    pub(super) offers: u64,
    pub(super) declined: u64,
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
            grants: 0,
            renewals: 0,
            silent: 0,
            refused_writes: 0,
            offers: 0,
            declined: 0,
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

pub(super) fn us(span: Duration) -> Time {
    u64::try_from(span.as_micros()).unwrap()
}

/// `span` on a clock of the other extreme.
pub(super) fn stretched(span: Time) -> Time {
    span + span / 100
}

/// For how long a keeper repeats the release of a claim in doubt, by the slowest clock.
fn given_up_after(ttl: Duration) -> Time {
    let span = us(ttl + attempt_timeout(ttl));
    span - span / 100
}

impl World {
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
            let held = lease.record.word().deadline().is_some_and(|deadline| clock < deadline);
            let (id, key, ended) = (lease.id, caller.wish.key, lease.ended);
            match (held, ended) {
                (true, Some(_)) => self.checks.fail("final", format!("the lease of {id} was revived")),
                (true, None) if lease.is_past(caller.wish.renew_for, self.now, client) => {
                    self.checks.fail("cap", format!("{id} is renewed past its cap"));
                }
                (true, None) if client.is_cut(self.now) => {
                    self.checks.fail("shutdown", format!("{id} has its lease after a shutdown"));
                }
                (true, None) if !caller.is_betrayed() => {
                    if self
                        .server
                        .holder(key, self.now)
                        .is_none_or(|stored| stored.owner != id || stored.offered)
                    {
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

    pub(super) fn check_grant(&mut self, id: Id) {
        self.checks.grants += 1;
        let caller = &self.callers[index(id)];
        if !matches!(caller.state, State::Acquiring) {
            // Given up by now: nobody reads it, and the keeper is about to free it.
            return;
        }
        let (ttl, now, record) = (caller.claim.ttl(), self.now, Arc::clone(&caller.record));
        if record.word().last_deadline().since(self.clock_of(id)) < ttl / 2 {
            self.checks.fail("stale", format!("{id} was given a lease with less than half its ttl left"));
        }
        self.caller(id).seen.granted = now;
        let client = &self.clients[self.callers[index(id)].wish.client];
        let (slept, granted) = (client.slept, (self.now, client.frozen_for));
        self.checks.leases.push(Lease { id, record, ended: None, frozen: 0, slept, granted });
    }

    /// What the server has just done.
    pub(super) fn check_served(&mut self, request: &Request, answer: &Answer, aged: Time) {
        self.checks.offers += u64::from(!self.server.told.is_empty());
        if let (Request::Try(party), Answer::Tried(Attempt::Held { .. })) = (request, answer) {
            self.check_late_place(*party);
        }
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
        self.check_rest(*party);
    }

    /// Nothing is granted behind the keeper's back, but by a request that took longer than bounds.
    fn check_late_grant(&mut self, party: Party, aged: Time) {
        let (seen, dead) = self.fate(party.owner);
        if seen && !dead && aged < given_up_after(party.ttl) {
            self.checks.fail("leak", format!("{} was forgotten and is granted", party.owner));
        }
    }

    /// Nor does anything take a place behind it.
    fn check_late_place(&mut self, party: Party) {
        let (seen, dead) = self.fate(party.owner);
        if let Some(place) = self.server.place_of(party.key, party.owner, self.now)
            && seen
            && !dead
            && place.aged < given_up_after(party.ttl)
        {
            self.checks.fail("queue", format!("{} was forgotten and takes a place", party.owner));
        }
    }

    /// Who ended early with `min_hold`, or was dropped with `on_cancel = hold`, keeps others out.
    fn check_rest(&mut self, party: Party) {
        let rests = self.callers.iter().find(|caller| {
            let other = caller.wish.key == party.key && caller.id != party.owner;
            other && self.now < caller.seen.rests_until && !caller.is_betrayed()
        });
        if let Some(caller) = rests {
            let how = format!("{} got the key that {} keeps for a while", party.owner, caller.id);
            self.checks.fail("rest", how);
        }
    }

    /// Whether its keeper has forgotten a claim, and whether it could do no more for it.
    fn fate(&self, id: Id) -> (bool, bool) {
        let caller = &self.callers[index(id)];
        (caller.seen.forgotten, self.clients[caller.wish.client].killed || caller.seen.abandoned)
    }

    /// Whether a claim leaves its key to the TTL: what was granted, and nothing that comes later.
    fn is_kept(&self, id: Id) -> bool {
        let caller = &self.callers[index(id)];
        let dropped = matches!(caller.seen.left, Some((_, _, Parting::Dropped)));
        caller.wish.hold_on_cancel && (dropped || self.clients[caller.wish.client].cut.is_some())
    }

    /// A claim is forgotten only when the server has nothing of it.
    pub(super) fn check_forgotten(&mut self, id: Id) {
        self.caller(id).seen.forgotten = true;
        let (_, dead) = self.fate(id);
        let dead = dead || self.is_kept(id);
        let caller = &self.callers[index(id)];
        let ttl = caller.claim.ttl();
        // A place has no end of its own that is near: whatever came in time must be gone.
        if let Some(place) = self.server.place_of(caller.wish.key, id, self.now)
            && !dead
            && !caller.seen.data_lost
            && place.aged < given_up_after(ttl)
        {
            self.checks.fail("queue", format!("{id} was forgotten and has a place"));
        }
        let caller = &self.callers[index(id)];
        let Some(stored) = self.server.holder(caller.wish.key, self.now).filter(|held| held.owner == id)
        else {
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

    /// A renewal that left when its client had been `frozen` for so long is answered.
    pub(super) fn check_extended(&mut self, id: Id, frozen: Time) {
        self.checks.renewals += 1;
        if self.holds(id) {
            let seen = &mut self.caller(id).seen;
            seen.renewals = 0;
            seen.frozen = frozen;
        }
    }

    /// Whether the lease of `id` says that it is valid.
    fn holds(&self, id: Id) -> bool {
        let clock = self.clock_of(id);
        let held =
            |lease: &Lease| lease.id == id && lease.record.word().deadline().is_some_and(|end| clock < end);
        self.checks.leases.iter().any(held)
    }

    /// The server's word that a lease is gone has been acted upon.
    pub(super) fn check_gone(&mut self, id: Id) {
        if self.holds(id) {
            self.checks.fail("gone", format!("{id} goes on though the server says it has nothing"));
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
        let renews =
            self.callers[index(id)].wish.renew_for.is_some() && self.server.flaw != Flaw::TimeStandsStill;
        let frozen = self.frozen_since(id, self.callers[index(id)].seen.frozen);
        if reason == LossReason::Expired && renews && tries < 2 && frozen == 0 {
            self.checks.fail("renewal", format!("{id} expired after {tries} tries to renew it"));
        }
    }

    /// What a store does that refuses old tokens.
    pub(super) fn check_write(&mut self, id: Id, token: u64) {
        let caller = &self.callers[index(id)];
        let (key, betrayed) = (caller.wish.key, caller.is_betrayed());
        let holds = self.holds(id) && !self.clients[caller.wish.client].killed;
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

    /// Nothing is left of anybody.
    pub(super) fn check_end(&mut self) {
        let longest = self.callers.iter().map(|caller| caller.claim.ttl()).max().unwrap_or_default();
        let over = self.now + stretched(us(longest + attempt_timeout(longest))) + self.checks.set_back;
        if self.server.keys(over) > 0 {
            self.checks.fail("leak", "a key is left on the server");
        }
        if self.server.queued(over + stretched(LINGER)) > 0 {
            self.checks.fail("queue", "a queue is left on the server");
        }
        for at in 0..self.clients.len() {
            let client = &self.clients[at];
            let idle = client.keeping.is_empty() && client.seats.is_empty();
            if !(idle || client.killed) {
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
