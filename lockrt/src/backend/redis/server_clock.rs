//! What time it is at the server, as far as one of its clients can tell.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::Value;

use crate::clock::Moment;

/// After this long the server is asked again: two clocks drift apart by some milliseconds meanwhile.
const FRESH: Duration = Duration::from_secs(10);

/// A time that was told longer ago is not used. So no estimate is further than this ahead of what the
/// server has said, whatever the client's own clock does.
const LONGEST: Duration = Duration::from_secs(3_600);

/// Tokens count exactly up to 2^53; the script says what is wrong with a fence that is near it.
const LARGEST: u64 = (1 << 53) - 2;

/// The server's microseconds, by its last word and the time that has passed since on the client's clock.
///
/// It counts from the arrival of that word, so it is behind the server by the way of one answer, and not
/// ahead.
#[derive(Debug, Default)]
pub(super) struct ServerClock(Mutex<Option<Told>>);

#[derive(Clone, Copy, Debug)]
struct Told {
    micros: u64,
    at: Moment,
}

/// What a client makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    pub(super) micros: u64,
    /// The server should be asked again.
    pub(super) stale: bool,
}

impl ServerClock {
    /// Takes in an answer to `TIME` that has arrived by `now`; another answer tells nothing.
    pub(super) fn told(&self, answer: &Value, now: Moment) {
        if let Some(micros) = read(answer) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Told { micros, at: now });
        }
    }

    /// The server's time at `now`; none if it is not known well enough.
    pub(super) fn at(&self, now: Moment) -> Option<Estimate> {
        let told = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        let passed = now.since(told.at);
        if passed > LONGEST {
            return None;
        }
        let micros = told.micros.checked_add(u64::try_from(passed.as_micros()).ok()?)?;
        (micros <= LARGEST).then_some(Estimate { micros, stale: passed > FRESH })
    }
}

/// Seconds, and the microseconds of the running one.
fn read(answer: &Value) -> Option<u64> {
    let Value::Array(parts) = answer else { return None };
    let [Value::BulkString(seconds), Value::BulkString(micros)] = parts.as_slice() else { return None };
    let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<u64>().ok();
    number(seconds)?.checked_mul(1_000_000)?.checked_add(number(micros)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(seconds: &str, micros: &str) -> Value {
        Value::Array(vec![Value::BulkString(seconds.into()), Value::BulkString(micros.into())])
    }

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    fn told(seconds: &str, micros: &str) -> ServerClock {
        let clock = ServerClock::default();
        clock.told(&time(seconds, micros), at(100));
        clock
    }

    #[test]
    fn it_goes_on_from_what_the_server_has_said() {
        let clock = told("1700000000", "42");
        assert_eq!(clock.at(at(100)).unwrap().micros, 1_700_000_000_000_042);
        assert_eq!(clock.at(at(107)).unwrap(), Estimate { micros: 1_700_000_007_000_042, stale: false });
        assert!(clock.at(at(111)).unwrap().stale);
    }

    #[test]
    fn it_is_never_more_than_an_hour_ahead_of_what_the_server_has_said() {
        let clock = told("1700000000", "0");
        assert!(clock.at(at(100 + 3_600)).is_some());
        assert_eq!(clock.at(at(100 + 3_601)), None);
    }

    #[test]
    fn an_answer_that_is_no_time_tells_nothing() {
        let clock = ServerClock::default();
        for answer in [Value::Nil, Value::Okay, time("x", "1"), Value::Array(vec![Value::Int(1)])] {
            clock.told(&answer, at(100));
        }
        assert_eq!(clock.at(at(100)), None);
    }

    #[test]
    fn a_clock_near_the_largest_token_is_left_to_the_script() {
        assert!(told("9007199254", "740990").at(at(100)).is_some());
        assert_eq!(told("9007199254", "740991").at(at(100)), None);
        assert_eq!(told("9007199254", "740990").at(at(101)), None);
        assert_eq!(told("18446744073709551615", "0").at(at(100)), None);
    }
}
