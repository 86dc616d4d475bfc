//! Flaws on purpose. A suite that cannot tell the runtime from one of these is worth nothing.
//!
//! They exist in builds with `--cfg lockrt_mutants` alone, where the environment variable `LOCKRT_MUTANT`
//! names the one that is on; `tests/tests/mutants_lock.rs` makes such a build and runs the suite on each.
//! Everywhere else [`has`] is a constant no, so that nothing of them is left.

/// What may be wrong with the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// A lease is counted from the answer, not from before the request.
    DeadlineFromReply,
    /// No answer to an attempt is taken for "somebody else has it".
    UnknownIsContended,
    /// No answer to an attempt is taken for a grant.
    UnknownIsGranted,
    /// The body runs though somebody else has the lock.
    RunsOnContention,
    /// Clean-up ends at the first `NotHeld`, with an attempt still under way.
    CleanUpStopsAtNotHeld,
    /// A guard's drop releases by a task of the runtime it is dropped on.
    ReleaseBySpawnInDrop,
    /// The keeper is a task of its user's runtime.
    KeeperOnUsersRuntime,
    /// A renewal that fails gives the lock back.
    FailedRenewalReleases,
    /// A renewal that fails is the last one.
    RenewalErrorEndsRenewal,
    /// A guard's drop does not end the renewal.
    RenewalOutlivesGuard,
    /// A renewal that is answered after the deadline revives the lease.
    LateExtendedRevives,
}

/// Whether the runtime has this flaw.
#[cfg(not(lockrt_mutants))]
pub(crate) const fn has(_: Flaw) -> bool {
    false
}

/// Whether the runtime has this flaw.
#[cfg(lockrt_mutants)]
pub(crate) fn has(flaw: Flaw) -> bool {
    static CHOSEN: once_cell::sync::Lazy<Option<String>> =
        once_cell::sync::Lazy::new(|| std::env::var("LOCKRT_MUTANT").ok());
    CHOSEN.as_deref().is_some_and(|chosen| chosen == format!("{flaw:?}"))
}
