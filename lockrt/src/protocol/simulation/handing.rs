//! What clients hear of their places in queues, and what programs do that know nothing of queues.

use crate::claim::Attempt;
use crate::protocol::kept::Id;
use crate::protocol::simulation::caller::State;
use crate::protocol::simulation::checks::us;
use crate::protocol::simulation::drift::{MS, Time};
use crate::protocol::simulation::network::Fate;
use crate::protocol::simulation::plan::Flaw;
use crate::protocol::simulation::queue::Message;
use crate::protocol::simulation::server::{Answer, FOREIGN, Party, Request};
use crate::protocol::simulation::world::{What, World, index};

impl World {
    /// The server publishes.
    pub(super) fn publish(&mut self, message: Message) {
        let (Message::Offer(Party { owner, .. }) | Message::Standby(owner, _)) = message;
        let client = self.callers[index(owner)].wish.client;
        let fate = self.network.push(client, self.now, &mut self.dice);
        self.note(|| format!("server: {message:?} {fate:?}"));
        if let Fate::Arrives(at) = fate {
            self.at(at, What::Hear { client, message });
        }
    }

    /// A message has come to a client.
    pub(super) fn hear(&mut self, client: usize, message: Message) {
        match message {
            Message::Offer(party) if self.has_place(client, party.owner) => self.wake(client, party.owner),
            Message::Offer(party) => {
                self.checks.declined += 1;
                self.decline(client, party);
            }
            Message::Standby(id, offer) => {
                if self.has_place(client, id) {
                    self.look_later(client, id, us(offer) + MS);
                }
            }
        }
    }

    fn has_place(&self, client: usize, id: Id) -> bool {
        self.clients[client].seats.get(&id).is_some_and(|seat| seat.place.is_some())
    }

    /// Wakes a claim, unless it makes another attempt by then.
    fn look_later(&mut self, client: usize, id: Id, rest: Time) {
        let attempts = self.caller(id).seen.attempts;
        self.later(rest, What::Look { client, id, attempts });
    }

    pub(super) fn look_at(&mut self, client: usize, id: Id, attempts: u64) {
        if self.caller(id).seen.attempts == attempts {
            self.wake(client, id);
        }
    }

    /// Somebody who will not call holds the key: its waiters look by themselves.
    pub(super) fn look_after_foreign(&mut self, client: usize, request: &Request, answer: &Answer) {
        if let (Request::Try(party), Answer::Tried(Attempt::Held { .. })) = (request, answer)
            && self.server.holder(party.key, self.now).is_some_and(|stored| stored.owner == FOREIGN)
        {
            let rest = self.dice.between(150 * MS, 250 * MS);
            self.look_later(client, party.owner, rest);
        }
    }

    /// After a new connection every waiter looks: what was published meanwhile is lost.
    pub(super) fn look_again(&mut self, client: usize, at: Time) {
        let waiting: Vec<Id> = self.clients[client]
            .seats
            .keys()
            .copied()
            .filter(|id| matches!(self.callers[index(*id)].state, State::Acquiring))
            .collect();
        for id in waiting {
            let late = self.dice.between(MS, 20 * MS);
            self.at(at.max(self.now) + late, What::Wake { client, id });
        }
    }

    /// Another program takes a key that is free, by its own means.
    pub(super) fn take_foreign(&mut self, key: usize, until: Time) {
        if self.server.holder(key, self.now).is_none() {
            self.server.put_foreign(key, until, self.now);
        }
    }

    /// Another program deletes a key, whoever has it.
    pub(super) fn delete_foreign(&mut self, key: usize) {
        let Some(stored) = self.server.holder(key, self.now) else { return };
        self.server.delete(key);
        if stored.owner != FOREIGN {
            self.caller(stored.owner).seen.data_lost = true;
        }
    }

    /// A client has died. The server may learn that at once, or never.
    pub(super) fn kill(&mut self, client: usize) {
        self.clients[client].killed = true;
        if self.dice.chance(500) {
            let of_client = self.callers.iter().filter(|caller| caller.wish.client == client);
            self.server.gone.extend(of_client.map(|caller| caller.id));
        }
    }

    /// Whether clients tell the server that they want an offer no more.
    pub(super) fn declines(&self) -> bool {
        self.server.flaw != Flaw::OffersAreKept
    }
}
