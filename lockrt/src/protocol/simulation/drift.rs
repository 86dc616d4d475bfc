//! A clock that goes a little too fast or too slow.

use crate::clock::Moment;

/// Microseconds on the simulation's own clock, which nobody in it can read.
pub(super) type Time = u64;

pub(super) const MS: Time = 1_000;

const MILLION: i64 = 1_000_000;

/// A clock with an origin of its own and an error in its rate, in parts per million.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drift {
    pub(super) origin: Time,
    pub(super) ppm: i64,
}

impl Drift {
    /// What the clock shows, in microseconds.
    pub(super) fn shows(self, now: Time) -> u64 {
        let now = i64::try_from(now).unwrap();
        self.origin + u64::try_from(now + now * self.ppm / MILLION).unwrap()
    }

    pub(super) fn moment(self, now: Time) -> Moment {
        Moment::from_nanos(self.shows(now) * 1_000)
    }

    /// The first time at which the clock shows `moment` or more.
    pub(super) fn when(self, moment: Moment) -> Time {
        let wanted = moment.as_nanos().div_ceil(1_000);
        let span = i64::try_from(wanted.saturating_sub(self.origin)).unwrap();
        let mut time = u64::try_from((span - span * self.ppm / MILLION).max(0)).unwrap().saturating_sub(2);
        // The division above is exact to a few parts in a million only.
        time -= time / 10_000;
        while self.shows(time) < wanted {
            time += (wanted - self.shows(time)).div_ceil(2);
        }
        time
    }
}
