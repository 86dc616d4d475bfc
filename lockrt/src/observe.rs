//! Events, and the numbers that go with them. This is the only file that names `tracing`.
//!
//! A subscriber is foreign code and may panic, and so is a recorder of numbers: that must not change the
//! outcome of a lock, so all is told behind `catch_unwind`, after what it tells has been done.

#[cfg_attr(not(feature = "metrics"), path = "observe/none.rs")]
mod numbers;

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tracing::{debug, error, info, warn};

use crate::claim::{Claim, Released};
use crate::error::{BackendError, LockError, LossReason};
use crate::key::LockKey;
use crate::token::FencingToken;
pub(crate) use numbers::{COUNTS, Holding, Waits, given_back, keeper_late};

fn guarded(emit: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(emit));
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn granted(
    name: &'static str,
    backend: &'static str,
    key: &LockKey,
    claim: &Claim,
    fencing: Option<FencingToken>,
    waited: Duration,
) {
    numbers::granted(name, backend, waited);
    guarded(|| {
        debug!(
            name,
            backend,
            key = %key,
            owner = %claim.owner(),
            fencing = fencing.map(FencingToken::get),
            waited_ms = millis(waited),
            "lock granted"
        );
    });
}

/// One event for each acquire that gave no lock.
pub(crate) fn refused(name: &'static str, backend: &'static str, error: &LockError, waited: Duration) {
    numbers::acquired(name, backend, error.kind(), waited);
    guarded(|| match error {
        LockError::Contended { key, waited, retry_after, .. } => info!(
            name,
            backend,
            key = %key,
            waited_ms = millis(*waited),
            retry_after_ms = retry_after.map(millis),
            "lock contended"
        ),
        LockError::NotInstalled => error!(name, error = %error, "lock not granted"),
        other => warn!(name, backend, kind = other.kind(), error = %other, "lock not granted"),
    });
}

/// Whether anybody wants to know of renewals that went well.
pub(crate) fn hears_renewals() -> bool {
    let mut hears = COUNTS;
    guarded(|| hears |= tracing::enabled!(tracing::Level::DEBUG));
    hears
}

pub(crate) fn renewed(name: &'static str, key: &LockKey) {
    numbers::renewal(name, "extended");
    guarded(|| debug!(name, key = %key, "lock renewed"));
}

pub(crate) fn renewal_failed(name: &'static str, key: &LockKey, error: Option<&BackendError>) {
    numbers::renewal(name, "failed");
    guarded(|| {
        let error = error.map_or_else(|| String::from("no answer"), ToString::to_string);
        warn!(name, key = %key, error, "lock renewal failed; it is tried again until the lease ends");
    });
}

pub(crate) fn lost(name: &'static str, key: &LockKey, reason: LossReason) {
    numbers::lost(name, reason.as_str());
    guarded(|| warn!(name, key = %key, reason = reason.as_str(), detail = %reason, "lock lost"));
}

pub(crate) fn released(name: &'static str, key: &LockKey, released: Released) {
    let result = match released {
        Released::Freed => "freed",
        Released::NotHeld => "not_held",
        Released::Deferred => "deferred",
    };
    numbers::release(name, result);
    guarded(|| match released {
        Released::Freed => debug!(name, key = %key, "lock released"),
        Released::NotHeld => warn!(name, key = %key, "lock was no longer ours when it was released"),
        Released::Deferred => info!(name, key = %key, "lock is released later, by the keeper"),
    });
}

pub(crate) fn abandoned(name: &'static str, key: &LockKey, ttl_ms: u64) {
    numbers::release(name, "unanswered");
    guarded(|| {
        warn!(name, key = %key, ttl_ms, "release was never answered; the lock has expired by its ttl");
    });
}

/// A refusal that the function's return type has no room for.
pub(crate) fn swallowed(refusal: &LockError) {
    guarded(|| error!(kind = refusal.kind(), error = %refusal, "lock refusal returned as the neutral value"));
}

/// A lease was lost and the policy lets the body go on.
pub(crate) fn ended_unguarded(name: &'static str, key: &LockKey) {
    guarded(
        || warn!(name, key = %key, "the body ended after its lease was lost, as `on_lost = report` asks"),
    );
}

/// A store has refused a holder after whom another one has been there.
pub(crate) fn stale(resource: &dyn Display, offered: FencingToken, stored: FencingToken) {
    numbers::fence_refused("stale");
    let (offered, stored) = (offered.get(), stored.get());
    guarded(|| warn!(resource = %resource, offered, stored, "fence refused a stale holder"));
}

/// A store has refused the second write of one grant.
pub(crate) fn repeated(resource: &dyn Display, token: FencingToken) {
    numbers::fence_refused("repeated");
    let offered = token.get();
    guarded(|| info!(resource = %resource, offered, "fence refused a second write of one grant"));
}

/// A store has not said whether a holder may pass, or whether the write was done.
pub(crate) fn unanswered(resource: &dyn Display, error: &BackendError) {
    guarded(|| warn!(resource = %resource, error = %error, "fence gave no answer"));
}

/// Something about the lock service that an operator should change.
pub(crate) fn warning(text: &str) {
    guarded(|| warn!("{text}"));
}
