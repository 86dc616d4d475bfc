//! One contender per process and key: waiters of one process stand in line here, first come first
//! served, so that 500 of them cost the lock service what one does.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Moment;
use crate::keeper::Keeper;
use crate::key::LockKey;

/// How long a turn is offered before the next in line gets it.
const OFFER: Duration = Duration::from_millis(100);

/// The lines of one manager.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Inner>);

struct Inner {
    keeper: Keeper,
    lines: Mutex<HashMap<LockKey, Line>>,
}

/// Who waits for a key. It exists while somebody has the turn or is offered it.
#[derive(Default)]
struct Line {
    waiting: VecDeque<Arc<Ticket>>,
    offered: Option<Offer>,
}

struct Offer {
    to: Arc<Ticket>,
    /// Not taken in time, and nobody else was there to take it.
    stale: bool,
}

#[derive(Default)]
struct Ticket {
    called: Notify,
}

/// The right to contend for a key; dropping it lets the next in line.
pub(crate) struct Turn {
    gate: Gate,
    key: LockKey,
}

impl Gate {
    pub(crate) fn new(keeper: Keeper) -> Self {
        Self(Arc::new(Inner { keeper, lines: Mutex::default() }))
    }

    /// Waits for the turn, at most until `deadline`; none if that has passed.
    ///
    /// # Cancellation
    ///
    /// Leaves the line.
    pub(crate) async fn turn(&self, key: &LockKey, deadline: Option<Moment>) -> Option<Turn> {
        let place = match self.enter(key) {
            Entered::Turn(turn) => return Some(turn),
            Entered::Place(place) => place,
        };
        if let Some(deadline) = deadline {
            self.0.keeper.call_at(deadline, &place.ticket, |ticket| ticket.called.notify_one());
        }
        loop {
            place.ticket.called.notified().await;
            if let Some(turn) = place.take() {
                return Some(turn);
            }
            let now = self.0.keeper.clock().now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return None;
            }
        }
    }

    fn enter(&self, key: &LockKey) -> Entered {
        let mut lines = self.lines();
        let Some(line) = lines.get_mut(key) else {
            lines.insert(key.clone(), Line::default());
            return Entered::Turn(Turn { gate: self.clone(), key: key.clone() });
        };
        if line.offered.as_ref().is_some_and(|offer| offer.stale)
            && let Some(offer) = line.offered.take()
        {
            // Its owner is not being polled; it goes behind whoever is.
            line.waiting.push_back(offer.to);
            return Entered::Turn(Turn { gate: self.clone(), key: key.clone() });
        }
        let ticket = Arc::new(Ticket::default());
        line.waiting.push_back(Arc::clone(&ticket));
        Entered::Place(Place { gate: self.clone(), key: key.clone(), ticket })
    }

    /// Offers the turn to the next in line, or closes the line. Takes the lines, since whoever is
    /// called runs code of others, which may come back here: they are unlocked by then.
    fn pass(&self, mut lines: MutexGuard<'_, HashMap<LockKey, Line>>, key: &LockKey) {
        let Some(line) = lines.get_mut(key) else { return };
        line.offered = None;
        let Some(next) = line.waiting.pop_front() else {
            lines.remove(key);
            return;
        };
        line.offered = Some(Offer { to: Arc::clone(&next), stale: false });
        drop(lines);
        let (gate, key) = (Arc::downgrade(&self.0), key.clone());
        let lapses = self.0.keeper.clock().now() + OFFER;
        self.0.keeper.call_at(lapses, &next, move |ticket| {
            if let Some(gate) = gate.upgrade() {
                Self(gate).lapse(&key, ticket);
            }
        });
        next.called.notify_one();
    }

    /// Takes back an offer that was not taken in time, if somebody else waits for it.
    fn lapse(&self, key: &LockKey, ticket: &Arc<Ticket>) {
        let mut lines = self.lines();
        let Some(line) = lines.get_mut(key) else { return };
        let Some(offer) = &mut line.offered else { return };
        if !Arc::ptr_eq(&offer.to, ticket) {
            return;
        }
        if line.waiting.is_empty() {
            offer.stale = true;
            return;
        }
        line.waiting.push_back(Arc::clone(ticket));
        self.pass(lines, key);
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<LockKey, Line>> {
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("lines", &self.lines().len()).finish()
    }
}

enum Entered {
    Turn(Turn),
    Place(Place),
}

/// A place in line, given up on drop.
struct Place {
    gate: Gate,
    key: LockKey,
    ticket: Arc<Ticket>,
}

impl Place {
    fn take(&self) -> Option<Turn> {
        let mut lines = self.gate.lines();
        let line = lines.get_mut(&self.key)?;
        line.offered.take_if(|offer| Arc::ptr_eq(&offer.to, &self.ticket))?;
        Some(Turn { gate: self.gate.clone(), key: self.key.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = self.gate.lines();
        let Some(line) = lines.get_mut(&self.key) else { return };
        line.waiting.retain(|ticket| !Arc::ptr_eq(ticket, &self.ticket));
        if line.offered.as_ref().is_some_and(|offer| Arc::ptr_eq(&offer.to, &self.ticket)) {
            self.gate.pass(lines, &self.key);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.gate.pass(self.gate.lines(), &self.key);
    }
}
