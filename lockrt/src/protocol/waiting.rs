//! When an acquire tries, pauses and gives up.

use std::time::Duration;

use crate::backoff::{Backoff, spread};
use crate::clock::Moment;
use crate::error::BackendError;
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
        self.last_attempt = now;
        self.unanswered_since.get_or_insert(now);
        let mut within = attempt_timeout(self.ttl).min(self.silent_until().since(now));
        self.cut_short = false;
        if let Some(deadline) = self.deadline() {
            let left = deadline.since(now).max(LAST_ATTEMPT);
            self.cut_short = left < within;
            within = within.min(left);
        }
        Step::Try { within }
    }

    /// When silence becomes an outage.
    fn silent_until(&self) -> Moment {
        self.unanswered_since.unwrap_or(self.last_attempt) + self.ttl.min(SILENCE)
    }

    fn held(&mut self, free_in: Option<Duration>, now: Moment) -> Step {
        self.last_answer = now;
        self.unanswered_since = None;
        self.free_in = free_in;
        self.answers += 1;
        self.silence = Backoff::unanswered();
        match self.contention {
            Contention::Fail => self.contended(now),
            Contention::Wait(_) | Contention::WaitForever => self.pause(now),
        }
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
        self.last_answer = now;
        self.unanswered_since = None;
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
        self.until(next, false, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(ms: u64) -> Moment {
        Moment::from_nanos((10_000 + ms) * 1_000_000)
    }

    fn waiting(contention: Contention, ttl: u64) -> Waiting {
        Waiting::new(contention, ms(ttl), 7, at(0))
    }

    fn held(free_in: u64) -> Event {
        Event::Held { free_in: Some(ms(free_in)) }
    }

    fn silent() -> Event {
        Event::Unanswered(BackendError::unknown("silent"))
    }

    #[test]
    fn fail_gives_up_at_the_first_answer() {
        let mut acquire = waiting(Contention::Fail, 900);
        assert!(matches!(acquire.start(at(0)), Step::Try { within } if within == ms(300)));
        let step = acquire.step(held(500), at(4));
        assert!(
            matches!(step, Step::Contended { waited, free_in } if waited == ms(4) && free_in == Some(ms(500))),
            "{step:?}"
        );
    }

    #[test]
    fn fail_repeats_unanswered_attempts_within_its_bound() {
        let mut acquire = waiting(Contention::Fail, 900);
        let (mut now, mut step) = (0, acquire.start(at(0)));
        let mut attempts = 0;
        loop {
            step = match step {
                Step::Try { within } => {
                    attempts += 1;
                    now += u64::try_from(within.as_millis()).unwrap();
                    acquire.step(silent(), at(now))
                }
                Step::Pause { until, listen } => {
                    assert!(!listen);
                    now = u64::try_from(until.since(at(0)).as_millis()).unwrap() + 1;
                    acquire.step(Event::Paused { woken: false }, at(now))
                }
                Step::Unavailable(_) => break,
                Step::Contended { .. } => panic!("silence read as contention"),
            };
        }
        assert!(attempts >= 3, "{attempts}");
        assert!((600..=901).contains(&now), "{now}");
    }

    #[test]
    fn a_stale_grant_after_the_end_of_a_wait_does_not_prolong_it() {
        let mut acquire = waiting(Contention::Wait(ms(10)), 900);
        assert!(matches!(acquire.start(at(0)), Step::Try { within } if within == ms(40)));
        let step = acquire.step(Event::Stale, at(40));
        assert!(matches!(step, Step::Unavailable(_)), "{step:?}");
        let mut acquire = waiting(Contention::Wait(ms(60)), 900);
        acquire.start(at(0));
        assert!(matches!(acquire.step(Event::Stale, at(40)), Step::Try { .. }), "there is time left");
    }

    #[test]
    fn a_permanent_error_is_not_repeated() {
        let mut acquire = waiting(Contention::WaitForever, 900);
        acquire.start(at(0));
        let wrong = Event::Unanswered(BackendError::not_applied("wrong password").permanent());
        assert!(matches!(acquire.step(wrong, at(1)), Step::Unavailable(_)));
    }

    #[test]
    fn a_pause_ends_at_the_holders_end_or_two_thirds_of_the_ttl() {
        let mut acquire = waiting(Contention::WaitForever, 900);
        acquire.start(at(0));
        let Step::Pause { until, listen: true } = acquire.step(held(50), at(0)) else { panic!() };
        assert_eq!(until, at(51));
        acquire.step(Event::Paused { woken: false }, at(51));
        let Step::Pause { until, listen: true } = acquire.step(held(60_000), at(51)) else { panic!() };
        assert!((at(51 + 450)..=at(51 + 750)).contains(&until));
        acquire.step(Event::Paused { woken: false }, at(900));
        let endless = acquire.step(Event::Held { free_in: None }, at(900));
        assert!(matches!(endless, Step::Pause { until, .. } if (at(1_050)..=at(1_150)).contains(&until)));
    }

    #[test]
    fn a_long_pause_takes_nothing_from_the_next_attempt() {
        let mut acquire = waiting(Contention::WaitForever, 60_000);
        acquire.start(at(0));
        acquire.step(held(60_000), at(0));
        let step = acquire.step(Event::Paused { woken: false }, at(40_000));
        assert!(matches!(step, Step::Try { within } if within == ATTEMPT), "{step:?}");
        assert!(matches!(acquire.step(silent(), at(41_000)), Step::Pause { listen: false, .. }));
    }

    #[test]
    fn a_wait_ends_at_its_deadline_as_contended() {
        let mut acquire = waiting(Contention::Wait(ms(100)), 900);
        acquire.start(at(0));
        let Step::Pause { until, .. } = acquire.step(held(60_000), at(0)) else { panic!() };
        assert_eq!(until, at(100));
        assert!(matches!(
            acquire.step(Event::Paused { woken: false }, at(100)),
            Step::Contended { waited, .. } if waited == ms(100)
        ));
    }

    #[test]
    fn the_last_attempt_of_a_wait_is_cut_short_and_no_outage() {
        let mut acquire = waiting(Contention::Wait(ms(100)), 900);
        acquire.start(at(0));
        acquire.step(held(90), at(0));
        let Step::Try { within } = acquire.step(Event::Paused { woken: true }, at(90)) else { panic!() };
        assert_eq!(within, ms(40));
        assert!(matches!(acquire.step(silent(), at(130)), Step::Contended { .. }));
    }

    #[test]
    fn a_wait_for_a_silent_service_ends_as_unavailable() {
        let mut acquire = waiting(Contention::Wait(ms(100)), 900);
        assert!(matches!(acquire.start(at(0)), Step::Try { within } if within == ms(100)));
        assert!(matches!(acquire.step(silent(), at(100)), Step::Unavailable(_)));
    }

    #[test]
    fn a_holder_whose_end_is_beyond_counting_is_waited_for() {
        let mut acquire = waiting(Contention::WaitForever, 900);
        acquire.start(at(0));
        let step = acquire.step(Event::Held { free_in: Some(Duration::MAX) }, at(2));
        assert!(matches!(step, Step::Pause { until, .. } if until <= at(2 + 750)), "{step:?}");
    }

    #[test]
    fn vain_wake_ups_slow_down_and_never_spin() {
        let mut acquire = waiting(Contention::WaitForever, 900);
        acquire.start(at(0));
        let (mut now, mut attempts) = (0, 0);
        while now < 1_000 {
            assert!(matches!(acquire.step(held(60_000), at(now)), Step::Pause { listen: true, .. }));
            // The backend wakes at once, always.
            let mut step = acquire.step(Event::Paused { woken: true }, at(now));
            if let Step::Pause { until, listen } = step {
                assert!(!listen);
                now = u64::try_from(until.since(at(0)).as_millis()).unwrap();
                step = acquire.step(Event::Paused { woken: false }, at(now));
            }
            assert!(matches!(step, Step::Try { .. }), "{step:?}");
            attempts += 1;
        }
        assert!(attempts < 60, "{attempts}");
    }

    #[test]
    fn a_stale_grant_is_refreshed_once() {
        let mut acquire = waiting(Contention::Fail, 900);
        acquire.start(at(0));
        assert!(matches!(acquire.step(Event::Stale, at(500)), Step::Try { .. }));
        assert!(matches!(acquire.step(Event::Stale, at(1_000)), Step::Unavailable(_)));
    }
}
