//! Everything that can go wrong with a lock, its service and its set-up.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::key::{InvalidKey, LockKey};
use crate::policy::InvalidTtl;

/// Why a lock was not given, or was taken away.
///
/// The kinds differ in what to do: [`Contended`](Self::Contended) is ordinary, somebody else is at
/// work; [`Unavailable`](Self::Unavailable) is an outage; [`Lost`](Self::Lost) means that the body
/// may have done part of its work. The others are mistakes in the program or its set-up. Messages
/// carry the lock's name and a digest of its key, never the key or an owner's secret.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody else holds the lock; the body has not run.
    #[error("lock `{name}` ({key}) is held by somebody else after a wait of {} ms; try again{}", waited.as_millis(), In(*retry_after))]
    Contended {
        /// The lock's name.
        name: &'static str,
        /// Its key.
        key: LockKey,
        /// How long this call waited.
        waited: Duration,
        /// When the present holder's lease ends unless it is renewed, if known.
        retry_after: Option<Duration>,
    },
    /// The lease ended before the body did.
    #[error("the lease of lock `{name}` ({key}) was lost: {reason}. The body may have done part of its work")]
    Lost {
        /// The lock's name.
        name: &'static str,
        /// Its key.
        key: LockKey,
        /// How it was lost.
        reason: LossReason,
    },
    /// The lock service gave no usable answer in time; the body has not run.
    #[error("lock `{name}` ({key}) is unavailable: {source}{}", Remedy(source))]
    Unavailable {
        /// The lock's name.
        name: &'static str,
        /// Its key.
        key: LockKey,
        /// What the lock service's client reported.
        source: BackendError,
    },
    /// The running body holds this key already and would wait for itself.
    #[error(
        "lock `{name}` ({key}) is held by the body that asks for it; take it once, in the outer function"
    )]
    Reentrant {
        /// The lock's name.
        name: &'static str,
        /// Its key.
        key: LockKey,
    },
    /// The lease was given back before; only [`Lease::check`](crate::Lease::check) says so.
    #[error("the lease of lock `{name}` ({key}) was released before; do the guarded work earlier")]
    Released {
        /// The lock's name.
        name: &'static str,
        /// Its key.
        key: LockKey,
    },
    /// The backend lacks what the policy asks for.
    #[error(
        "lock `{name}` asks for {what}, which backend `{backend}` does not offer; choose another backend or drop the demand"
    )]
    Unsupported {
        /// The lock's name.
        name: &'static str,
        /// What was asked for.
        what: &'static str,
        /// The backend's name.
        backend: &'static str,
    },
    /// The key cannot be used.
    #[error("lock `{name}` has an invalid key: {source}")]
    InvalidKey {
        /// The lock's name.
        name: &'static str,
        /// What is wrong with the key.
        source: InvalidKey,
    },
    /// The TTL, or a time that depends on it, cannot be used.
    #[error("lock `{name}` has an invalid ttl: {source}")]
    InvalidTtl {
        /// The lock's name.
        name: &'static str,
        /// What is wrong with it.
        source: InvalidTtl,
    },
    /// There is no manager to ask.
    #[error(
        "no lock manager is installed; add `lockrt::install(lockrt::LockManager::from_env().await?)?;` to `main`, or `let _locks = lockrt::testing::memory();` to the test (it serves its own thread: other threads need `install` or `manager = ..`)"
    )]
    NotInstalled,
    /// The manager is shutting down, or has.
    #[error("the lock manager is shutting down and grants no more locks")]
    ShuttingDown,
}

/// What an operator can do about a failure; nothing if its source has said it.
struct Remedy<'a>(&'a BackendError);

impl fmt::Display for Remedy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_permanent() {
            return Ok(());
        }
        f.write_str("; check that the lock service is up and reachable")
    }
}

/// ` in N ms`, or nothing.
struct In(Option<Duration>);

impl fmt::Display for In {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(after) => write!(f, " in {} ms", after.as_millis()),
            None => f.write_str(" later"),
        }
    }
}

impl LockError {
    /// Whether somebody else held the lock.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        matches!(self, Self::Contended { .. })
    }

    /// Whether the lease was lost while the body ran.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Whether the lock service gave no usable answer.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// The key, which shows itself as a digest; none where no key was at hand.
    #[must_use]
    pub fn key(&self) -> Option<&LockKey> {
        match self {
            Self::Contended { key, .. }
            | Self::Lost { key, .. }
            | Self::Unavailable { key, .. }
            | Self::Reentrant { key, .. }
            | Self::Released { key, .. } => Some(key),
            _ => None,
        }
    }

    /// How long the call waited for a lock that somebody else holds.
    #[must_use]
    pub fn waited(&self) -> Option<Duration> {
        match self {
            Self::Contended { waited, .. } => Some(*waited),
            _ => None,
        }
    }

    /// When the present holder's lease ends unless it is renewed, if known.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Contended { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// A word for the kind, for metrics and machine-readable answers.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Contended { .. } => "contended",
            Self::Lost { .. } => "lost",
            Self::Unavailable { .. } => "unavailable",
            Self::Reentrant { .. } => "reentrant",
            Self::Released { .. } => "released",
            Self::Unsupported { .. } => "unsupported",
            Self::InvalidKey { .. } => "invalid_key",
            Self::InvalidTtl { .. } => "invalid_ttl",
            Self::NotInstalled => "not_installed",
            Self::ShuttingDown => "shutting_down",
        }
    }
}

/// How a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// Its deadline passed before it was renewed or released.
    Expired,
    /// The lock service said that the key is no longer ours.
    Gone,
    /// It was renewed for as long as its policy allows.
    RenewalCap,
    /// The manager was shut down.
    ShuttingDown,
}

impl LossReason {
    /// A word for the reason, for metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Gone => "gone",
            Self::RenewalCap => "renewal_cap",
            Self::ShuttingDown => "shutting_down",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => {
                "its deadline passed; raise `ttl_ms`, or renew it with `renew = auto(max_ms = ..)`"
            }
            Self::Gone => "the lock service no longer has it; look for a deleted key or a failover",
            Self::RenewalCap => "it was renewed for as long as its policy allows; raise `max_ms` or do less",
            Self::ShuttingDown => "the manager was shut down; give `shutdown` more time",
        })
    }
}

/// Why a call to a lock service gave no answer.
///
/// Contention is an answer and never an error.
#[derive(Clone, Debug)]
pub struct BackendError {
    outcome: Outcome,
    permanent: bool,
    source: Arc<dyn Error + Send + Sync>,
}

/// What a failed call may have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The service has certainly not carried it out.
    NotApplied,
    /// The service may have carried it out, or may do so later.
    Unknown,
}

impl BackendError {
    /// A failure after which the call has certainly not been carried out.
    pub fn not_applied(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { outcome: Outcome::NotApplied, permanent: false, source: Arc::from(source.into()) }
    }

    /// A failure after which the call may have been carried out, now or later.
    pub fn unknown(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { outcome: Outcome::Unknown, permanent: false, source: Arc::from(source.into()) }
    }

    /// Marks a failure that repeating the call cannot cure, such as a wrong password.
    #[must_use]
    pub fn permanent(mut self) -> Self {
        self.permanent = true;
        self
    }

    /// The same reason for a call that may have been carried out.
    pub(crate) fn unknown_after_all(self) -> Self {
        Self { outcome: Outcome::Unknown, ..self }
    }

    /// What the call may have done.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether repeating the call is useless.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        self.permanent
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl Error for BackendError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}

/// Why a manager could not be made. Passwords in URLs are masked.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The variable that names the lock service is not set.
    #[error(
        "LOCK_URL is not set, or empty; set it, e.g. LOCK_URL=redis://127.0.0.1:6379, or call `from_env_or_memory` if locking this process alone is enough"
    )]
    MissingUrl,
    /// The text is no URL of a lock service.
    #[error("`{url}` is no URL of a lock service: {reason}")]
    InvalidUrl {
        /// The URL, its password masked.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The URL's scheme names no backend.
    #[error("no backend has the scheme `{scheme}`; write {known}")]
    UnknownScheme {
        /// The scheme.
        scheme: String,
        /// What could stand there.
        known: &'static str,
    },
    /// The URL's backend exists, but was not compiled in.
    #[error("`{scheme}` URLs need lockrt's feature `{feature}`; add it to the dependency in Cargo.toml")]
    MissingFeature {
        /// The scheme.
        scheme: &'static str,
        /// The feature to add.
        feature: &'static str,
    },
    /// The prefix would not keep two managers apart.
    #[error("prefix `{prefix}` cannot be used: {reason}")]
    InvalidPrefix {
        /// The prefix.
        prefix: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The lock service did not answer in time.
    #[error("the lock service at `{url}` is unavailable: {source}{}", Remedy(source))]
    Unavailable {
        /// The URL, its password masked.
        url: String,
        /// What its client reported.
        source: BackendError,
    },
    /// The system would not give what a manager needs.
    #[error("the system refused {what}: {reason}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// What the system said.
        reason: String,
    },
    /// A manager is installed already.
    #[error("a lock manager is installed already; call `install` once, in `main`")]
    AlreadyInstalled,
}

/// The same sentence: it is what a `main` that returns the error prints, alone or in a box.
impl fmt::Debug for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_small_enough_to_return_by_value() {
        assert!(size_of::<LockError>() <= 128, "{}", size_of::<LockError>());
    }

    #[test]
    fn contention_tells_kind_key_and_times() {
        let key = LockKey::new("k").unwrap();
        let (waited, retry_after) = (Duration::from_millis(7), Some(Duration::from_secs(2)));
        let error = LockError::Contended { name: "n", key: key.clone(), waited, retry_after };
        assert_eq!((error.kind(), error.key()), ("contended", Some(&key)));
        assert_eq!((error.waited(), error.retry_after()), (Some(waited), retry_after));
        let error = LockError::ShuttingDown;
        assert_eq!((error.key(), error.waited(), error.retry_after()), (None, None, None));
    }

    #[test]
    fn messages_name_the_lock_and_hide_its_key() {
        let key = LockKey::new("mail:jane@example.org").unwrap();
        let errors = [
            LockError::Contended { name: "n", key: key.clone(), waited: Duration::ZERO, retry_after: None },
            LockError::Lost { name: "n", key: key.clone(), reason: LossReason::Gone },
            LockError::Unavailable { name: "n", key: key.clone(), source: BackendError::unknown("silent") },
            LockError::Reentrant { name: "n", key },
        ];
        for error in errors {
            for text in [error.to_string(), format!("{error:?}")] {
                assert!(text.contains('n') && !text.contains("jane"), "{text}");
            }
            assert!(error.to_string().contains("`n`"));
        }
    }
}
