//! The owner of a lease: [`LockGuard`].

use std::fmt;

use crate::claim::Released;
use crate::lease::Lease;
use crate::mutant::{self, Flaw};
use crate::policy::{LockPolicy, OnCancel, OnLost, ReleaseMode};
use crate::protocol::kept::Parting;

/// Owns a lock until it is released or dropped.
///
/// Dropping it hands the release to the keeper and returns at once, with or without a runtime.
/// With `on_cancel = hold` dropping it keeps the key until its TTL has passed; only
/// [`release`](Self::release) then gives it back earlier.
#[must_use = "the lock is given back as soon as its guard is dropped"]
pub struct LockGuard {
    lease: Lease,
    on_lost: OnLost,
    on_cancel: OnCancel,
    release: ReleaseMode,
}

impl LockGuard {
    pub(crate) fn new(lease: Lease, policy: &LockPolicy) -> Self {
        let (on_lost, on_cancel) = (policy.lost_action(), policy.cancel_action());
        Self { lease, on_lost, on_cancel, release: policy.release_mode() }
    }

    /// The lease that this guard owns.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Releases the lock and says what came of it: [`Released::Freed`], [`Released::NotHeld`] if
    /// the lease had ended by then, or [`Released::Deferred`] if `min_hold` keeps the key or the
    /// lock service has not answered within 250 ms, so that the keeper goes on.
    ///
    /// # Cancellation
    ///
    /// The release goes on.
    pub async fn release(self) -> Released {
        self.lease.release().await
    }

    /// What becomes of the body when the lease is lost.
    pub(crate) fn lost_action(&self) -> OnLost {
        self.on_lost
    }

    /// What becomes of the key when the body is dropped.
    pub(crate) fn cancel_action(&self) -> OnCancel {
        self.on_cancel
    }

    /// Ends the lease of a body that was dropped.
    pub(crate) fn abandon(&self) {
        self.lease.leave(Parting::Dropped);
    }

    /// Ends the lease of a body that came to its end.
    pub(crate) async fn settle(&self) {
        match self.release {
            // The body's own result wins whatever the answer is; the keeper has told it.
            ReleaseMode::Awaited => drop(self.lease.release().await),
            ReleaseMode::Started => self.settle_started(),
        }
    }

    /// The same without waiting for the answer.
    pub(crate) fn settle_started(&self) {
        self.lease.leave(Parting::Ended);
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if mutant::has(Flaw::RenewalOutlivesGuard) {
            return;
        }
        if mutant::has(Flaw::ReleaseBySpawnInDrop) {
            let (runtime, lease) = (tokio::runtime::Handle::try_current(), self.lease.clone());
            drop(runtime.map(|runtime| runtime.spawn(async move { lease.leave(Parting::Dropped) })));
            return;
        }
        self.abandon();
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard").field("lease", &self.lease).finish_non_exhaustive()
    }
}
