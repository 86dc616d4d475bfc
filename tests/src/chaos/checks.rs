//! The checkers: each counts what must not have happened in a history. None needs a search, since
//! all moments are of one clock.

mod overlap;
mod recovery;
mod tokens;
mod updates;
mod waits;

pub(super) use overlap::overlaps;
pub(super) use recovery::recovery_ns;
pub(super) use tokens::{disorder, repeated};
pub(super) use updates::{Tally, lost};
pub(super) use waits::{early, late};

/// Short ways to write histories down.
#[cfg(test)]
mod written {
    use super::super::history::{Grant, Use};
    use super::super::spot::Spot;

    /// A grant of key 1, asked for and answered at these moments, never used.
    pub(super) fn unused(token: u64, asked_ns: u64, answered_ns: u64) -> Grant {
        Grant { spot: Spot(1), token, asked_ns, answered_ns, used: None }
    }

    /// A grant of key 1 that was asked for and used from its first moment to its last.
    pub(super) fn used(token: u64, first_ns: u64, last_ns: u64) -> Grant {
        Grant { used: Some(Use { first_ns, last_ns }), ..unused(token, first_ns, first_ns) }
    }

    /// The same grant of another key.
    pub(super) fn elsewhere(grant: Grant) -> Grant {
        Grant { spot: Spot(2), ..grant }
    }
}
