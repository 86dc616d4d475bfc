//! Calls to be made later, in the order of their time.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Weak;

use crate::clock::Moment;

/// How many calls are kept without asking who still needs them.
const FEW: usize = 64;

/// A call to be made later.
pub(super) struct Timer {
    /// For whom; once that is gone nobody needs the call.
    pub(super) of: Weak<dyn Any + Send + Sync>,
    pub(super) call: Box<dyn FnOnce() + Send>,
}

#[derive(Default)]
pub(super) struct Timers {
    calls: BTreeMap<(Moment, u64), Timer>,
    set: u64,
    /// How many were left when the unneeded ones were last forgotten.
    needed: usize,
}

impl Timers {
    /// Keeps `timer` until its time. A call whose addressee is gone is forgotten earlier, since it
    /// may have been set for hours: a wait seldom lasts until its deadline.
    pub(super) fn set(&mut self, at: Moment, timer: Timer) {
        self.set += 1;
        self.calls.insert((at, self.set), timer);
        if self.calls.len() > FEW + 2 * self.needed {
            self.calls.retain(|_, timer| timer.of.strong_count() > 0);
            self.needed = self.calls.len();
        }
    }

    pub(super) fn next_due(&self) -> Option<Moment> {
        self.calls.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn take_due(&mut self, now: Moment) -> Option<Timer> {
        let first = self.calls.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Weak};

    use super::*;

    fn timer(of: &Arc<()>) -> Timer {
        let of: Weak<()> = Arc::downgrade(of);
        Timer { of, call: Box::new(|| ()) }
    }

    #[test]
    fn calls_are_due_in_the_order_of_their_time_then_of_their_setting() {
        let (mut timers, whom) = (Timers::default(), Arc::new(()));
        for at in [3, 1, 2] {
            timers.set(Moment::from_nanos(at), timer(&whom));
        }
        assert_eq!(timers.next_due(), Some(Moment::from_nanos(1)));
        assert!(timers.take_due(Moment::from_nanos(0)).is_none());
        assert!(timers.take_due(Moment::from_nanos(2)).is_some());
        assert!(timers.take_due(Moment::from_nanos(2)).is_some());
        assert!(timers.take_due(Moment::from_nanos(2)).is_none());
    }

    #[test]
    fn calls_that_nobody_needs_any_more_do_not_pile_up_until_their_time() {
        let (mut timers, stays) = (Timers::default(), Arc::new(()));
        for _ in 0..10_000 {
            timers.set(Moment::FAR, timer(&Arc::new(())));
        }
        timers.set(Moment::from_nanos(1), timer(&stays));
        assert!(timers.calls.len() <= FEW + 1, "{}", timers.calls.len());
        assert!(timers.take_due(Moment::from_nanos(1)).is_some());
    }
}
