//! How long to pause between repetitions; pure.

use std::time::Duration;

/// Pauses that double from a first to a longest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    next_ms: u32,
    most_ms: u32,
}

impl Backoff {
    pub(crate) const fn of_ms(next_ms: u32, most_ms: u32) -> Self {
        Self { next_ms, most_ms }
    }

    /// Between releases of a claim in doubt: 5 ms, doubling, at most 1 s.
    pub(crate) const fn cleaning() -> Self {
        Self::of_ms(5, 1_000)
    }

    /// Between attempts that got no answer.
    pub(crate) const fn unanswered() -> Self {
        Self::of_ms(10, 250)
    }

    /// Between attempts after wake-ups that came to nothing. A backend may wake early, even
    /// always; it must not make a waiter spin.
    pub(crate) const fn woken_in_vain() -> Self {
        Self::of_ms(1, 50)
    }

    /// The next pause; the one after it is twice as long.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = Duration::from_millis(u64::from(self.next_ms));
        self.next_ms = self.next_ms.saturating_mul(2).min(self.most_ms);
        pause
    }
}

/// `span` times a factor between 0.75 and 1.25 that `seed` decides, so that processes that start
/// together do not ask together.
pub(crate) fn spread(span: Duration, seed: u64) -> Duration {
    // The multiplier of Knuth's MMIX generator mixes consecutive seeds well enough for jitter.
    let mixed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1) >> 33;
    let permille = 750 + u32::try_from(mixed % 501).unwrap_or_default();
    span.saturating_mul(permille) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut backoff = Backoff::cleaning();
        let pauses: Vec<u128> = (0..10).map(|_| backoff.pause().as_millis()).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]);
    }

    #[test]
    fn spread_stays_within_a_quarter_and_differs() {
        let base = Duration::from_secs(1);
        let spans: Vec<Duration> = (0..100).map(|seed| spread(base, seed)).collect();
        assert!(spans.iter().all(|s| (750..=1_250).contains(&s.as_millis())));
        assert!(spans.iter().collect::<std::collections::HashSet<_>>().len() > 50);
    }
}
