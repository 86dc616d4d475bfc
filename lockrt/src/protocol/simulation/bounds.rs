//! How long anything may take.

use std::time::Duration;

use crate::policy::Contention;
use crate::protocol::kept::{Id, Remains};
use crate::protocol::simulation::caller::{Caller, State};
use crate::protocol::simulation::checks::{HASTE, stretched, us};
use crate::protocol::simulation::drift::{MS, Time};
use crate::protocol::simulation::plan::HEALED;
use crate::protocol::simulation::server::FOREIGN;
use crate::protocol::simulation::world::{World, index};
use crate::protocol::waiting::Event;

impl World {
    /// For how long the client of a caller has been frozen, beyond what it had been by then.
    pub(super) fn frozen_since(&self, id: Id, frozen: Time) -> Time {
        self.clients[self.callers[index(id)].wish.client].frozen_for - frozen
    }

    /// A body whose lease is lost is dropped soon, also one that sleeps.
    pub(super) fn check_stopped(&mut self, at: usize, ended: Time) {
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
    pub(super) fn check_progress(&mut self, key: usize) {
        let of_key = |caller: &&Caller| caller.wish.key == key && !self.clients[caller.wish.client].killed;
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
            Event::Stale => {
                caller.seen.silent_since = None;
                caller.seen.stale += 1;
            }
            Event::Paused { .. } => {}
        }
    }

    /// A wait ends at its deadline: not earlier as contended, at most 50 ms later.
    pub(super) fn check_end_of_wait(&mut self, id: Id, how: &'static str) {
        if how == "contended" && self.callers[index(id)].seen.refusals == 0 {
            self.checks.fail("silence", format!("{id} took silence for contention"));
        }
        if how == "unavailable" {
            self.check_outage(id);
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

    /// Nobody gives up a server that has just answered.
    fn check_outage(&mut self, id: Id) {
        let (caller, clock) = (&self.callers[index(id)], self.clock_of(id));
        let bound = us(caller.claim.ttl()).min(3_000 * MS);
        let silent = caller.seen.silent_since.map_or(0, |since| self.now - since);
        let over = self.wait_ends(id).is_some_and(|deadline| clock >= deadline);
        // The last pause is not made if nothing could follow it.
        let least = (bound - bound / 100).saturating_sub(320 * MS);
        if silent < least && !over && caller.seen.stale == 0 {
            self.checks.fail("silence", format!("{id} gave up after {} ms of silence", silent / MS));
        }
    }

    /// A caller waits for its release at most 250 ms, and is told once.
    pub(super) fn check_released(&mut self, id: Id) {
        let now = self.now;
        let left = self.callers[index(id)].seen.left;
        let late =
            left.is_none_or(|(at, frozen, _)| now > at + 250 * MS + HASTE + self.frozen_since(id, frozen));
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
        let cut = (end - 1_000 * MS, frozen);
        self.clients[client].cut.get_or_insert(cut);
        self.clients[client].closing = Some(earlier.filter(|(by, _)| *by < end).unwrap_or((end, frozen)));
    }

    /// A shutdown is over in time, and names whatever it leaves on the server.
    pub(super) fn check_closed(&mut self, client: usize, remains: &Remains) {
        let Some((by, frozen)) = self.clients[client].closing.take() else { return };
        if self.now > stretched(by) + HASTE + (self.clients[client].frozen_for - frozen) {
            self.checks.fail("shutdown", format!("client {client} took too long to shut down"));
        }
        let named = |id: Id| {
            let key = self.callers[index(id)].record.key();
            remains.unreleased.iter().chain(&remains.kept).any(|(_, named)| named == key)
        };
        let silent: Vec<Id> = (0..self.keys)
            .filter_map(|key| self.server.holder(key, self.now))
            .map(|stored| stored.owner)
            .filter(|id| *id != FOREIGN)
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
}
