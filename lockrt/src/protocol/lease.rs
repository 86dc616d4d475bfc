//! The state of one lease in a single atomic word, shared by body, guard and keeper.

use super::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::clock::Moment;
use crate::error::LossReason;
use crate::mutant::{self, Flaw};

/// Deadline and end of a lease in one word, so that "renewed" and "lost" can never both be true.
///
/// The upper 61 bits are the deadline in microseconds, rounded down; the lower three say whether
/// and how the lease has ended. Every change is a compare-exchange, and an end is final.
#[derive(Debug)]
pub(crate) struct LeaseWord {
    word: AtomicU64,
    /// Whether the caller has come for it. Says nothing about the lease itself.
    taken: AtomicBool,
}

/// How a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is held until this moment.
    Held(Moment),
    /// It has ended.
    Ended(End),
}

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Its owner began to give it back.
    Released,
    /// It was taken away.
    Lost(LossReason),
}

const END_BITS: u32 = 3;
const END_MASK: u64 = (1 << END_BITS) - 1;

impl LeaseWord {
    /// The word of a lease that has not begun; there is nothing to be read from it.
    pub(crate) fn unset() -> Self {
        Self { word: AtomicU64::new(0), taken: AtomicBool::new(false) }
    }

    /// The lease begins, with this deadline. Once, and before anybody reads the word.
    pub(crate) fn begin(&self, deadline: Moment) {
        self.word.store(pack(deadline), Ordering::Release);
    }

    #[cfg(test)]
    pub(crate) fn new(deadline: Moment) -> Self {
        let word = Self::unset();
        word.begin(deadline);
        word
    }

    /// The caller has its grant in hand.
    pub(crate) fn take(&self) {
        self.taken.store(true, Ordering::Release);
    }

    /// Whether the caller has its grant in hand. A future that nobody polls never has.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    /// How the lease stands at `now`. Whoever first sees that the deadline has passed ends the
    /// lease; the flag says that it was this call.
    pub(crate) fn at(&self, now: Moment) -> (Standing, bool) {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            match unpack(word) {
                Standing::Held(deadline) if now >= deadline => {
                    match self.swap(word, with_end(word, End::Lost(LossReason::Expired))) {
                        Ok(standing) => return (standing, true),
                        Err(changed) => word = changed,
                    }
                }
                standing => return (standing, false),
            }
        }
    }

    /// The deadline, if the lease has not been ended.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        match unpack(self.word.load(Ordering::Acquire)) {
            Standing::Held(deadline) => Some(deadline),
            Standing::Ended(_) => None,
        }
    }

    /// The deadline, also of a lease that has ended.
    pub(crate) fn last_deadline(&self) -> Moment {
        moment(self.word.load(Ordering::Acquire))
    }

    /// Moves the deadline, never backwards. False if the lease had ended by then.
    pub(crate) fn extend(&self, now: Moment, deadline: Moment) -> bool {
        loop {
            let (Standing::Held(present), _) = self.at(now) else {
                if mutant::has(Flaw::LateExtendedRevives) {
                    self.word.store(pack(deadline), Ordering::Release);
                }
                return false;
            };
            if deadline <= present {
                return true;
            }
            if self.swap(pack(present), pack(deadline)).is_ok() {
                return true;
            }
        }
    }

    /// Ends the lease. False if it had ended before, by its deadline too.
    pub(crate) fn end(&self, now: Moment, end: End) -> bool {
        loop {
            let (Standing::Held(present), _) = self.at(now) else { return false };
            let word = pack(present);
            if self.swap(word, with_end(word, end)).is_ok() {
                return true;
            }
        }
    }

    fn swap(&self, from: u64, to: u64) -> Result<Standing, u64> {
        self.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).map(|_| unpack(to))
    }
}

fn pack(deadline: Moment) -> u64 {
    (deadline.as_nanos() / 1_000) << END_BITS
}

fn moment(word: u64) -> Moment {
    Moment::from_nanos((word >> END_BITS).saturating_mul(1_000))
}

fn with_end(word: u64, end: End) -> u64 {
    let code = match end {
        End::Released => 1,
        End::Lost(LossReason::Expired) => 2,
        End::Lost(LossReason::Gone) => 3,
        End::Lost(LossReason::RenewalCap) => 4,
        End::Lost(LossReason::ShuttingDown) => 5,
    };
    (word & !END_MASK) | code
}

fn unpack(word: u64) -> Standing {
    match word & END_MASK {
        0 => Standing::Held(moment(word)),
        1 => Standing::Ended(End::Released),
        2 => Standing::Ended(End::Lost(LossReason::Expired)),
        3 => Standing::Ended(End::Lost(LossReason::Gone)),
        4 => Standing::Ended(End::Lost(LossReason::RenewalCap)),
        _ => Standing::Ended(End::Lost(LossReason::ShuttingDown)),
    }
}
