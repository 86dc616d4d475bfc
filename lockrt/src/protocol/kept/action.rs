//! What the keeper's protocol has its driver do, and what callers are told.

use std::time::Duration;

use super::Id;
use crate::claim::Released;
use crate::error::{BackendError, LossReason};
use crate::key::LockKey;
use crate::token::FencingToken;

/// What to do.
#[derive(Debug)]
pub(crate) enum Action {
    /// Send an attempt.
    Try(Id),
    /// Send one call that renews these.
    Renew(Vec<Id>),
    /// Send a release.
    Free(Id),
    /// Answer the attempt that the caller asked for.
    Tell(Id, Told),
    /// Answer the release that the caller asked for, if it did.
    TellReleased(Id, Released),
    /// The lease is lost: wake whoever watches it.
    Lost(Id, LossReason),
    /// The claim's key may have stayed until its expiry: no release was answered.
    Abandoned(Id),
    /// The claim is over.
    Forget(Id),
    /// The shutdown is over.
    Closed(Remains),
}

/// The answer to an attempt.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    /// Its lease has begun.
    Granted {
        fencing: Option<FencingToken>,
    },
    Stale,
    Held {
        free_in: Option<Duration>,
    },
    Unanswered(BackendError),
    ShuttingDown,
}

/// What a shutdown could not release, by name and key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remains {
    pub(crate) unreleased: Vec<(&'static str, LockKey)>,
    pub(crate) kept: Vec<(&'static str, LockKey)>,
}
