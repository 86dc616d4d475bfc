//! How a lock is taken, kept and given back: [`LockPolicy`].

use std::time::Duration;

/// Part of a TTL kept back for clocks that run at different rates: 1 % and 2 ms, as the
/// Redis documentation does for its algorithm
/// (<https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>).
const MARGIN: Duration = Duration::from_millis(2);

/// The shortest TTL: of a shorter one too little is left when the answer has been read. The attribute knows this and the
/// next bound by itself.
pub(crate) const MIN_TTL: Duration = Duration::from_millis(10);

/// The longest TTL; a longer one is a mistake in units.
pub(crate) const MAX_TTL: Duration = Duration::from_secs(31 * 24 * 3_600);

/// The rules of one lock, built in `const` context.
///
/// Without renewal the TTL is also a hard time-out of the body: when it has passed, the lease is
/// lost and the body is stopped.
///
/// ```
/// use std::time::Duration;
/// use lockrt::LockPolicy;
///
/// static RECALCULATE: LockPolicy = LockPolicy::new(Duration::from_secs(10))
///     .named("quotes::recalculate")
///     .wait(Duration::from_secs(2))
///     .renew(Duration::from_secs(60));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct LockPolicy {
    name: &'static str,
    ttl: Duration,
    contention: Contention,
    renewal: Renewal,
    on_lost: OnLost,
    on_cancel: OnCancel,
    release: ReleaseMode,
    min_hold: Option<Duration>,
    fencing_required: bool,
}

/// What to do when somebody else holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Contention {
    /// Refuse after exactly one answered attempt.
    Fail,
    /// Wait at most this long.
    Wait(Duration),
    /// Wait as long as the lock has a holder; never for a lock service that does not answer.
    WaitForever,
}

/// Whether the keeper renews the lease while the body runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Renewal {
    /// The lease ends when its TTL has passed.
    Off,
    /// Renewed until this long after the grant, then lost.
    Auto {
        /// The longest time that renewals may keep the lock.
        max: Duration,
    },
}

/// What happens to a running body whose lease is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnLost {
    /// The body is dropped and the call returns `Lost`.
    Cancel,
    /// The body runs to its end; the loss is an event only.
    Report,
}

/// What happens to the key when the body was dropped, timed out or panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnCancel {
    /// It is released.
    Release,
    /// It stays until its TTL has passed, since an effect may still be in flight.
    Hold,
}

/// Whether the caller waits for the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseMode {
    /// It does, for at most 250 ms; then the keeper takes over.
    Awaited,
    /// The release is started and the call returns at once.
    Started,
}

impl LockPolicy {
    /// A policy with this TTL that fails on contention, does not renew, cancels the body on loss
    /// and releases whatever happens.
    pub const fn new(ttl: Duration) -> Self {
        Self {
            name: "lock",
            ttl,
            contention: Contention::Fail,
            renewal: Renewal::Off,
            on_lost: OnLost::Cancel,
            on_cancel: OnCancel::Release,
            release: ReleaseMode::Awaited,
            min_hold: None,
            fencing_required: false,
        }
    }

    /// Sets the name that errors, events and metrics carry; it must not depend on the key.
    pub const fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// Waits at most `timeout` for a lock that somebody else holds.
    pub const fn wait(mut self, timeout: Duration) -> Self {
        self.contention = Contention::Wait(timeout);
        self
    }

    /// Waits for as long as somebody else holds the lock.
    pub const fn wait_forever(mut self) -> Self {
        self.contention = Contention::WaitForever;
        self
    }

    /// Renews until `max` after the grant. The cap is mandatory: a lock that is renewed for ever
    /// is an incident.
    pub const fn renew(mut self, max: Duration) -> Self {
        self.renewal = Renewal::Auto { max };
        self
    }

    /// Sets what happens to the body when the lease is lost.
    pub const fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.on_lost = on_lost;
        self
    }

    /// Sets what happens to the key when the body was dropped, timed out or panicked. For a guard
    /// taken by hand, dropping it without [`release`](crate::LockGuard::release) counts as that.
    pub const fn on_cancel(mut self, on_cancel: OnCancel) -> Self {
        self.on_cancel = on_cancel;
        self
    }

    /// Sets whether the caller waits for the release.
    pub const fn release(mut self, release: ReleaseMode) -> Self {
        self.release = release;
        self
    }

    /// Keeps the key until this long after the grant, even if the body ends earlier.
    pub const fn min_hold(mut self, min_hold: Duration) -> Self {
        self.min_hold = Some(min_hold);
        self
    }

    /// Refuses the acquire on a backend that cannot give fencing tokens.
    pub const fn require_fencing(mut self) -> Self {
        self.fencing_required = true;
        self
    }

    /// The name in errors, events and metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// How long a grant lasts without renewal.
    #[must_use]
    pub const fn ttl(&self) -> Duration {
        self.ttl
    }

    /// What happens on contention.
    #[must_use]
    pub const fn contention(&self) -> Contention {
        self.contention
    }

    /// Whether the lease is renewed.
    #[must_use]
    pub const fn renewal(&self) -> Renewal {
        self.renewal
    }

    /// What happens on loss.
    #[must_use]
    pub const fn lost_action(&self) -> OnLost {
        self.on_lost
    }

    /// What happens to the key of a dropped body.
    #[must_use]
    pub const fn cancel_action(&self) -> OnCancel {
        self.on_cancel
    }

    /// Whether the release is awaited.
    #[must_use]
    pub const fn release_mode(&self) -> ReleaseMode {
        self.release
    }

    /// The shortest time that the key is kept.
    #[must_use]
    pub const fn hold_at_least(&self) -> Option<Duration> {
        self.min_hold
    }

    /// Whether a backend without fencing tokens is refused.
    #[must_use]
    pub const fn requires_fencing(&self) -> bool {
        self.fencing_required
    }

    /// Checks the policy for a backend whose shortest TTL and clock offset margin are given.
    ///
    /// # Errors
    ///
    /// [`InvalidTtl`] for a TTL or cap that could not be kept; nothing has been sent by then.
    pub fn check(&self, shortest: Duration, offset_margin: Duration) -> Result<(), InvalidTtl> {
        check_ttl(self.ttl, shortest, offset_margin)?;
        if let Renewal::Auto { max } = self.renewal
            && max < self.ttl
        {
            return Err(InvalidTtl::CapBelowTtl { max, ttl: self.ttl });
        }
        match self.min_hold {
            Some(min_hold) if min_hold >= self.ttl => {
                Err(InvalidTtl::MinHoldNotBelowTtl { min_hold, ttl: self.ttl })
            }
            _ => Ok(()),
        }
    }
}

/// Checks a TTL against the bounds of a backend.
pub(crate) fn check_ttl(
    ttl: Duration,
    shortest: Duration,
    offset_margin: Duration,
) -> Result<(), InvalidTtl> {
    let least = shortest.max(MIN_TTL).max(offset_margin.saturating_mul(4));
    if ttl < least {
        Err(InvalidTtl::TooShort { ttl, least })
    } else if ttl > MAX_TTL {
        Err(InvalidTtl::TooLong { ttl, most: MAX_TTL })
    } else {
        Ok(())
    }
}

/// What a holder keeps back from `ttl`, so that its lease ends before the server's.
pub(crate) fn margin(ttl: Duration, offset_margin: Duration) -> Duration {
    ttl / 100 + MARGIN + offset_margin
}

/// Why a TTL, or a time that depends on it, cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTtl {
    /// No lease of this length could be told apart from an expired one.
    #[error("a ttl of {} ms is too short here; write at least {} ms", ttl.as_millis(), least.as_millis())]
    TooShort {
        /// The TTL asked for.
        ttl: Duration,
        /// The shortest one.
        least: Duration,
    },
    /// The TTL is longer than a month, most likely a mistake in units.
    #[error("a ttl of {} ms is longer than the most of {} ms; is it in milliseconds?", ttl.as_millis(), most.as_millis())]
    TooLong {
        /// The TTL asked for.
        ttl: Duration,
        /// The longest one.
        most: Duration,
    },
    /// Renewal would end before the first TTL has passed.
    #[error("the renewal cap of {} ms is below the ttl of {} ms; raise the cap or lower the ttl", max.as_millis(), ttl.as_millis())]
    CapBelowTtl {
        /// The cap.
        max: Duration,
        /// The TTL.
        ttl: Duration,
    },
    /// The key would have to be kept for longer than it lives.
    #[error("a min_hold of {} ms is not below the ttl of {} ms; lower it or raise the ttl", min_hold.as_millis(), ttl.as_millis())]
    MinHoldNotBelowTtl {
        /// The shortest hold asked for.
        min_hold: Duration,
        /// The TTL.
        ttl: Duration,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_ttl_must_leave_room_for_the_margins() {
        let check = |ttl, offset| LockPolicy::new(ms(ttl)).check(ms(1), ms(offset));
        assert_eq!(check(0, 0), Err(InvalidTtl::TooShort { ttl: ms(0), least: ms(10) }));
        assert_eq!(check(10, 0), Ok(()));
        assert_eq!(check(999, 250), Err(InvalidTtl::TooShort { ttl: ms(999), least: ms(1_000) }));
        assert_eq!(check(1_000, 250), Ok(()));
        assert!(matches!(check(u64::MAX, 0), Err(InvalidTtl::TooLong { .. })));
    }

    #[test]
    fn cap_and_min_hold_are_checked_against_the_ttl() {
        let policy = LockPolicy::new(ms(100));
        assert!(matches!(policy.renew(ms(99)).check(ms(1), ms(0)), Err(InvalidTtl::CapBelowTtl { .. })));
        assert_eq!(policy.renew(ms(100)).check(ms(1), ms(0)), Ok(()));
        assert!(matches!(
            policy.min_hold(ms(100)).check(ms(1), ms(0)),
            Err(InvalidTtl::MinHoldNotBelowTtl { .. })
        ));
        assert_eq!(policy.min_hold(ms(99)).check(ms(1), ms(0)), Ok(()));
    }

    #[test]
    fn the_margin_is_one_percent_two_ms_and_the_offset() {
        assert_eq!(margin(ms(10_000), ms(0)), ms(102));
        assert_eq!(margin(ms(10_000), ms(250)), ms(352));
    }
}
