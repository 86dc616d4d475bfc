//! Counters, gauges and histograms, told in docs/operations.md. This is the only file that names `metrics`.
//!
//! Labels are names out of the program and a few fixed words: never a key, a tenant or an owner.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use metrics::{counter, gauge, histogram};

use crate::clock::Moment;
use crate::observe::guarded;

/// Whether anybody may count.
pub(crate) const COUNTS: bool = true;

/// When a lease was granted, and for how long.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    since: AtomicU64,
    ttl_micros: AtomicU64,
}

impl Holding {
    /// Before anybody else has the lease.
    pub(crate) fn begin(&self, since: Moment, ttl: Duration) {
        self.since.store(since.as_nanos(), Ordering::Relaxed);
        self.ttl_micros.store(u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn so_far(&self, now: Moment) -> Duration {
        now.since(Moment::from_nanos(self.since.load(Ordering::Relaxed)))
    }

    fn ttl(&self) -> Duration {
        Duration::from_micros(self.ttl_micros.load(Ordering::Relaxed))
    }
}

/// An acquire that may wait, until it is over or dropped.
#[derive(Debug)]
pub(crate) struct Waits(&'static str);

impl Waits {
    pub(crate) fn begin(name: &'static str) -> Self {
        guarded(|| gauge!("lock_waiters", "name" => name).increment(1));
        Self(name)
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        guarded(|| gauge!("lock_waiters", "name" => self.0).decrement(1));
    }
}

pub(super) fn granted(name: &'static str, backend: &'static str, waited: Duration) {
    acquired(name, backend, "granted", waited);
    guarded(|| gauge!("lock_held", "name" => name, "backend" => backend).increment(1));
}

/// An acquire is over.
pub(super) fn acquired(name: &'static str, backend: &'static str, result: &'static str, waited: Duration) {
    guarded(|| {
        counter!("lock_acquire_total", "name" => name, "backend" => backend, "result" => result).increment(1);
        histogram!("lock_acquire_seconds", "name" => name, "backend" => backend, "result" => result)
            .record(waited);
    });
}

/// `held` says that the lease had not been lost.
pub(crate) fn given_back(
    name: &'static str,
    backend: &'static str,
    holding: &Holding,
    now: Moment,
    held: bool,
) {
    let (span, ttl) = (holding.so_far(now), holding.ttl());
    guarded(|| {
        gauge!("lock_held", "name" => name, "backend" => backend).decrement(1);
        histogram!("lock_hold_seconds", "name" => name, "backend" => backend).record(span);
        histogram!("lock_ttl_used_ratio", "name" => name, "backend" => backend)
            .record(span.as_secs_f64() / ttl.as_secs_f64());
        if held && let Ok(since) = SystemTime::now().duration_since(UNIX_EPOCH) {
            gauge!("lock_last_run_timestamp_seconds", "name" => name).set(since.as_secs_f64());
        }
    });
}

pub(super) fn renewal(name: &'static str, result: &'static str) {
    guarded(|| counter!("lock_renew_total", "name" => name, "result" => result).increment(1));
}

pub(super) fn lost(name: &'static str, reason: &'static str) {
    guarded(|| counter!("lock_lost_total", "name" => name, "reason" => reason).increment(1));
}

pub(super) fn release(name: &'static str, result: &'static str) {
    guarded(|| counter!("lock_release_total", "name" => name, "result" => result).increment(1));
}

pub(super) fn fence_refused(result: &'static str) {
    guarded(|| counter!("lock_fence_refused_total", "result" => result).increment(1));
}

/// How long after it should have looked the keeper did.
pub(crate) fn keeper_late(by: Duration) {
    guarded(|| histogram!("lock_keeper_lag_seconds").record(by));
}
