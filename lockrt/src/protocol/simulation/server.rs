//! A lock service with the semantics of one Redis server, and ways for it to be wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::claim::{Attempt, Released, Renewed};
use crate::protocol::kept::Id;
use crate::protocol::simulation::drift::{Drift, MS, Time};
use crate::protocol::simulation::plan::Flaw;
use crate::protocol::simulation::queue::{Message, Place, Queue};
use crate::token::FencingToken;

/// Who asks for what: the number of a key, and of the claim, which stands for its owner token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Party {
    pub(super) key: usize,
    pub(super) owner: Id,
    pub(super) ttl: Duration,
    /// Whether it goes on waiting when it is refused.
    pub(super) waits: bool,
}

/// The owner of locks that another program has written.
pub(super) const FOREIGN: Id = Id::MAX;

#[derive(Clone, Debug)]
pub(super) enum Request {
    Try(Party),
    Renew(Vec<Party>),
    Free(Party),
    /// Hands an offer on that was not taken.
    Decline(Party),
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
    /// Not yet a grant: it was offered to the first who waited.
    pub(super) offered: bool,
}

#[derive(Debug)]
pub(super) struct Server {
    pub(super) flaw: Flaw,
    drift: Drift,
    /// How far its clock has been set forward or back.
    offset: i64,
    locks: BTreeMap<usize, Stored>,
    /// Whether those who wait have places, by key.
    pub(super) has_queues: bool,
    queues: BTreeMap<usize, Queue>,
    /// Whose client it knows to be dead.
    pub(super) gone: BTreeSet<Id>,
    /// What it has published during the last request.
    pub(super) told: Vec<Message>,
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
            has_queues: false,
            queues: BTreeMap::new(),
            gone: BTreeSet::new(),
            told: Vec::new(),
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

    /// The locks of ours.
    pub(super) fn keys(&self, now: Time) -> usize {
        let held = self.locks.keys().filter_map(|key| self.holder(*key, now));
        held.filter(|stored| stored.owner != FOREIGN).count()
    }

    /// Forgets the last `writes`, or everything.
    pub(super) fn lose(&mut self, writes: Option<usize>) {
        self.queues.clear();
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
            Request::Decline(party) => Answer::Freed(self.decline(*party, now)),
        }
    }

    fn attempt(&mut self, party: Party, aged: Time, now: Time) -> Attempt {
        if let Some(stored) = self.holder(party.key, now)
            && stored.owner != party.owner
            && self.flaw != Flaw::AcquireOverwrites
        {
            let clock = self.clock(now);
            let left = stored.until - clock;
            if party.waits && self.has_queues {
                let queue = self.queues.entry(party.key).or_default();
                queue.line_up(party, left, aged, clock);
                if self.flaw == Flaw::QueuesStay {
                    queue.stays();
                }
            }
            return Attempt::Held { free_in: Some(Duration::from_micros(left)) };
        }
        self.leave_queue(party, now);
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
        self.put(party.key, Stored { owner: party.owner, until, aged, offered: false });
        self.last_fence = fence;
    }

    fn put(&mut self, key: usize, stored: Stored) {
        let before = self.locks.insert(key, stored);
        self.undo.push((key, before, self.last_fence));
    }

    fn renew(&mut self, party: Party, aged: Time, now: Time) -> Renewed {
        let holder = self.holder(party.key, now);
        let ours = holder.is_some_and(|stored| stored.owner == party.owner && !stored.offered);
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
            let left = self.flaw != Flaw::PlacesStay && self.leave_queue(party, now);
            return if left { Released::Freed } else { Released::NotHeld };
        }
        if holder.is_some_and(|stored| stored.offered) && self.flaw == Flaw::OffersAreKept {
            return Released::NotHeld;
        }
        if self.flaw != Flaw::FreeDoesNothing {
            self.hand_on(party, now);
        }
        Released::Freed
    }

    fn decline(&mut self, party: Party, now: Time) -> Released {
        let holder = self.holder(party.key, now);
        if holder.is_none_or(|stored| stored.owner != party.owner || !stored.offered) {
            return Released::NotHeld;
        }
        self.hand_on(party, now);
        Released::Freed
    }

    /// Offers the lock of `party` to the first who waits and is alive, or deletes it.
    fn hand_on(&mut self, party: Party, now: Time) {
        let clock = self.clock(now);
        while let Some(place) = self.queues.get_mut(&party.key).and_then(|queue| queue.pop(clock)) {
            if place.owner != party.owner && !self.gone.contains(&place.owner) {
                return self.offer(party.key, place, clock);
            }
        }
        self.delete(party.key);
        self.freed = Some(party.key);
    }

    fn offer(&mut self, key: usize, place: Place, clock: u64) {
        let Place { owner, offer, aged } = place;
        let lasts = u64::try_from(offer.as_micros()).unwrap();
        let until = if self.flaw == Flaw::OffersStay { u64::MAX } else { clock / MS * MS + lasts };
        self.put(key, Stored { owner, until, aged, offered: true });
        self.told.push(Message::Offer(Party { key, owner, ttl: offer, waits: true }));
        if let Some(next) = self.queues.get(&key).and_then(|queue| queue.live(clock).next()) {
            self.told.push(Message::Standby(next.owner, offer));
        }
    }

    pub(super) fn delete(&mut self, key: usize) {
        let before = self.locks.remove(&key);
        self.undo.push((key, before, self.last_fence));
    }

    pub(super) fn put_foreign(&mut self, key: usize, until: Time, now: Time) {
        let until = self.clock(now) + (until - now);
        self.put(key, Stored { owner: FOREIGN, until, aged: 0, offered: false });
    }

    fn leave_queue(&mut self, party: Party, now: Time) -> bool {
        let clock = self.clock(now);
        self.queues.get_mut(&party.key).is_some_and(|queue| queue.leave(party.owner, clock))
    }

    /// The place that a claim has.
    pub(super) fn place_of(&self, key: usize, owner: Id, now: Time) -> Option<Place> {
        let mut places = self.queues.get(&key)?.live(self.clock(now));
        places.find(|place| place.owner == owner).copied()
    }

    pub(super) fn queued(&self, now: Time) -> usize {
        self.queues.values().map(|queue| queue.live(self.clock(now)).count()).sum()
    }
}
