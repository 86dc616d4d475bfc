//! Why a fence lets a write not pass: [`FenceError`].

use crate::error::{BackendError, Outcome};
use crate::fence::resource::{MAX_RESOURCE_BYTES, Resource};
use crate::observe;
use crate::token::FencingToken;

/// Why a fence has not let a holder pass.
///
/// [`Stale`](Self::Stale) and [`Repeated`](Self::Repeated) are the fence at work; the others are
/// mistakes, or a store that does not answer. Messages carry a digest of the resource's name, never
/// the name itself.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// A later grant has been here; nothing was written.
    #[error(
        "resource {resource} refused fencing token {offered}: it has seen {stored}, so this lease was over. \
         Nothing was written; take the lock again and begin by reading"
    )]
    Stale {
        /// What was to be read or written.
        resource: Resource,
        /// The token of the refused holder.
        offered: FencingToken,
        /// The greatest token that the resource has seen.
        stored: FencingToken,
    },
    /// This grant has written before, and may once only; nothing was written this time.
    #[error(
        "resource {resource} refused fencing token {offered}: it is at {stored}, and that grant has written \
         before. If this was a retry, the first one went through; else take the lock again"
    )]
    Repeated {
        /// What was to be written.
        resource: Resource,
        /// The token of the refused holder.
        offered: FencingToken,
        /// The greatest token that the resource has seen; the same one.
        stored: FencingToken,
    },
    /// The lease carries no token.
    #[error(
        "resource {resource} needs a fencing token, and this lock service gives none; use one that does, and \
         write `fencing = required` so that the lock refuses instead of the store"
    )]
    NoToken {
        /// What was to be read or written.
        resource: Resource,
    },
    /// What was asked for makes no sense; nothing was sent or written.
    #[error("this cannot be fenced: {0}")]
    Invalid(Mistake),
    /// What the store holds where the token should be is none, or the data is of another type;
    /// nothing was written.
    #[error("resource {resource} cannot be fenced: {reason}")]
    Unusable {
        /// What was to be read or written.
        resource: Resource,
        /// What was found.
        reason: &'static str,
    },
    /// The store refused or gave no answer. Whether the write was done says
    /// [`outcome`](Self::outcome).
    #[error("the store of resource {resource} gave no usable answer: {source}{}", Doubt(source))]
    Unavailable {
        /// What was to be read or written.
        resource: Resource,
        /// What its client reported.
        source: BackendError,
    },
}

/// What the program got wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mistake {
    /// No name.
    #[error("the resource has an empty name; give each one that is locked by its own key a name of its own")]
    EmptyResource,
    /// Too long a name.
    #[error("the resource's name has {bytes} bytes, and may have {MAX_RESOURCE_BYTES}; use a shorter id")]
    LongResource {
        /// Its length.
        bytes: usize,
    },
    /// No grant has this token.
    #[error("0 is no fencing token; pass on the one of the lease, and do not replace a missing one")]
    TokenZero,
    /// A write inside of a write, which would wait for itself.
    #[error("a write that runs under a fence asked for a fence again; end the outer write first")]
    Nested,
    /// A key whose slot in a cluster cannot be chosen.
    #[error(
        "the key has braces that are no hash tag, so no second key can be put into its cluster slot; rename it, \
         or keep the token inside of the data"
    )]
    Braces,
    /// An expiry that would delete the token at once, or that no server can count.
    #[error("the token must be kept for at least 1 ms and at most 100 years")]
    Expiry,
    /// An expiry for a token that has that of the data.
    #[error("a token inside of the data is kept as long as they are; keep it beside them to give it a time")]
    ExpiryOfData,
    /// A command that would delete the token, or make another type of the hash that holds it.
    #[error(
        "`{command}` may replace the hash in which the token is kept; use a command on fields, or keep the \
         token beside the data"
    )]
    Replaces {
        /// The command.
        command: String,
    },
}

/// What to do about a write that may have been done.
struct Doubt<'a>(&'a BackendError);

impl std::fmt::Display for Doubt<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.outcome() {
            Outcome::NotApplied => f.write_str("; nothing was written"),
            Outcome::Unknown => f.write_str("; the write may have been done, read before you repeat it"),
        }
    }
}

impl FenceError {
    /// What `stored` means for the holder of `offered`, whom the fence has refused.
    pub(super) fn refused(resource: Resource, offered: FencingToken, stored: FencingToken) -> Self {
        if offered < stored {
            Self::Stale { resource, offered, stored }
        } else {
            Self::Repeated { resource, offered, stored }
        }
    }

    /// Lets whoever listens know, if it is a refusal of a fence or a store without an answer. Not under a lock: who
    /// listens is foreign code.
    pub(super) fn tell(&self) {
        match self {
            Self::Stale { resource, offered, stored } => observe::stale(resource, *offered, *stored),
            Self::Repeated { resource, offered, .. } => observe::repeated(resource, *offered),
            Self::Unavailable { resource, source } => observe::unanswered(resource, source),
            _ => {}
        }
    }

    /// Whether a later grant has been here.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Stale { .. })
    }

    /// Whether this same grant has written before.
    #[must_use]
    pub fn is_repeated(&self) -> bool {
        matches!(self, Self::Repeated { .. })
    }

    /// The token of the refused holder, where the fence refused it.
    #[must_use]
    pub fn offered(&self) -> Option<FencingToken> {
        match self {
            Self::Stale { offered, .. } | Self::Repeated { offered, .. } => Some(*offered),
            _ => None,
        }
    }

    /// The greatest token that the resource has seen, where the fence refused.
    #[must_use]
    pub fn stored(&self) -> Option<FencingToken> {
        match self {
            Self::Stale { stored, .. } | Self::Repeated { stored, .. } => Some(*stored),
            _ => None,
        }
    }

    /// What the call may have done: only a store that did not answer leaves that open.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Unavailable { source, .. } => source.outcome(),
            _ => Outcome::NotApplied,
        }
    }

    /// A word for the kind, for metrics and machine-readable answers.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stale { .. } => "stale",
            Self::Repeated { .. } => "repeated",
            Self::NoToken { .. } => "no_token",
            Self::Invalid(_) => "invalid",
            Self::Unusable { .. } => "unusable",
            Self::Unavailable { .. } => "unavailable",
        }
    }
}
