//! What a claim's policy and backend say about keeping it, and what its caller shares with its keeper.

use std::fmt::Debug;
use std::num::NonZeroU64;
use std::time::Duration;

use crate::key::LockKey;
use crate::protocol::lease::LeaseWord;

/// What a claim's policy and backend say about keeping it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Renew, until so long after the grant.
    pub(crate) renew_for: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
    pub(crate) hold_on_cancel: bool,
    pub(crate) offset_margin: Duration,
    /// Whether a waiting claim that is refused may have a queue place.
    pub(crate) queues: bool,
}

/// What caller and keeper share of one claim.
pub(crate) trait Record: Debug + Send + Sync {
    fn name(&self) -> &'static str;
    /// The key as the caller knows it, without the manager's prefix.
    fn key(&self) -> &LockKey;
    /// The state of its lease, which has begun once the claim is granted.
    fn word(&self) -> &LeaseWord;
}

/// A record of nothing else, for tests.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Bare {
    key: LockKey,
    word: LeaseWord,
}

#[cfg(test)]
impl Bare {
    pub(crate) fn of(key: LockKey) -> std::sync::Arc<dyn Record> {
        std::sync::Arc::new(Self { key, word: LeaseWord::unset() })
    }
}

#[cfg(test)]
impl Record for Bare {
    fn name(&self) -> &'static str {
        "test"
    }

    fn key(&self) -> &LockKey {
        &self.key
    }

    fn word(&self) -> &LeaseWord {
        &self.word
    }
}

/// [`Terms`] in half the room: they are kept for each lock that is held.
#[derive(Debug)]
pub(super) struct Rules {
    renew_for_us: Option<NonZeroU64>,
    min_hold_us: u64,
    offset_margin_us: u64,
    pub(super) hold_on_cancel: bool,
    pub(super) queues: bool,
}

impl Rules {
    /// How long after the grant renewal ends; none if there is none.
    pub(super) fn renew_for(&self) -> Option<Duration> {
        self.renew_for_us.map(|us| Duration::from_micros(us.get()))
    }

    pub(super) fn min_hold(&self) -> Duration {
        Duration::from_micros(self.min_hold_us)
    }

    pub(super) fn offset_margin(&self) -> Duration {
        Duration::from_micros(self.offset_margin_us)
    }
}

impl From<Terms> for Rules {
    fn from(terms: Terms) -> Self {
        Self {
            // A time so short that it rounds to none is the shortest there is.
            renew_for_us: terms.renew_for.map(|most| micros(most).try_into().unwrap_or(NonZeroU64::MIN)),
            min_hold_us: terms.min_hold.map_or(0, micros),
            offset_margin_us: micros(terms.offset_margin),
            hold_on_cancel: terms.hold_on_cancel,
            queues: terms.queues,
        }
    }
}

/// Rounded up: a lock is kept no shorter, and a margin is no narrower, than was asked for.
fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_was_said_rounded_up_to_microseconds() {
        let ns = Duration::from_nanos;
        let terms = Terms {
            renew_for: Some(Duration::from_secs(60)),
            min_hold: Some(ns(1_001)),
            hold_on_cancel: true,
            offset_margin: ns(250_000_001),
            queues: false,
        };
        let rules = Rules::from(terms);
        assert_eq!(rules.renew_for(), terms.renew_for);
        assert_eq!((rules.min_hold(), rules.offset_margin()), (ns(2_000), ns(250_001_000)));
        assert!(rules.hold_on_cancel && !rules.queues);
        assert_eq!(Rules::from(Terms { renew_for: None, ..terms }).renew_for(), None);
        assert_eq!(
            Rules::from(Terms { renew_for: Some(Duration::ZERO), ..terms }).renew_for(),
            Some(ns(1_000))
        );
    }
}
