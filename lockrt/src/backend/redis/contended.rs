//! Which locks somebody else had lately.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Moment;

/// For how long a lock counts as contended after an attempt has met its holder.
const LATELY: Duration = Duration::from_secs(1);

/// Moments by cluster slot, several slots each: of a fixed size, however many locks there are. A lock may be
/// mistaken for another one, which then costs a little more and is right all the same.
#[derive(Debug)]
pub(super) struct Contended(Box<[AtomicU64; 1_024]>);

impl Contended {
    pub(super) fn new() -> Self {
        Self(Box::new([const { AtomicU64::new(0) }; 1_024]))
    }

    /// A lock of this slot was held.
    pub(super) fn note(&self, slot: u16, now: Moment) {
        self.of(slot).store((now + LATELY).as_nanos(), Ordering::Relaxed);
    }

    /// Whether a lock of this slot was held lately.
    pub(super) fn is_hot(&self, slot: u16, now: Moment) -> bool {
        self.of(slot).load(Ordering::Relaxed) > now.as_nanos()
    }

    fn of(&self, slot: u16) -> &AtomicU64 {
        &self.0[usize::from(slot) % self.0.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_contended_for_a_second_after_it_was_held() {
        let (contended, now) = (Contended::new(), Moment::from_nanos(5_000_000_000));
        assert!(!contended.is_hot(16_383, now));
        contended.note(16_383, now);
        assert!(contended.is_hot(16_383, now + Duration::from_millis(999)));
        assert!(!contended.is_hot(16_383, now + Duration::from_secs(1)));
        assert!(!contended.is_hot(7, now));
    }
}
