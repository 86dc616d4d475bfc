//! How a claim is given back until nothing of it can be left.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::claim::Released;
use crate::clock::Moment;
use crate::mutant::{self, Flaw};
use crate::protocol::waiting::attempt_timeout;

/// What a claim may have on the lock service.
///
/// An attempt without an answer may be carried out later, after a release that found nothing. So
/// the first `NotHeld` ends nothing while such an attempt is owed: the release is repeated until
/// each owed grant has been freed, or until a grant by the latest attempt would have expired. The
/// last look leaves at that moment or later, since a place in a queue does not end with a grant's
/// ttl: an attempt that came after an earlier look would be offered the lock for a claim that is gone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Owed {
    /// Attempts that got no answer.
    pub(crate) unanswered: u32,
    /// Whether an attempt is on its way.
    pub(crate) in_flight: bool,
    /// Whether a grant was answered and not freed since.
    pub(crate) held: bool,
}

impl Owed {
    /// Whether a grant may come, or have come, that nobody knows of.
    pub(crate) fn is_in_doubt(self) -> bool {
        self.unanswered > 0 || self.in_flight
    }

    /// Whether nothing can be left.
    pub(crate) fn is_settled(self) -> bool {
        !self.is_in_doubt() && !self.held
    }
}

/// The release of one claim.
#[derive(Debug)]
pub(crate) struct Freeing {
    backoff: Backoff,
    /// When the next release is due; none while one is on its way.
    next: Option<Moment>,
    /// When every grant of the claim has expired by itself.
    over: Moment,
    again: bool,
    /// A release got no answer, and may have been carried out.
    unanswered: bool,
    /// Until when nothing but a release ends what was granted.
    lasts: Moment,
    /// Whether the release that is on its way, or was answered last, left when that was over.
    last: bool,
}

/// What is left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing; all that the claim had is freed.
    Nothing,
    /// Nothing more can be done; what was left has expired by now.
    Expired,
    /// A release is due at this moment.
    Again(Moment),
}

impl Freeing {
    /// A release that is due at once. `latest` is when the newest attempt or renewal left.
    pub(crate) fn new(now: Moment, latest: Moment, ttl: Duration) -> Self {
        Self {
            backoff: Backoff::cleaning(),
            next: Some(now),
            over: latest + ttl + attempt_timeout(ttl),
            again: false,
            unanswered: false,
            lasts: Moment::default(),
            last: false,
        }
    }

    /// The same for a lease with this deadline.
    pub(crate) fn of_lease(self, deadline: Moment) -> Self {
        Self { lasts: deadline, ..self }
    }

    /// When to look again.
    pub(crate) fn due(&self) -> Option<Moment> {
        self.next
    }

    /// Whether a release is to be sent now; it then counts as on its way.
    pub(crate) fn send(&mut self, now: Moment) -> bool {
        let due = self.next.is_some_and(|next| now >= next);
        if due {
            self.next = None;
            self.last = now >= self.over;
        }
        due
    }

    /// An attempt that was on its way was granted: a release sent before it may have missed it.
    pub(crate) fn granted_late(&mut self, now: Moment) {
        if self.next.is_some() {
            self.next = Some(now);
        } else {
            self.again = true;
        }
    }

    /// The release was answered; `freed` says whether the service had something to free.
    pub(crate) fn answered(&mut self, owed: &mut Owed, freed: bool, now: Moment) -> Left {
        if !freed && mutant::has(Flaw::CleanUpStopsAtNotHeld) {
            return Left::Nothing;
        }
        if owed.held {
            // What was granted is freed or had expired, unless it came after this release left.
            owed.held = self.again;
        } else if freed {
            owed.unanswered = owed.unanswered.saturating_sub(1);
        }
        if owed.is_settled() { Left::Nothing } else { self.later(now) }
    }

    /// What a release that was answered says of all of them. One that finds nothing follows one that
    /// has freed it without an answer, if the lease would last until now.
    pub(crate) fn outcome(&self, answer: Released, owed: Owed, now: Moment) -> Released {
        let has_freed = self.unanswered && owed.held && now < self.lasts;
        if answer == Released::NotHeld && has_freed { Released::Freed } else { answer }
    }

    /// The release got no answer.
    pub(crate) fn unanswered(&mut self, now: Moment) -> Left {
        self.unanswered = true;
        self.later(now)
    }

    fn later(&mut self, now: Moment) -> Left {
        if self.last {
            return Left::Expired;
        }
        let pause = if std::mem::take(&mut self.again) { Duration::ZERO } else { self.backoff.pause() };
        // One more look at the very end, however long the pauses have become, or the answers take.
        let next = (now + pause).min(self.over.max(now));
        self.next = Some(next);
        Left::Again(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_millis(900);

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    /// Answers every release with `freed(n)` and gives the moments at which they were sent.
    fn run(owed: &mut Owed, freed: impl Fn(usize) -> bool) -> (Vec<u64>, Left) {
        let mut freeing = Freeing::new(at(0), at(0), TTL);
        let mut sent = Vec::new();
        loop {
            let now = freeing.due().unwrap();
            assert!(freeing.send(now));
            sent.push(now.as_nanos() / 1_000_000);
            match freeing.answered(owed, freed(sent.len()), now) {
                Left::Again(_) => {}
                end => return (sent, end),
            }
        }
    }

    #[test]
    fn a_known_grant_needs_one_answer() {
        for freed in [true, false] {
            let mut owed = Owed { held: true, ..Owed::default() };
            assert_eq!(run(&mut owed, |_| freed), (vec![0], Left::Nothing));
        }
    }

    #[test]
    fn an_unanswered_attempt_is_not_settled_by_not_held() {
        let mut owed = Owed { unanswered: 1, ..Owed::default() };
        let (sent, end) = run(&mut owed, |n| n == 4);
        assert_eq!((sent, end), (vec![0, 5, 15, 35], Left::Nothing));
    }

    #[test]
    fn clean_up_ends_when_the_latest_attempt_must_have_expired() {
        let mut owed = Owed { unanswered: 1, ..Owed::default() };
        let (sent, end) = run(&mut owed, |_| false);
        assert_eq!(end, Left::Expired);
        assert_eq!(sent.last(), Some(&1_200), "ttl and attempt time-out: {sent:?}");
        assert!(sent.windows(2).all(|pair| pair[1] - pair[0] <= 1_000));
    }

    #[test]
    fn freeing_a_known_grant_says_nothing_of_an_unanswered_attempt() {
        let mut owed = Owed { unanswered: 1, held: true, ..Owed::default() };
        let (sent, end) = run(&mut owed, |n| n == 1 || n == 3);
        assert_eq!((sent, end), (vec![0, 5, 15], Left::Nothing));
    }

    #[test]
    fn two_unanswered_attempts_are_two_possible_grants() {
        let mut owed = Owed { unanswered: 2, ..Owed::default() };
        let (sent, _) = run(&mut owed, |n| n == 1 || n == 2);
        assert_eq!(sent.len(), 2);
    }

    #[test]
    fn a_grant_that_overtook_its_release_is_released_again_at_once() {
        let mut freeing = Freeing::new(at(0), at(0), TTL);
        let mut owed = Owed { in_flight: true, ..Owed::default() };
        assert!(freeing.send(at(0)));
        owed = Owed { held: true, ..owed };
        owed.in_flight = false;
        freeing.granted_late(at(1));
        assert_eq!(freeing.answered(&mut owed, false, at(2)), Left::Again(at(2)));
        assert!(freeing.send(at(2)));
        assert_eq!(freeing.answered(&mut owed, true, at(3)), Left::Nothing);
    }

    #[test]
    fn an_unanswered_release_is_repeated() {
        let mut freeing = Freeing::new(at(0), at(0), TTL);
        assert!(freeing.send(at(0)));
        assert!(!freeing.send(at(0)), "one at a time");
        assert_eq!(freeing.unanswered(at(100)), Left::Again(at(105)));
        assert!(freeing.send(at(105)));
        assert_eq!(freeing.unanswered(at(2_000)), Left::Again(at(2_000)));
        assert!(freeing.send(at(2_000)));
        assert_eq!(freeing.unanswered(at(2_300)), Left::Expired);
    }

    #[test]
    fn a_look_that_left_before_the_end_and_is_answered_after_it_is_not_the_last() {
        let mut freeing = Freeing::new(at(0), at(0), TTL);
        let mut owed = Owed { unanswered: 1, ..Owed::default() };
        assert!(freeing.send(at(1_199)));
        // Between the two the attempt may have come and taken a place.
        assert_eq!(freeing.answered(&mut owed, false, at(5_000)), Left::Again(at(5_000)));
        assert!(freeing.send(at(5_000)));
        assert_eq!(freeing.answered(&mut owed, false, at(5_001)), Left::Expired);
    }
}
