//! One contender per process and key: waiters of one process stand in line here, first come first
//! served, so that 500 of them cost the lock service what one does.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Moment;
use crate::keeper::{Keeper, waking};
use crate::key::LockKey;

/// How long the owner of a turn may leave it, once woken, before the next in line gets it.
const OFFER: Duration = Duration::from_millis(100);

/// The lines of one manager.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Inner>);

struct Inner {
    keeper: Keeper,
    lines: Mutex<HashMap<LockKey, Line>>,
}

/// Who waits for a key, behind whoever has the turn or is offered it.
struct Line {
    first: First,
    waiting: VecDeque<Arc<Ticket>>,
}

struct First {
    ticket: Arc<Ticket>,
    taken: bool,
    /// Its owner was woken and has not been polled in time, and nobody else was there.
    stale: bool,
}

#[derive(Default)]
struct Ticket {
    called: Notify,
    /// Counts the polls of its owner since it took its turn.
    polls: AtomicU64,
}

/// The right to contend for a key; dropping it lets the next in line.
pub(crate) struct Turn {
    gate: Gate,
    key: LockKey,
    ticket: Arc<Ticket>,
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
        let ticket = Arc::new(Ticket::default());
        let place = || Place { gate: self.clone(), key: key.clone(), ticket: Arc::clone(&ticket) };
        let first = First { ticket: Arc::clone(&ticket), taken: true, stale: false };
        let mut lines = self.lines();
        match lines.get_mut(key) {
            None => {
                lines.insert(key.clone(), Line { first, waiting: VecDeque::new() });
            }
            Some(line) if line.first.stale => {
                let former = std::mem::replace(&mut line.first, first);
                if !former.taken {
                    // Its owner is not being polled; it goes behind whoever is.
                    line.waiting.push_back(former.ticket);
                }
            }
            Some(line) => {
                line.waiting.push_back(Arc::clone(&ticket));
                return Entered::Place(place());
            }
        }
        Entered::Turn(Turn { gate: self.clone(), key: key.clone(), ticket })
    }

    /// Offers the turn to the next in line, or closes the line. Takes the lines, since whoever is
    /// called runs code of others, which may come back here: they are unlocked by then.
    fn pass(&self, mut lines: MutexGuard<'_, HashMap<LockKey, Line>>, key: &LockKey) {
        let Some(line) = lines.get_mut(key) else { return };
        let Some(next) = line.waiting.pop_front() else {
            lines.remove(key);
            return;
        };
        line.first = First { ticket: Arc::clone(&next), taken: false, stale: false };
        drop(lines);
        // Before the call: it counts the polls that come after.
        self.watch(key, &next);
        waking(|| next.called.notify_one());
    }

    /// Looks in a while whether the owner of `ticket`, which is about to be woken, was polled.
    fn watch(&self, key: &LockKey, ticket: &Arc<Ticket>) {
        let (gate, key, polls) = (Arc::downgrade(&self.0), key.clone(), ticket.polls.load(Ordering::Acquire));
        self.0.keeper.call_at(self.0.keeper.clock().now() + OFFER, ticket, move |ticket| {
            if let Some(gate) = gate.upgrade()
                && ticket.polls.load(Ordering::Acquire) == polls
            {
                Self(gate).lapse(&key, ticket);
            }
        });
    }

    /// Takes the turn from an owner that is not being polled, if somebody else waits for it.
    fn lapse(&self, key: &LockKey, ticket: &Arc<Ticket>) {
        let mut lines = self.lines();
        let Some(line) = lines.get_mut(key).filter(|line| line.first.is(ticket)) else { return };
        if line.waiting.is_empty() {
            line.first.stale = true;
            return;
        }
        if !line.first.taken {
            line.waiting.push_back(Arc::clone(ticket));
        }
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
        let line = lines.get_mut(&self.key).filter(|line| line.first.is(&self.ticket))?;
        line.first.taken = true;
        line.first.stale = false;
        self.ticket.polls.fetch_add(1, Ordering::AcqRel);
        Some(Turn { gate: self.gate.clone(), key: self.key.clone(), ticket: Arc::clone(&self.ticket) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = self.gate.lines();
        let Some(line) = lines.get_mut(&self.key) else { return };
        line.waiting.retain(|ticket| !Arc::ptr_eq(ticket, &self.ticket));
        if line.first.is(&self.ticket) && !line.first.taken {
            self.gate.pass(lines, &self.key);
        }
    }
}

impl First {
    fn is(&self, ticket: &Arc<Ticket>) -> bool {
        Arc::ptr_eq(&self.ticket, ticket)
    }
}

impl Turn {
    /// Runs `future`, and lets the next in line if it is woken and then not polled: a runtime that
    /// hangs must not stop those of others.
    ///
    /// # Cancellation
    ///
    /// As `future`.
    pub(crate) async fn during<T>(&self, mut future: Pin<&mut impl Future<Output = T>>) -> T {
        poll_fn(|cx| {
            self.polled();
            let Self { gate, key, ticket } = self;
            let (gate, key, ticket) = (Arc::downgrade(&gate.0), key.clone(), Arc::clone(ticket));
            let alarm = Alarm { gate, key, ticket, waker: cx.waker().clone() };
            future.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::new(alarm))))
        })
        .await
    }

    fn polled(&self) {
        self.ticket.polls.fetch_add(1, Ordering::AcqRel);
        if let Some(line) = self.gate.lines().get_mut(&self.key).filter(|line| line.first.is(&self.ticket)) {
            line.first.stale = false;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let lines = self.gate.lines();
        // It may have lapsed.
        if lines.get(&self.key).is_some_and(|line| line.first.is(&self.ticket)) {
            self.gate.pass(lines, &self.key);
        }
    }
}

/// Wakes the owner of a turn, and sees to it that the turn does not depend on that.
struct Alarm {
    gate: Weak<Inner>,
    key: LockKey,
    ticket: Arc<Ticket>,
    waker: Waker,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(gate) = self.gate.upgrade() {
            Gate(gate).watch(&self.key, &self.ticket);
        }
        self.waker.wake_by_ref();
    }
}
