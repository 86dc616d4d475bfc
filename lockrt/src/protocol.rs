//! Every decision of the lock, as state machines without I/O, clock or spawn: `step(event, now)`
//! gives actions, and the files of the running layer carry them out.

pub(crate) mod by_id;
pub(crate) mod due;
pub(crate) mod freeing;
pub(crate) mod keeping;
pub(crate) mod kept;
pub(crate) mod lease;
pub(crate) mod waiting;

/// The atomics of `lease`, which its interleaving tests replace.
mod atomic {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
}

// Declared here and not in `lease`: that source is compiled twice, once on each kind of atomics.
#[cfg(test)]
#[path = "protocol/lease/interleavings.rs"]
mod lease_interleavings;
#[cfg(test)]
#[path = "protocol/lease/tests.rs"]
mod lease_tests;
#[cfg(test)]
mod simulation;
