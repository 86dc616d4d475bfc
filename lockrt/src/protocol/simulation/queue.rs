//! Who waits at the server for one key, as the scripts for Redis keep it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::protocol::kept::Id;
use crate::protocol::simulation::checks::us;
use crate::protocol::simulation::drift::{MS, Time};
use crate::protocol::simulation::server::Party;

/// For how long a lock is offered.
const OFFER: Duration = Duration::from_millis(200);
/// How long places outlive the moment at which each waiter has looked again.
pub(super) const LINGER: Time = 4_000 * MS;

#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    places: VecDeque<Place>,
    /// On the server's clock.
    until: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) owner: Id,
    pub(super) offer: Duration,
    /// How long the request that took it had been on its way.
    pub(super) aged: Time,
}

/// What the server tells a claim in its place; a hint that may be lost as any message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    Offer(Party),
    /// It was offered to the one ahead, for so long.
    Standby(Id, Duration),
}

impl Queue {
    pub(super) fn line_up(&mut self, party: Party, left: Time, aged: Time, clock: u64) {
        if clock >= self.until {
            self.places.clear();
        }
        if self.place_of(party.owner).is_none() {
            let offer = party.ttl.min(OFFER);
            self.places.push_back(Place { owner: party.owner, offer, aged });
        }
        self.until = self.until.max(clock + left.min(us(party.ttl)) + LINGER);
    }

    /// Gives a place up; whether there was one.
    pub(super) fn leave(&mut self, owner: Id, clock: u64) -> bool {
        let had = self.live(clock).any(|place| place.owner == owner);
        self.places.retain(|place| place.owner != owner);
        had
    }

    pub(super) fn pop(&mut self, clock: u64) -> Option<Place> {
        if clock < self.until { self.places.pop_front() } else { None }
    }

    /// The places that have not expired.
    pub(super) fn live(&self, clock: u64) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(move |_| clock < self.until)
    }

    fn place_of(&self, owner: Id) -> Option<&Place> {
        self.places.iter().find(|place| place.owner == owner)
    }

    pub(super) fn stays(&mut self) {
        self.until = u64::MAX;
    }
}
