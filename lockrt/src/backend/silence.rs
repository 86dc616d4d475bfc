//! How a connection to a lock service is found out that has fallen silent.

use std::time::Duration;

use crate::clock::Moment;

/// How long calls have waited since the last answer, not counting when none was waiting.
///
/// A peer that vanished, or that does not read, gives no I/O error for minutes; all one sees is that
/// calls are dropped unanswered.
#[derive(Debug)]
pub(crate) struct Silence {
    waiting: usize,
    since: Moment,
    before: Duration,
}

impl Silence {
    pub(crate) fn new() -> Self {
        Self { waiting: 0, since: Moment::from_nanos(0), before: Duration::ZERO }
    }

    /// How many calls wait.
    #[cfg(any(test, feature = "postgres"))]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// When the last answer came, the last call was given up, or the first one was made after them.
    #[cfg(feature = "postgres")]
    pub(crate) fn since(&self) -> Moment {
        self.since
    }

    pub(crate) fn so_far(&self, now: Moment) -> Duration {
        if self.waiting == 0 { self.before } else { self.before + now.since(self.since) }
    }

    pub(crate) fn starts(&mut self, now: Moment) {
        if self.waiting == 0 {
            self.since = now;
        }
        self.waiting += 1;
    }

    pub(crate) fn answered(&mut self, now: Moment) {
        self.waiting -= 1;
        self.since = now;
        self.before = Duration::ZERO;
    }

    pub(crate) fn abandoned(&mut self, now: Moment) {
        self.before = self.so_far(now);
        self.since = now;
        self.waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    fn heard(silence: &Silence, at: u64) -> u128 {
        silence.so_far(ms(at)).as_millis()
    }

    #[test]
    fn silence_adds_up_over_calls_that_are_given_up() {
        let mut silence = Silence::new();
        silence.starts(ms(0));
        silence.abandoned(ms(300));
        silence.starts(ms(1_000));
        assert_eq!(heard(&silence, 1_200), 500);
        silence.abandoned(ms(1_400));
        assert_eq!(heard(&silence, 1_400), 700);
    }

    #[test]
    fn silence_is_not_counted_while_nobody_waits() {
        let mut silence = Silence::new();
        silence.starts(ms(0));
        silence.abandoned(ms(300));
        assert_eq!(heard(&silence, 3_600_000), 300);
        assert_eq!(silence.waiting(), 0);
    }

    #[test]
    fn one_answer_ends_the_silence_of_all_calls() {
        let mut silence = Silence::new();
        silence.starts(ms(0));
        silence.starts(ms(100));
        silence.answered(ms(900));
        assert_eq!(heard(&silence, 900), 0);
        // The other call has been silent since that answer only.
        assert_eq!(heard(&silence, 1_500), 600);
        silence.abandoned(ms(1_600));
        assert_eq!(heard(&silence, 9_000), 700);
    }
}
