//! What is asked of a backend, and its answers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::BackendError;
use crate::key::LockKey;
use crate::token::{FencingToken, OwnerToken};

/// One acquisition: a key, an owner token, a TTL, and whether it waits.
///
/// Key and owner token say all: whoever knows the claim can renew, release or clean it up, from
/// any connection, thread or process. Cloning is cheap.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Claim(Arc<Inner>);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Inner {
    key: LockKey,
    owner: OwnerToken,
    ttl_ms: u64,
    waits: bool,
}

impl Claim {
    pub(crate) fn new(key: LockKey, owner: OwnerToken, ttl: Duration, waits: bool) -> Self {
        Self(Arc::new(Inner { key, owner, ttl_ms: millis(ttl), waits }))
    }

    /// The key under which the lock service stores the lock, the manager's prefix included.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        &self.0.key
    }

    /// Who asks.
    #[must_use]
    pub fn owner(&self) -> &OwnerToken {
        &self.0.owner
    }

    /// How long a grant or a renewal lasts; whole milliseconds.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        Duration::from_millis(self.0.ttl_ms)
    }

    /// The TTL in milliseconds.
    #[must_use]
    pub fn ttl_ms(&self) -> u64 {
        self.0.ttl_ms
    }

    /// Whether the owner goes on waiting when the lock is held, so that a backend may queue it.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.0.waits
    }

    /// The same claim with another TTL, for a renewal by another length.
    #[must_use]
    pub fn with_ttl(&self, ttl: Duration) -> Self {
        Self(Arc::new(Inner { ttl_ms: millis(ttl), ..Inner::clone(&self.0) }))
    }
}

/// A TTL as it is counted, in whole milliseconds.
pub(crate) fn whole_ms(span: Duration) -> Duration {
    Duration::from_millis(millis(span))
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("key", &self.0.key)
            .field("owner", &self.0.owner)
            .field("ttl", &self.ttl())
            .field("waits", &self.0.waits)
            .finish()
    }
}

/// The answer to one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attempt {
    /// The claim holds the lock for its TTL, counted by the service from now.
    Granted {
        /// Greater than every token given for this key before; none on a backend that cannot fence.
        fencing: Option<FencingToken>,
    },
    /// Somebody else holds it.
    Held {
        /// How long until that lease ends unless it is renewed, or a little longer for a claim that waits behind
        /// others; none if unknown or endless.
        free_in: Option<Duration>,
    },
}

/// The answer to one renewal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Renewed {
    /// The claim holds the lock for its TTL from now.
    Extended,
    /// Proof that the claim no longer holds the lock.
    Gone,
    /// No answer; no proof of anything.
    Unknown(BackendError),
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The claim's grant or queue place has been freed.
    Freed,
    /// The claim had nothing to free.
    NotHeld,
    /// Given by a guard only, never by a backend: the keeper frees the key later, because
    /// `min_hold` keeps it on purpose or because the service has not answered within 250 ms.
    Deferred,
}

/// What a backend can do; the lock above it adapts, and refuses what is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    name: &'static str,
    fence: FenceStrength,
    shortest_ttl: Duration,
    offset_margin: Duration,
    expiry: Expiry,
    wakes: bool,
    fair: bool,
}

/// What fencing tokens of a backend survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FenceStrength {
    /// There are none.
    None,
    /// Tokens rise while the service keeps its data, or its clock is not behind the last grant.
    Durable,
    /// Tokens rise whatever minority of the service fails.
    Linearizable,
}

/// What carries the expiry of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expiry {
    /// Each claim has its own; any connection can renew it.
    PerClaim,
    /// The session that took it; it is renewed with the session.
    PerSession,
}

impl Capabilities {
    /// A backend of this name that does not fence, wake or queue, with an expiry per claim.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            fence: FenceStrength::None,
            shortest_ttl: Duration::from_millis(1),
            offset_margin: Duration::ZERO,
            expiry: Expiry::PerClaim,
            wakes: false,
            fair: false,
        }
    }

    /// Sets what its fencing tokens survive.
    #[must_use]
    pub const fn fences(mut self, strength: FenceStrength) -> Self {
        self.fence = strength;
        self
    }

    /// Sets the shortest TTL it can keep.
    #[must_use]
    pub const fn with_shortest_ttl(mut self, ttl: Duration) -> Self {
        self.shortest_ttl = ttl;
        self
    }

    /// Sets how far apart the clocks of its servers may be, where a failover moves leases between
    /// them.
    #[must_use]
    pub const fn with_offset_margin(mut self, margin: Duration) -> Self {
        self.offset_margin = margin;
        self
    }

    /// Sets what carries the expiry of a grant.
    #[must_use]
    pub const fn with_expiry(mut self, expiry: Expiry) -> Self {
        self.expiry = expiry;
        self
    }

    /// Says that `freed` resolves soon after a release.
    #[must_use]
    pub const fn wakes_on_release(mut self) -> Self {
        self.wakes = true;
        self
    }

    /// Says that waiting claims are served in order.
    #[must_use]
    pub const fn queues_fairly(mut self) -> Self {
        self.fair = true;
        self
    }

    /// The backend's name in errors, events and metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What its fencing tokens survive.
    #[must_use]
    pub const fn fence(&self) -> FenceStrength {
        self.fence
    }

    /// Whether grants carry fencing tokens.
    #[must_use]
    pub const fn can_fence(&self) -> bool {
        !matches!(self.fence, FenceStrength::None)
    }

    /// The shortest TTL it can keep.
    #[must_use]
    pub const fn shortest_ttl(&self) -> Duration {
        self.shortest_ttl
    }

    /// How far apart its servers' clocks may be.
    #[must_use]
    pub const fn offset_margin(&self) -> Duration {
        self.offset_margin
    }

    /// What carries the expiry of a grant.
    #[must_use]
    pub const fn expiry(&self) -> Expiry {
        self.expiry
    }

    /// Whether `freed` resolves soon after a release.
    #[must_use]
    pub const fn wakes(&self) -> bool {
        self.wakes
    }

    /// Whether waiting claims are served in order.
    #[must_use]
    pub const fn is_fair(&self) -> bool {
        self.fair
    }
}
