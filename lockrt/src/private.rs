//! Every path that the attribute's expansion may name. No part of the public interface.

pub use core::option::Option::{None, Some};
pub use core::result::Result::{Err, Ok};
pub use core::{concat, format_args, module_path};
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::busy::Busy;
use crate::error::LockError;
use crate::global;
use crate::guard::LockGuard;
use crate::key::{InvalidKey, KeyPart, LockKey, digest_of, encode};
pub use crate::locked::Locked;
use crate::manager::LockManager;
use crate::observe;
pub use crate::policy::{LockPolicy, OnCancel, OnLost, ReleaseMode};
use crate::policy::{MAX_TTL, MIN_TTL};
use crate::refusal::{FromLockError, Skipped, Unanswered};
// Where a value that is not `Send` would be kept while the release is awaited, in a future that must be `Send`, the
// compiler says so by the name of this type, and cannot be told more.
pub use crate::run::Ended as NeedsReleaseStarted;
use crate::run::Ended;
pub use crate::run::{hold, kept, leave, leave_started};

/// The fixed half of one annotated function.
#[derive(Debug)]
pub struct Site(LockPolicy);

impl Site {
    #[must_use]
    pub const fn new(name: &'static str, policy: LockPolicy) -> Self {
        Self(policy.named(name))
    }
}

#[must_use]
pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub const fn policy(ttl_ms: u64) -> LockPolicy {
    LockPolicy::new(ms(ttl_ms))
}

/// What times are counted in; a user's own `u64` may be something else.
pub type Number = u64;

/// Refuses constants that the attribute could not see as numbers.
///
/// # Panics
///
/// In constant evaluation, so that the compiler shows the sentence.
pub const fn check(ttl_ms: u64, renew_max_ms: Option<u64>, wait_ms: Option<u64>, min_hold_ms: Option<u64>) {
    assert!(ms(ttl_ms).as_millis() >= MIN_TTL.as_millis(), "`ttl_ms` must be at least 10");
    assert!(ms(ttl_ms).as_millis() <= MAX_TTL.as_millis(), "`ttl_ms` must be at most 31 days");
    if let Some(max_ms) = renew_max_ms {
        assert!(max_ms >= ttl_ms, "`max_ms` of `renew` must not be below `ttl_ms`");
        assert!(ttl_ms >= 30, "`ttl_ms` must be at least 30 to be renewed");
    }
    if let Some(wait_ms) = wait_ms {
        assert!(wait_ms >= 1, "`timeout_ms` of `wait` must be at least 1; write `fail` for no wait");
    }
    if let Some(min_hold_ms) = min_hold_ms {
        assert!(min_hold_ms < ttl_ms, "`min_hold_ms` must be below `ttl_ms`");
    }
}

/// A key from its template, whose values are encoded by [`part`] and [`shown`].
///
/// # Errors
///
/// [`InvalidKey`] if a value is empty or the key is too long.
pub fn key(template: fmt::Arguments<'_>) -> Result<LockKey, InvalidKey> {
    use fmt::Write as _;
    let mut text = Bounded(String::new());
    match text.write_fmt(template) {
        Ok(()) => LockKey::encoded(text.0),
        Err(_) if text.is_full() => Err(InvalidKey::TooLong),
        Err(_) => Err(InvalidKey::EmptyPart),
    }
}

/// Text up to the longest key.
struct Bounded(String);

impl Bounded {
    fn is_full(&self) -> bool {
        self.0.len() >= crate::key::MAX_KEY_BYTES
    }
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        if self.is_full() {
            return Err(fmt::Error);
        }
        self.0.push_str(piece);
        Ok(())
    }
}

/// A value in a key, encoded as it is written.
#[derive(Debug)]
pub struct Part<'a>(Cow<'a, str>);

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Err(fmt::Error);
        }
        encode(&self.0).fmt(f)
    }
}

pub fn part<T: KeyPart + ?Sized>(value: &T) -> Part<'_> {
    Part(value.key_part())
}

/// The digest of a value: nobody can read an e-mail address in it, and it is never too long.
pub fn hashed<T: KeyPart + ?Sized>(value: &T) -> Part<'_> {
    let text = value.key_part();
    if text.is_empty() { Part(text) } else { Part(Cow::Owned(digest_of(&text))) }
}

/// A `Display` that fails gives no text, and so an invalid key.
pub fn shown<T: fmt::Display + ?Sized>(value: &T) -> Part<'_> {
    use fmt::Write as _;
    let mut text = String::new();
    let written = write!(text, "{value}");
    Part(Cow::Owned(written.map_or_else(|_| String::new(), |()| text)))
}

/// A clone, so that the user's expression borrows nothing beyond its own statement.
#[must_use]
pub fn manager(manager: &LockManager) -> LockManager {
    manager.clone()
}

/// Takes the lock of one call.
///
/// # Errors
///
/// As [`LockManager::acquire`], and `NotInstalled` or `InvalidKey`.
pub async fn enter(
    site: &'static Site,
    manager: Option<&LockManager>,
    key: Result<LockKey, InvalidKey>,
) -> Result<LockGuard, LockError> {
    let policy = &site.0;
    let ready = key.map_err(|source| LockError::InvalidKey { name: policy.name(), source });
    let ready = ready.and_then(|key| match manager {
        Some(manager) => Ok((key, Cow::Borrowed(manager))),
        None => Ok((key, Cow::Owned(global::current()?))),
    });
    match ready {
        Ok((key, manager)) => manager.acquire(&key, policy).await,
        Err(refusal) => {
            observe::refused(policy.name(), "none", &refusal, Duration::ZERO);
            Err(refusal)
        }
    }
}

/// Tells contention from every other refusal.
///
/// # Errors
///
/// The other refusals.
pub fn busy(refusal: LockError) -> Result<Busy, LockError> {
    Busy::try_from(refusal)
}

/// Asks whether a body ended with an error of its own, for any name that its `Result` may have:
/// the inherent method is found first, and [`Opaque`] answers for all other types.
#[derive(Debug)]
pub struct Probe<'a, T>(pub &'a Ended<T>);

impl<T, E> Probe<'_, Result<T, E>> {
    #[must_use]
    pub fn failed(&self) -> bool {
        matches!(self.0, Ended::Done(Err(_)) | Ended::Late(Err(_), _))
    }
}

pub trait Opaque {
    fn failed(&self) -> bool;
}

impl<T> Opaque for Probe<'_, T> {
    fn failed(&self) -> bool {
        false
    }
}

#[must_use]
pub fn fail<T: FromLockError>(refusal: LockError) -> T {
    T::from_lock_error(refusal)
}

#[must_use]
pub fn skip<T: Skipped>() -> T {
    T::skipped()
}

#[must_use]
pub fn unanswered<T: Unanswered>(refusal: LockError) -> T {
    let (value, swallowed) = T::unanswered(refusal);
    if let Some(refusal) = swallowed {
        observe::swallowed(&refusal);
    }
    value
}
