//! When an acquire tries, pauses and gives up.

use std::time::Duration;

use crate::backoff::{Backoff, spread};
use crate::clock::Moment;
use crate::error::{BackendError, Outcome};
use crate::policy::Contention;

/// The longest that one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(1);
/// The longest that a caller is kept by a lock service that does not answer.
const SILENCE: Duration = Duration::from_secs(3);
/// How often to look after a holder whose lease has no known end.
const UNKNOWN_END: Duration = Duration::from_millis(200);
/// A wake-up after so long a rest cannot make a waiter spin.
const LONG_REST: Duration = Duration::from_millis(50);
/// What the last attempt of a wait gets when the wait is almost over.
const LAST_ATTEMPT: Duration = Duration::from_millis(40);

/// The longest that one attempt for a lock of this TTL may take.
pub(crate) fn attempt_timeout(ttl: Duration) -> Duration {
    (ttl / 3).min(ATTEMPT)
}

/// One acquire, from its first attempt to its end.
#[derive(Debug)]
pub(crate) struct Waiting {
    contention: Contention,
    ttl: Duration,
    seed: u64,
    started: Moment,
    last_answer: Moment,
    /// The first attempt since the last answer. A service that nobody asks is not silent.
    unanswered_since: Option<Moment>,
    last_attempt: Moment,
    free_in: Option<Duration>,
    answers: u32,
    /// Whether the running attempt was cut short by the end of the wait.
    cut_short: bool,
    /// How long it may take.
    within: Duration,
    /// Why there has been no answer since the last one.
    reason: Option<BackendError>,
    refreshed: bool,
    silence: Backoff,
    /// The pauses that follow wake-ups which came to nothing.
    vain: Option<Backoff>,
    /// Whether the running pause is one of those.
    settling: bool,
}

/// What has happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// Somebody else holds the lock.
    Held { free_in: Option<Duration> },
    /// The lock was granted, but the answer took more than half its TTL.
    Stale,
    /// An attempt got no answer.
    Unanswered(BackendError),
    /// A pause is over, early because the lock may be free, or at its end.
    Paused { woken: bool },
}

/// What to do next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Make an attempt, for at most so long.
    Try { within: Duration },
    /// Wait until then, or until the lock may be free if `listen` says so.
    Pause { until: Moment, listen: bool },
    /// Give up: somebody else holds the lock.
    Contended { waited: Duration, free_in: Option<Duration> },
    /// Give up: the lock service does not answer.
    Unavailable(BackendError),
}

impl Waiting {
    pub(crate) fn new(contention: Contention, ttl: Duration, seed: u64, now: Moment) -> Self {
        Self {
            contention,
            ttl,
            seed,
            started: now,
            last_answer: now,
            unanswered_since: None,
            last_attempt: now,
            free_in: None,
            answers: 0,
            cut_short: false,
            within: Duration::ZERO,
            reason: None,
            refreshed: false,
            silence: Backoff::unanswered(),
            vain: None,
            settling: false,
        }
    }

    /// The end of the wait, for one that has an end.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        match self.contention {
            Contention::Wait(timeout) => Some(self.started + timeout),
            Contention::Fail | Contention::WaitForever => None,
        }
    }

    /// The first step, and the step after a turn in the gate.
    pub(crate) fn start(&mut self, now: Moment) -> Step {
        self.attempt(now)
    }

    pub(crate) fn step(&mut self, event: Event, now: Moment) -> Step {
        match event {
            Event::Held { free_in } => self.held(free_in, now),
            Event::Stale => self.stale(now),
            Event::Unanswered(error) => self.unanswered(error, now),
            Event::Paused { woken } => self.paused(woken, now),
        }
    }

    fn attempt(&mut self, now: Moment) -> Step {
        // A pause may end late.
        if self.unanswered_since.is_some()
            && now >= self.silent_until()
            && let Some(reason) = self.reason.take()
        {
            return Step::Unavailable(reason);
        }
        self.last_attempt = now;
        self.unanswered_since.get_or_insert(now);
        let mut within = attempt_timeout(self.ttl).min(self.silent_until().since(now));
        self.cut_short = false;
        if let Some(deadline) = self.deadline() {
            let left = deadline.since(now).max(LAST_ATTEMPT);
            self.cut_short = left < within;
            within = within.min(left);
        }
        self.within = within;
        Step::Try { within }
    }

    /// When silence becomes an outage.
    fn silent_until(&self) -> Moment {
        self.unanswered_since.unwrap_or(self.last_attempt) + self.ttl.min(SILENCE)
    }

    fn held(&mut self, free_in: Option<Duration>, now: Moment) -> Step {
        self.answered(now);
        self.free_in = free_in;
        self.answers += 1;
        self.silence = Backoff::unanswered();
        match self.contention {
            Contention::Fail => self.contended(now),
            Contention::Wait(_) | Contention::WaitForever => self.pause(now),
        }
    }

    fn answered(&mut self, now: Moment) {
        self.last_answer = now;
        self.unanswered_since = None;
        self.reason = None;
    }

    fn contended(&self, now: Moment) -> Step {
        let passed = now.since(self.last_answer);
        let free_in = self.free_in.map(|left| left.saturating_sub(passed));
        Step::Contended { waited: now.since(self.started), free_in }
    }

    fn pause(&mut self, now: Moment) -> Step {
        let poll = spread(self.ttl * 2 / 3, self.seed.wrapping_add(self.answers.into()));
        // One millisecond more, so that the lease has ended when the attempt arrives.
        let unknown = spread(UNKNOWN_END, self.seed.wrapping_sub(self.answers.into()));
        let end = self.free_in.map_or(unknown, |left| left.saturating_add(Duration::from_millis(1)));
        self.until(now + poll.min(end), true, now)
    }

    /// A pause that the end of the wait may shorten, or replace.
    fn until(&self, until: Moment, listen: bool, now: Moment) -> Step {
        match self.deadline() {
            Some(deadline) if now >= deadline && self.answers > 0 => self.contended(now),
            Some(deadline) => Step::Pause { until: until.min(deadline), listen },
            None => Step::Pause { until, listen },
        }
    }

    fn paused(&mut self, woken: bool, now: Moment) -> Step {
        if self.deadline().is_some_and(|deadline| now >= deadline) && self.answers > 0 {
            return self.contended(now);
        }
        if std::mem::take(&mut self.settling) {
            return self.attempt(now);
        }
        let rested = now.since(self.last_attempt);
        if !woken || rested >= LONG_REST {
            self.vain = None;
            return self.attempt(now);
        }
        // The first wake-up is answered at once; the more come to nothing, the less they hurry.
        let floor = self.vain.as_mut().map_or(Duration::ZERO, Backoff::pause);
        self.vain.get_or_insert_with(Backoff::woken_in_vain);
        if rested >= floor {
            return self.attempt(now);
        }
        self.settling = true;
        self.until(self.last_attempt + floor, false, now)
    }

    fn stale(&mut self, now: Moment) -> Step {
        self.answered(now);
        let over = self.deadline().is_some_and(|deadline| now >= deadline);
        if self.refreshed || over {
            return Step::Unavailable(BackendError::unknown(
                "its answers take more than half the ttl; raise the ttl or bring the service nearer",
            ));
        }
        self.refreshed = true;
        self.attempt(now)
    }

    fn unanswered(&mut self, error: BackendError, now: Moment) -> Step {
        if error.is_permanent() {
            return Step::Unavailable(error);
        }
        let error = self.reason(error);
        if self.deadline().is_some_and(|deadline| now >= deadline) {
            // An attempt that the end of the wait cut short says nothing about the service.
            return if self.cut_short && self.answers > 0 {
                self.contended(now)
            } else {
                Step::Unavailable(error)
            };
        }
        let silent_until = self.silent_until();
        let next = now + spread(self.silence.pause(), self.seed);
        if next >= silent_until {
            return Step::Unavailable(error);
        }
        self.reason = Some(error);
        self.until(next, false, now)
    }

    /// What to say of `error`: that an attempt in a hurry got no answer tells less than what the
    /// service said before.
    fn reason(&mut self, error: BackendError) -> BackendError {
        let hurried = self.within < attempt_timeout(self.ttl);
        match self.reason.take() {
            Some(earlier) if hurried && error.outcome() == Outcome::Unknown => earlier.unknown_after_all(),
            _ => error,
        }
    }
}

#[cfg(test)]
mod tests;
