//! The clock that leases are counted on.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Add;
use std::time::{Duration, Instant};

use once_cell::sync::Lazy;

/// A point on a [`Clock`], comparable only with others of the same clock; by default its origin.
// One more than its nanoseconds, so that one that may be missing takes no more room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(NonZeroU64);

impl Moment {
    /// The farthest moment; a lease never gets there.
    pub const FAR: Self = Self(NonZeroU64::MAX);

    /// The moment `nanos` nanoseconds after the clock's origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }

    /// Nanoseconds since the clock's origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// The time from `earlier` to `self`, zero if there is none.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.as_nanos().saturating_sub(earlier.as_nanos()))
    }

    /// `self` moved back by `span`, at most to the origin.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self::from_nanos(self.as_nanos().saturating_sub(nanos(span)))
    }
}

impl Default for Moment {
    fn default() -> Self {
        Self::from_nanos(0)
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Moment").field(&self.as_nanos()).finish()
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Where the time of leases comes from.
///
/// A lease must go on ageing while its machine sleeps, so the ordinary clock is `CLOCK_BOOTTIME`
/// where that exists: on Linux [`Instant`] stops in suspend
/// (<https://doc.rust-lang.org/std/time/struct.Instant.html#underlying-system-calls>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock(Source);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    System,
    Tokio,
}

impl Clock {
    /// The machine's clock, counting through suspend where the system offers that.
    #[must_use]
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// tokio's clock, which tests can pause and advance.
    #[must_use]
    pub const fn tokio() -> Self {
        Self(Source::Tokio)
    }

    /// The present moment.
    #[must_use]
    pub fn now(self) -> Moment {
        match self.0 {
            Source::System => system_now(),
            Source::Tokio => {
                let now = tokio::time::Instant::now().into_std();
                Moment::from_nanos(nanos(now.saturating_duration_since(*ORIGIN)))
            }
        }
    }
}

/// An hour before first use, so that no moment of this process lies before it.
static ORIGIN: Lazy<Instant> = Lazy::new(|| {
    let now = Instant::now();
    now.checked_sub(Duration::from_secs(3_600)).unwrap_or(now)
});

#[cfg(target_os = "linux")]
fn system_now() -> Moment {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    let rest = u64::try_from(now.tv_nsec).unwrap_or_default();
    Moment::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(rest))
}

#[cfg(not(target_os = "linux"))]
fn system_now() -> Moment {
    Moment::from_nanos(nanos(Instant::now().saturating_duration_since(*ORIGIN)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_moves_forward() {
        let first = Clock::system().now();
        while Clock::system().now() == first {}
        assert!(Clock::system().now() > first);
    }

    #[tokio::test(start_paused = true)]
    async fn the_tokio_clock_stands_until_it_is_advanced() {
        let first = Clock::tokio().now();
        assert_eq!(Clock::tokio().now(), first);
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(Clock::tokio().now().since(first), Duration::from_secs(7));
    }

    #[test]
    fn a_moment_that_may_be_missing_takes_no_more_room() {
        assert_eq!(size_of::<Option<Moment>>(), size_of::<u64>());
        assert_eq!(Moment::from_nanos(7).as_nanos(), 7);
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Moment::FAR + Duration::MAX, Moment::FAR);
        assert_eq!(Moment::from_nanos(5).minus(Duration::MAX), Moment::from_nanos(0));
        assert_eq!(Moment::from_nanos(5).since(Moment::FAR), Duration::ZERO);
    }
}
