//! A lock service with the semantics of one Redis server, and ways for it to be wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::claim::{Attempt, Released, Renewed};
use crate::protocol::kept::Id;
use crate::protocol::simulation::drift::{Drift, MS, Time};
use crate::protocol::simulation::plan::Flaw;
use crate::token::FencingToken;

/// Who asks for what: the number of a key, and of the claim, which stands for its owner token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Party {
    pub(super) key: usize,
    pub(super) owner: Id,
    pub(super) ttl: Duration,
}

#[derive(Clone, Debug)]
pub(super) enum Request {
    Try(Party),
    Renew(Vec<Party>),
    Free(Party),
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    Tried(Attempt),
    Renewed(Vec<Renewed>),
    Freed(Released),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub(super) owner: Id,
    /// On the server's clock.
    pub(super) until: u64,
    /// How long the request that wrote this had been on its way.
    pub(super) aged: Time,
}

#[derive(Debug)]
pub(super) struct Server {
    pub(super) flaw: Flaw,
    drift: Drift,
    /// How far its clock has been set forward or back.
    offset: i64,
    locks: BTreeMap<usize, Stored>,
    last_fence: u64,
    /// What each write replaced, so that a crash can lose the last ones.
    undo: Vec<(usize, Option<Stored>, u64)>,
    /// Keys freed by the last request.
    pub(super) freed: Option<usize>,
    /// It answers nobody until then.
    pub(super) paused_until: Time,
    /// Requests that arrive before then are refused or lost.
    pub(super) down_until: Time,
}

impl Server {
    pub(super) fn new(flaw: Flaw, drift: Drift) -> Self {
        Self {
            flaw,
            drift,
            offset: 0,
            locks: BTreeMap::new(),
            last_fence: 0,
            undo: Vec::new(),
            freed: None,
            paused_until: 0,
            down_until: 0,
        }
    }

    /// Its own clock, in microseconds.
    pub(super) fn clock(&self, now: Time) -> u64 {
        self.drift.shows(now).saturating_add_signed(self.offset)
    }

    pub(super) fn set_clock(&mut self, by: i64) {
        self.offset += by;
    }

    pub(super) fn holder(&self, key: usize, now: Time) -> Option<Stored> {
        let clock = self.clock(now);
        self.locks.get(&key).copied().filter(|stored| clock < stored.until)
    }

    pub(super) fn keys(&self, now: Time) -> usize {
        self.locks.keys().filter(|key| self.holder(**key, now).is_some()).count()
    }

    /// Forgets the last `writes`, or everything.
    pub(super) fn lose(&mut self, writes: Option<usize>) {
        for _ in 0..writes.unwrap_or(usize::MAX) {
            let Some((key, before, fence)) = self.undo.pop() else { return };
            self.last_fence = fence;
            match before {
                Some(stored) => self.locks.insert(key, stored),
                None => self.locks.remove(&key),
            };
        }
    }

    pub(super) fn answer(&mut self, request: &Request, aged: Time, now: Time) -> Answer {
        self.freed = None;
        match request {
            Request::Try(party) => Answer::Tried(self.attempt(*party, aged, now)),
            Request::Renew(parties) => {
                Answer::Renewed(parties.iter().map(|party| self.renew(*party, aged, now)).collect())
            }
            Request::Free(party) => Answer::Freed(self.free(*party, now)),
        }
    }

    fn attempt(&mut self, party: Party, aged: Time, now: Time) -> Attempt {
        if let Some(stored) = self.holder(party.key, now)
            && stored.owner != party.owner
            && self.flaw != Flaw::AcquireOverwrites
        {
            let left = Duration::from_micros(stored.until - self.clock(now));
            return Attempt::Held { free_in: Some(left) };
        }
        let fence = self.mint(now);
        self.write(party, aged, now, fence);
        Attempt::Granted { fencing: Some(FencingToken::new(fence)) }
    }

    fn mint(&self, now: Time) -> u64 {
        match self.flaw {
            Flaw::FenceCounts => self.last_fence + 1,
            Flaw::FenceIsClock => self.clock(now),
            _ => self.clock(now).max(self.last_fence + 1),
        }
    }

    fn write(&mut self, party: Party, aged: Time, now: Time, fence: u64) {
        let ttl = u64::try_from(party.ttl.as_micros()).unwrap();
        // Whole milliseconds, as Redis.
        let until = (self.clock(now) / MS * MS) + ttl.max(MS);
        let until = if self.flaw == Flaw::NothingExpires { u64::MAX } else { until };
        let before = self.locks.insert(party.key, Stored { owner: party.owner, until, aged });
        self.undo.push((party.key, before, self.last_fence));
        self.last_fence = fence;
    }

    fn renew(&mut self, party: Party, aged: Time, now: Time) -> Renewed {
        let holder = self.holder(party.key, now);
        let ours = holder.is_some_and(|stored| stored.owner == party.owner);
        if ours || (holder.is_some() && self.flaw == Flaw::RenewForAnybody) {
            let owner = holder.map_or(party.owner, |stored| stored.owner);
            if self.flaw != Flaw::RenewDoesNothing {
                self.write(Party { owner, ..party }, aged, now, self.last_fence);
            }
            Renewed::Extended
        } else {
            Renewed::Gone
        }
    }

    fn free(&mut self, party: Party, now: Time) -> Released {
        let holder = self.holder(party.key, now);
        let ours = holder.is_some_and(|stored| stored.owner == party.owner);
        if !ours && (holder.is_none() || self.flaw != Flaw::FreeForAnybody) {
            return Released::NotHeld;
        }
        if self.flaw != Flaw::FreeDoesNothing {
            let before = self.locks.remove(&party.key);
            self.undo.push((party.key, before, self.last_fence));
            self.freed = Some(party.key);
        }
        Released::Freed
    }
}
