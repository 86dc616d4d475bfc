//! The holder's view of its lock: [`Lease`], and which leases the running body stands under.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use tokio::sync::futures::Notified;

use crate::claim::Released;
use crate::clock::Moment;
use crate::error::{LockError, LossReason};
use crate::keeper::{Place, Record};
use crate::key::LockKey;
use crate::observe;
use crate::protocol::kept::Parting;
use crate::protocol::lease::{End, Standing};
use crate::token::FencingToken;

/// A lock that is held until a deadline.
///
/// A lease is no absolute guarantee: the holder may be paused past its deadline and not know it.
/// [`check`](Self::check) before a write that matters narrows that window and does not close it;
/// sending the [fencing token](Self::fencing) with the write, to a store that refuses a smaller
/// one than it has seen, does.
///
/// Cloning is cheap; every clone is a view of the same lease.
#[derive(Clone)]
pub struct Lease(Place);

impl Lease {
    /// The lease that has begun at this place.
    pub(crate) fn new(place: Place) -> Self {
        Self(place)
    }

    /// The caller has it, since `now`.
    pub(crate) fn begins(&self, now: Moment, ttl: Duration) {
        self.record().holding.begin(now, ttl);
    }

    fn record(&self) -> &Record {
        self.0.record()
    }

    /// What is locked.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        &self.record().key
    }

    /// The lock's name, as in errors and events.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.record().name
    }

    /// The number by which a store can refuse this holder once a later one has written; none on a
    /// backend that cannot fence.
    #[must_use]
    pub fn fencing(&self) -> Option<FencingToken> {
        self.record().fencing.get().copied()
    }

    /// How long the lease lasts from now unless it is renewed; zero once it has ended.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.standing() {
            Standing::Held(deadline) => deadline.since(self.0.clock().now()),
            Standing::Ended(_) => Duration::ZERO,
        }
    }

    /// Whether the lease is held at this moment. Never blocks.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`], or [`LockError::Released`] after it was given back.
    pub fn check(&self) -> Result<(), LockError> {
        match self.standing() {
            Standing::Held(_) => Ok(()),
            Standing::Ended(End::Lost(reason)) => Err(self.loss(reason)),
            Standing::Ended(End::Released) => {
                Err(LockError::Released { name: self.name(), key: self.key().clone() })
            }
        }
    }

    /// Resolves when the lease is lost, at once if it has been; never after a release.
    ///
    /// # Cancellation
    ///
    /// Dropping it has no effect.
    pub async fn lost(&self) -> LockError {
        loop {
            let ended = self.ended();
            match self.standing() {
                Standing::Held(_) => ended.await,
                Standing::Ended(End::Lost(reason)) => return self.loss(reason),
                Standing::Ended(End::Released) => return std::future::pending().await,
            }
        }
    }

    /// Gives the lock back before the body ends: claim quickly, then work. The body runs on
    /// without the lock and is not stopped at the deadline.
    ///
    /// The answer is [`Released::Deferred`] if somebody has given the lease back before, or if the
    /// lock service has not answered within 250 ms.
    ///
    /// # Cancellation
    ///
    /// The release goes on.
    pub async fn release(&self) -> Released {
        match self.end() {
            Some(_ended) => self.0.release(Parting::Ended).await,
            None => Released::Deferred,
        }
    }

    /// The same without waiting for the answer.
    pub(crate) fn leave(&self, parting: Parting) {
        if let Some(_ended) = self.end() {
            self.0.leave(parting);
        }
    }

    /// Ends the lease for its release; none if that was done before.
    fn end(&self) -> Option<GivenBack<'_>> {
        if !self.record().give_back() {
            return None;
        }
        // One reading of the clock for both: a deadline between two readings would be told to nobody.
        let now = self.0.clock().now();
        let held =
            matches!(self.standing_at(now), Standing::Held(_)) && self.record().word.end(now, End::Released);
        Some(GivenBack { lease: self, now, held })
    }

    /// How the lease stands now. Whoever sees the deadline passed first tells everybody.
    pub(crate) fn standing(&self) -> Standing {
        self.standing_at(self.0.clock().now())
    }

    fn standing_at(&self, now: Moment) -> Standing {
        let (standing, just_expired) = self.record().word.at(now);
        if just_expired {
            self.0.tell_end();
            observe::lost(self.name(), self.key(), LossReason::Expired);
        }
        standing
    }

    /// Resolves when the lease is lost after this call.
    pub(crate) fn ended(&self) -> Notified<'_> {
        self.0.ended()
    }

    pub(crate) fn loss(&self, reason: LossReason) -> LockError {
        LockError::Lost { name: self.name(), key: self.key().clone(), reason }
    }

    fn is(&self, manager: u64, key: &LockKey) -> bool {
        self.record().manager == manager && self.record().key == *key
    }
}

/// A lease that has ended for its release. Counted when this is dropped: the release goes first, since whoever counts
/// is foreign code.
struct GivenBack<'a> {
    lease: &'a Lease,
    now: Moment,
    /// It had not been lost.
    held: bool,
}

impl Drop for GivenBack<'_> {
    fn drop(&mut self) {
        let (lease, holding) = (self.lease, &self.lease.record().holding);
        observe::given_back(lease.name(), lease.0.backend(), holding, self.now, self.held);
    }
}

/// So that what takes a token takes a lease too; see [`fence`](crate::fence).
impl From<&Lease> for Option<FencingToken> {
    fn from(lease: &Lease) -> Self {
        lease.fencing()
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("name", &self.name())
            .field("key", self.key())
            .field("fencing", &self.fencing())
            .field("standing", &self.standing())
            .finish()
    }
}

thread_local! {
    /// The leases of the bodies that are being polled on this thread, outermost first.
    static POLLED: RefCell<Vec<Lease>> = const { RefCell::new(Vec::new()) };
}

/// The lease that the running body holds, the innermost one if locks are nested; none outside a
/// body, in other tasks and under a guard taken by hand.
///
/// A callee can so assert what it runs under:
///
/// ```
/// fn write(row: u32) {
///     assert!(lockrt::current_lease().is_some_and(|lease| lease.check().is_ok()), "row {row} needs the lock");
/// }
/// ```
#[must_use]
pub fn current_lease() -> Option<Lease> {
    POLLED.try_with(|polled| polled.borrow().last().cloned()).ok().flatten()
}

/// Whether a body that is being polled on this thread holds `key` of `manager`.
pub(crate) fn is_polled_under(manager: u64, key: &LockKey) -> bool {
    let of_key = |polled: &RefCell<Vec<Lease>>| {
        polled.borrow().iter().filter(|lease| lease.is(manager, key)).cloned().collect::<Vec<_>>()
    };
    // Looked at after the borrow ends: whoever sees a lease end tells it, to code of others.
    let leases = POLLED.try_with(of_key).unwrap_or_default();
    leases.iter().any(|lease| matches!(lease.standing(), Standing::Held(_)))
}

/// Marks one poll of a body, until it is dropped. Stays on its thread.
pub(crate) struct Polling(PhantomData<*const ()>);

impl Polling {
    pub(crate) fn under(lease: &Lease) -> Self {
        POLLED.with_borrow_mut(|polled| polled.push(lease.clone()));
        Self(PhantomData)
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        // The lease is dropped after the borrow ends: its drop may run code of others.
        let lease = POLLED.with_borrow_mut(Vec::pop);
        drop(lease);
    }
}
