//! What a worker tells, one line each. Times are nanoseconds of the machine's boot clock, which all
//! processes share.

use std::io::Write;

use lockrt::{Clock, LockError};
use serde::{Deserialize, Serialize};

use super::spot::Spot;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Record {
    /// A lock was granted; `grant` numbers the grants of this process.
    Granted { grant: u64, spot: Spot, token: u64, asked_ns: u64, answered_ns: u64 },
    /// The lease said that it was valid at these moments, the first and the last one so far.
    Used { grant: u64, first_ns: u64, last_ns: u64 },
    /// The store has acknowledged an increment.
    Added { grant: u64, cell: Cell },
    /// The fenced cell has refused this holder.
    Refused { grant: u64 },
    /// An acquire has ended, with a grant or without. With `waits` its limit is the wait's deadline,
    /// else the time after which a server that does not answer is unavailable.
    Asked { asked_ns: u64, ended_ns: u64, limit_ns: u64, waits: bool, end: End },
    /// A call was dropped on its way, acquire or body.
    Cancelled,
    /// A runtime was dropped with this many guards alive.
    Dropped { guards: u64 },
    /// The process stood still: stopped, or without a processor.
    Stalled { from_ns: u64, to_ns: u64 },
    /// Every task has ended; nobody holds a lock here.
    Idle,
    /// Every task has locked something once more, and nobody holds a lock here again.
    Done,
    /// The manager has shut down, with nothing left or with something.
    Closed { clean: bool },
    /// The worker cannot go on as it should.
    Trouble { what: String },
}

/// Which of the two copies of the protected data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Cell {
    /// Written without the fencing token.
    Plain,
    /// Written with it.
    Fenced,
}

/// How an acquire ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum End {
    /// With a grant.
    Granted,
    /// Somebody else had it.
    Contended,
    /// The lock service did not answer.
    Unavailable,
    /// Otherwise.
    Other,
}

impl End {
    /// How an acquire ended that this refused.
    pub(super) fn of(refusal: &LockError) -> Self {
        match refusal {
            LockError::Contended { .. } => Self::Contended,
            LockError::Unavailable { .. } => Self::Unavailable,
            _ => Self::Other,
        }
    }
}

/// The present moment.
pub(super) fn now_ns() -> u64 {
    Clock::system().now().as_nanos()
}

/// Tells the director. A line is one write, so that a kill cannot tear it.
pub(super) fn tell(record: &Record) {
    let mut line = serde_json::to_string(record).expect("a record has a text");
    line.push('\n');
    if std::io::stdout().write_all(line.as_bytes()).is_err() {
        // The director is gone, and so is the sense of this process.
        std::process::exit(1);
    }
}
