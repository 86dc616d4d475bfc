//! Every claim of one keeper: what is due when, and how a shutdown ends.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Attempt, Claim, Released, Renewed};
use crate::clock::Moment;
use crate::error::{BackendError, LossReason};
use crate::key::LockKey;
use crate::protocol::by_id::{ById, shrink};
use crate::protocol::due::Due;
use crate::protocol::kept::{Action, Goes, Id, Kept, Parting, Record, Remains, Terms, Told};

/// How long a shutdown goes on after its time-out, to release what it took from running bodies.
const GRACE: Duration = Duration::from_secs(1);
/// How many leases are renewed in one call.
const BATCH: usize = 128;

/// What has happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// The caller asks for an attempt; the first one registers the claim.
    Try { id: Id, claim: Claim, terms: Terms, record: Arc<dyn Record> },
    /// An attempt that left at `sent` has ended.
    Tried { id: Id, sent: Moment, result: Result<Attempt, BackendError> },
    /// The caller gives the claim up, or back.
    Release { id: Id, parting: Parting },
    /// A batch of renewals that left at `sent` has ended. A missing answer is no answer.
    Renewed { sent: Moment, answers: Vec<(Id, Option<Renewed>)> },
    /// A release has ended.
    Freed { id: Id, result: Result<Released, BackendError> },
    /// Time has passed.
    Tick,
    /// The manager shuts down; bodies may run until then.
    Close { until: Moment },
}

/// Every claim of one keeper.
#[derive(Debug, Default)]
pub(crate) struct Keeping {
    entries: ById<Kept>,
    due: Due,
    closing: Option<Closing>,
}

#[derive(Debug)]
struct Closing {
    until: Moment,
    cut: bool,
    told: bool,
    kept: Vec<(&'static str, LockKey)>,
}

impl Keeping {
    /// Carries `event` into the claims and adds what to do about it.
    pub(crate) fn step_into(&mut self, event: Event, now: Moment, actions: &mut Vec<Action>) {
        match event {
            Event::Try { id, claim, terms, record } => {
                self.try_claim(id, |now| Kept::new(claim, terms, record, now), now, actions);
            }
            Event::Tried { id, sent, result } => {
                self.with(id, actions, |entry, actions| entry.tried(id, sent, result, now, actions));
            }
            Event::Release { id, parting } => {
                self.with(id, actions, |entry, actions| entry.release(id, parting, now, actions));
            }
            Event::Renewed { sent, answers } => {
                for (id, answer) in answers {
                    self.with(id, actions, |entry, actions| {
                        entry.renewed(id, sent, answer.as_ref(), now, actions)
                    });
                }
            }
            Event::Freed { id, result } => {
                self.with(id, actions, |entry, actions| entry.freed(id, result.ok(), now, actions));
            }
            Event::Tick => {}
            Event::Close { until } => self.close(until, now, actions),
        }
        self.tick(now, actions);
        self.close_if_done(now, actions);
        let entries = &self.entries;
        self.due.tidy(|at, id| entries.get(&id).is_some_and(|entry| entry.due == Some(at)));
    }

    /// The same, as a list.
    #[cfg(test)]
    pub(crate) fn step(&mut self, event: Event, now: Moment) -> Vec<Action> {
        let mut actions = Vec::new();
        self.step_into(event, now, &mut actions);
        actions
    }

    /// When something is due next.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        let first = self.due.first().map(|(at, _)| at);
        let closing = self.closing.as_ref().filter(|closing| !closing.told);
        let end = closing.map(|c| if c.cut { c.until + GRACE } else { c.until });
        first.into_iter().chain(end).min()
    }

    /// Whether no claim is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether nothing is being given back.
    pub(crate) fn is_settled(&self) -> bool {
        !self.entries.values().any(Kept::is_freeing)
    }

    /// Whether somebody has the lease of `key`, or of any.
    pub(crate) fn has_lease(&self, key: Option<&LockKey>) -> bool {
        let mut entries = self.entries.values();
        entries.any(|entry| entry.has_lease() && key.is_none_or(|key| entry.record.key() == key))
    }

    /// Whether a shutdown has begun.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    pub(crate) fn claim(&self, id: Id) -> Option<&Claim> {
        self.entries.get(&id).map(|entry| &entry.claim)
    }

    fn try_claim(
        &mut self,
        id: Id,
        first: impl FnOnce(Moment) -> Kept,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        if self.closing.is_some() {
            actions.push(Action::Tell(id, Told::ShuttingDown));
            if !self.entries.contains_key(&id) {
                actions.push(Action::Forget(id));
            }
            return;
        }
        self.entries.entry(id).or_insert_with(|| first(now)).trying(now);
        actions.push(Action::Try(id));
    }

    /// Runs one claim's part of a step; it says whether the claim goes on.
    fn with(
        &mut self,
        id: Id,
        actions: &mut Vec<Action>,
        step: impl FnOnce(&mut Kept, &mut Vec<Action>) -> Goes,
    ) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        match step(entry, actions) {
            Goes::On => {
                let next = entry.next_due();
                if let Some(at) = next
                    && entry.due != next
                {
                    self.due.set(at, id);
                }
                entry.due = next;
            }
            Goes::Over => {
                self.entries.remove(&id);
                shrink(&mut self.entries);
                actions.push(Action::Forget(id));
            }
        }
    }

    fn tick(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let mut renewals = Vec::new();
        while let Some((at, id)) = self.due.take(now) {
            match self.entries.get_mut(&id) {
                Some(entry) if entry.due == Some(at) => entry.due = None,
                _ => continue,
            }
            self.with(id, actions, |entry, actions| entry.tick(id, now, &mut renewals, actions));
        }
        self.fill(now, &mut renewals, actions);
        self.batch(renewals, actions);
    }

    /// Takes those that are due soon along, where a call has room for them: they cost little more, and are due
    /// together from then on.
    fn fill(&mut self, now: Moment, renewals: &mut Vec<Id>, actions: &mut Vec<Action>) {
        while !renewals.len().is_multiple_of(BATCH)
            && let Some((at, id)) = self.due.first()
        {
            let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.due == Some(at)) else {
                // Its claim has another moment by now.
                self.due.take(at);
                continue;
            };
            if !entry.renews_early(now) {
                break;
            }
            entry.due = None;
            self.due.take(at);
            self.with(id, actions, |_, _| Goes::On);
            renewals.push(id);
        }
    }

    /// Puts leases of similar ttls into one call: each gives its answer as long as the shortest has.
    fn batch(&self, mut renewals: Vec<Id>, actions: &mut Vec<Action>) {
        let ttl = |id: &Id| self.entries.get(id).map(|entry| entry.claim.ttl()).unwrap_or_default();
        // Stable, so that those of one ttl stay in the order in which they are due.
        renewals.sort_by_cached_key(ttl);
        let mut rest = renewals.as_slice();
        while let Some(shortest) = rest.first().map(ttl) {
            let similar = rest.iter().take(BATCH).take_while(|id| ttl(id) <= 2 * shortest).count();
            let (batch, later) = rest.split_at(similar);
            actions.push(Action::Renew(batch.to_vec()));
            rest = later;
        }
    }

    fn close(&mut self, until: Moment, now: Moment, actions: &mut Vec<Action>) {
        let running = self.closing.take().filter(|closing| !closing.told);
        self.closing = Some(match running {
            // Both end together, so that neither takes longer than it was told.
            Some(closing) => Closing { until: closing.until.min(until), ..closing },
            None => Closing { until, cut: false, told: false, kept: Vec::new() },
        });
        for id in self.ids(Kept::is_trying) {
            actions.push(Action::Tell(id, Told::ShuttingDown));
            self.with(id, actions, |entry, actions| entry.release(id, Parting::Unused, now, actions));
        }
    }

    /// In the order of their registration, so that the same events give the same actions.
    fn ids(&self, wanted: impl Fn(&Kept) -> bool) -> Vec<Id> {
        let wanted = self.entries.iter().filter(|(_, entry)| wanted(entry));
        let mut ids: Vec<Id> = wanted.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    fn close_if_done(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let Some(closing) = &mut self.closing else { return };
        if closing.told {
            return;
        }
        let until = closing.until;
        if now >= until && !std::mem::replace(&mut closing.cut, true) {
            self.cut(now, actions);
        }
        let busy = self.entries.values().any(|entry| !entry.is_resting());
        if busy && now < until + GRACE {
            return;
        }
        let list = |resting: bool| {
            let chosen = self.ids(|entry| entry.is_resting() == resting);
            let chosen = chosen.iter().filter_map(|id| self.entries.get(id));
            chosen.map(|entry| (entry.record.name(), entry.record.key().clone())).collect::<Vec<_>>()
        };
        let (unreleased, resting) = (list(false), list(true));
        if let Some(closing) = &mut self.closing {
            closing.told = true;
            let mut kept = std::mem::take(&mut closing.kept);
            kept.extend(resting);
            actions.push(Action::Closed(Remains { unreleased, kept }));
        }
    }

    /// Takes the leases of the bodies that still run.
    fn cut(&mut self, now: Moment, actions: &mut Vec<Action>) {
        for id in self.ids(Kept::is_held) {
            let mut kept = None;
            self.with(id, actions, |entry, actions| {
                entry.lose(id, LossReason::ShuttingDown, now, actions);
                let goes = entry.release(id, Parting::Dropped, now, actions);
                // What goes on is told of with whatever rests, or is not released.
                if goes == Goes::Over && entry.holds_on_cancel() {
                    kept = Some((entry.record.name(), entry.record.key().clone()));
                }
                goes
            });
            if let Some(closing) = &mut self.closing {
                closing.kept.extend(kept);
            }
        }
    }
}

#[cfg(test)]
mod tests;
