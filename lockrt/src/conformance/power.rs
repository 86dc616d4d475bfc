//! Power over a lock service: what some cases must be able to do to it.

use std::future::Future;
use std::time::Duration;

use super::Service;

/// How late answers are under [`Fault::Slow`].
pub const SLOWNESS: Duration = Duration::from_millis(300);

/// How far clocks are stepped under [`Fault::ClockAhead`] and [`Fault::ClientAhead`].
pub const STEP: Duration = Duration::from_secs(3_600);

/// A [`Service`] that a test can do something to.
///
/// Which [faults](Fault) it offers stands in [`conformance_tests!`](crate::conformance_tests); of the
/// others it is never asked.
#[diagnostic::on_unimplemented(
    message = "the conformance suite has no power over `{Self}`",
    note = "implement `lockrt::conformance::Power`, or write `power = none`: then the cases that need power are listed as ignored"
)]
pub trait Power: Service {
    /// Does this to the service, for all its clients, until it is healed.
    fn inflict(&self, fault: Fault) -> impl Future<Output = ()> + Send;

    /// Undoes every fault. Returns when the service can be reached again; its clients need not have
    /// noticed yet.
    fn heal(&self) -> impl Future<Output = ()> + Send;
}

/// What can be done to a lock service.
///
/// The suite asks for the outcome that is stated here. A caller gives a call some time and then
/// drops it; whatever happens, that ends the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Ends like after a crash, and cannot be reached; healing starts it again, with or without the
    /// data it had. Meanwhile calls fail or are silent, and afterwards clients find it again by
    /// themselves. Tokens rise over a restart even if everything stored is lost.
    Down,
    /// Stops answering, while connections stay open. Calls are silent, and those that were given up
    /// may be carried out later.
    Paused,
    /// Answers everything later by [`SLOWNESS`]. Calls are waited for as long as the caller likes.
    Slow,
    /// Carries the next call out, of whichever client, and breaks its connection before the answer.
    /// That call fails with an unknown outcome, a renewal for each of its claims. The fault heals
    /// itself.
    ReplyLost,
    /// Forgets what it keeps for its clients' convenience, once: scripts, prepared statements, caches.
    /// Calls must not notice.
    Forgetful,
    /// Tells nobody of a release. Who waits and looks again from time to time loses that time only.
    NoWakeUps,
    /// The service's wall clock is [ahead](STEP) by an hour; healing steps it back. Tokens rise all
    /// the same. Leases may end early, which their holders learn by a renewal that is `Gone`.
    ClockAhead,
    /// The clients' wall clocks are [ahead](STEP) by an hour, and the service's is not; healing steps
    /// them back. Nothing changes.
    ClientAhead,
}

impl Fault {
    /// All there are.
    pub const ALL: [Self; 8] = [
        Self::Down,
        Self::Paused,
        Self::Slow,
        Self::ReplyLost,
        Self::Forgetful,
        Self::NoWakeUps,
        Self::ClockAhead,
        Self::ClientAhead,
    ];

    /// Whether `stated` names each fault once, which [`conformance_tests!`](crate::conformance_tests)
    /// checks at compile time.
    #[must_use]
    pub const fn are_each_stated_once(stated: &[Self]) -> bool {
        let (mut seen, mut place) = (0_u32, 0);
        while place < stated.len() {
            seen += 1 << (4 * stated[place] as u32);
            place += 1;
        }
        seen == 0x1111_1111
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_must_be_stated_and_only_once() {
        assert!(Fault::are_each_stated_once(&Fault::ALL));
        assert!(!Fault::are_each_stated_once(&Fault::ALL[1..]));
        let mut twice = Fault::ALL;
        twice[3] = twice[4];
        assert!(!Fault::are_each_stated_once(&twice));
        assert!(!Fault::are_each_stated_once(&[&Fault::ALL[..], &[Fault::Down]].concat()));
    }
}
