//! What the keeper tells the caller of one claim.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::claim::Released;
use crate::protocol::kept::Told;

/// Shared by a claim's caller, its lease and the desk.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// The lease is lost.
    pub(crate) ended: Notify,
    /// There is a letter.
    pub(super) called: Notify,
    letter: Mutex<Option<Letter>>,
}

/// An answer: to the attempt that is under way, or to the release.
#[derive(Debug)]
pub(super) enum Letter {
    Told(Told),
    Released(Released),
}

impl Signals {
    pub(super) fn post(&self, letter: Letter) {
        // A newer letter replaces one that nobody took.
        drop(self.letter().replace(letter));
    }

    pub(super) fn take(&self) -> Option<Letter> {
        self.letter().take()
    }

    fn letter(&self) -> std::sync::MutexGuard<'_, Option<Letter>> {
        self.letter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
