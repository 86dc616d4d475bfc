//! Who waits for one lock, in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::hint::Hint;
use crate::claim::Claim;
use crate::clock::Moment;
use crate::token::OwnerToken;

/// For how long a waiter is offered a lock before the next one looks, as on Redis.
const OFFER: Duration = Duration::from_millis(200);
/// How long a queue outlives the moment at which each of those in it should have looked again, as on Redis.
const LINGER: Duration = Duration::from_secs(4);

/// The places of claims that wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiter>,
    until: Moment,
}

/// One claim in its place.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) owner: OwnerToken,
    pub(super) offer: Duration,
    pub(super) hint: Arc<Hint>,
}

impl Queue {
    /// Takes a place behind the others for `claim`, unless it has one, behind a lease that ends at `end`.
    ///
    /// Whoever waits looks again at `end`, or after two thirds of its own ttl if that is earlier.
    pub(super) fn line_up(&mut self, claim: &Claim, end: Moment, now: Moment) {
        self.until = self.until.max(end.min(now + claim.ttl()) + LINGER);
        match self.hint_of(claim) {
            Some(hint) => hint.forget(),
            None => self.waiting.push_back(Waiter {
                owner: claim.owner().clone(),
                offer: claim.ttl().min(OFFER),
                hint: Arc::new(Hint::new()),
            }),
        }
    }

    /// Gives the place of `claim` up; whether it had one.
    pub(super) fn leave(&mut self, claim: &Claim) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiter| waiter.owner != *claim.owner());
        self.waiting.len() < before
    }

    /// What `claim` is told in its place.
    pub(super) fn hint_of(&self, claim: &Claim) -> Option<Arc<Hint>> {
        let place = self.waiting.iter().find(|waiter| waiter.owner == *claim.owner());
        place.map(|waiter| Arc::clone(&waiter.hint))
    }

    /// The first, who leaves the queue, and what the next one hears.
    pub(super) fn pop(&mut self) -> Option<(Waiter, Option<Arc<Hint>>)> {
        let first = self.waiting.pop_front()?;
        Some((first, self.waiting.front().map(|next| Arc::clone(&next.hint))))
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether somebody waits, who has looked lately.
    pub(super) fn is_of_use(&self, now: Moment) -> bool {
        !self.waiting.is_empty() && now < self.until
    }
}
