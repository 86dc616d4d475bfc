//! What all workers of one class have told.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::record::{Cell, End, Record};
use super::spot::Spot;

/// One grant, as its holder saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) spot: Spot,
    pub(super) token: u64,
    pub(super) asked_ns: u64,
    pub(super) answered_ns: u64,
    /// When its lease first and last said that it was valid; none if never.
    pub(super) used: Option<Use>,
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spot, token, asked_ns, answered_ns, used } = self;
        let ms = |ns: &u64| format!("{}.{:03}", ns / 1_000_000, ns / 1_000 % 1_000);
        write!(
            f,
            "{spot} with token {token}, asked for at {} ms, granted at {}",
            ms(asked_ns),
            ms(answered_ns)
        )?;
        match used {
            Some(Use { first_ns, last_ns }) => write!(f, ", in use from {} to {}", ms(first_ns), ms(last_ns)),
            None => Ok(()),
        }
    }
}

/// From the first moment of proven use to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
}

/// One acquire, as its caller saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// In which place of the crew.
    pub(super) place: usize,
    pub(super) asked_ns: u64,
    pub(super) ended_ns: u64,
    pub(super) limit_ns: u64,
    pub(super) waits: bool,
    pub(super) end: End,
}

/// A time during which the process in one place of the crew stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stall {
    pub(super) place: usize,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

/// Everything told so far.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) grants: Vec<Grant>,
    pub(super) waits: Vec<Wait>,
    pub(super) stalls: Vec<Stall>,
    /// Increments that the store has acknowledged.
    pub(super) added: HashMap<(Cell, Spot), u64>,
    pub(super) refused: u64,
    pub(super) cancelled: u64,
    pub(super) drops_with_guards: u64,
    pub(super) idle: usize,
    pub(super) done: usize,
    pub(super) closed: usize,
    pub(super) unclean: usize,
    pub(super) troubles: Vec<String>,
    /// Where a worker's grant stands in `grants`.
    index: HashMap<(Teller, u64), usize>,
}

/// One process: its place in the crew, and which one in that place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Teller {
    pub(super) place: usize,
    pub(super) life: u64,
}

impl History {
    /// Takes in one line of a worker.
    pub(super) fn take(&mut self, teller: Teller, line: &str) {
        match serde_json::from_str(line) {
            Ok(record) => self.record(teller, record),
            Err(error) => self.troubles.push(format!("worker {} said {line:?}: {error}", teller.place)),
        }
    }

    fn record(&mut self, teller: Teller, record: Record) {
        match record {
            Record::Granted { grant, spot, token, asked_ns, answered_ns } => {
                self.index.insert((teller, grant), self.grants.len());
                self.grants.push(Grant { spot, token, asked_ns, answered_ns, used: None });
            }
            Record::Used { grant, first_ns, last_ns } => {
                if let Some(grant) = self.grant(teller, grant) {
                    grant.used = Some(Use { first_ns, last_ns });
                }
            }
            Record::Added { grant, cell } => {
                if let Some(spot) = self.grant(teller, grant).map(|grant| grant.spot) {
                    *self.added.entry((cell, spot)).or_default() += 1;
                }
            }
            Record::Refused { .. } => self.refused += 1,
            Record::Asked { asked_ns, ended_ns, limit_ns, waits, end } => {
                let place = teller.place;
                self.waits.push(Wait { place, asked_ns, ended_ns, limit_ns, waits, end });
            }
            Record::Cancelled => self.cancelled += 1,
            Record::Dropped { guards } => self.drops_with_guards += u64::from(guards > 0),
            Record::Stalled { from_ns, to_ns } => {
                self.stalls.push(Stall { place: teller.place, from_ns, to_ns });
            }
            Record::Idle => self.idle += 1,
            Record::Done => self.done += 1,
            Record::Closed { clean } => {
                self.closed += 1;
                self.unclean += usize::from(!clean);
            }
            Record::Trouble { what } => self.troubles.push(format!("worker {}: {what}", teller.place)),
        }
    }

    fn grant(&mut self, teller: Teller, grant: u64) -> Option<&mut Grant> {
        let place = *self.index.get(&(teller, grant))?;
        self.grants.get_mut(place)
    }
}

/// The history in the making, shared by whoever reads a worker's lines.
#[derive(Debug, Default)]
pub(super) struct Recorder(Mutex<History>);

impl Recorder {
    pub(super) fn history(&self) -> MutexGuard<'_, History> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_two_lives_of_one_worker_are_kept_apart() {
        let mut history = History::default();
        for life in 0..2 {
            let teller = Teller { place: 3, life };
            let granted =
                Record::Granted { grant: 1, spot: Spot(5), token: 7 + life, asked_ns: 1, answered_ns: 2 };
            history.take(teller, &serde_json::to_string(&granted).unwrap());
            let used = Record::Used { grant: 1, first_ns: 3 + life, last_ns: 9 };
            history.take(teller, &serde_json::to_string(&used).unwrap());
        }
        let first: Vec<_> = history.grants.iter().map(|g| (g.token, g.used.unwrap().first_ns)).collect();
        assert_eq!(first, [(7, 3), (8, 4)]);
        assert!(history.troubles.is_empty());
    }

    #[test]
    fn a_line_that_nobody_understands_is_trouble() {
        let mut history = History::default();
        history.take(Teller { place: 0, life: 0 }, "thread panicked");
        assert_eq!(history.troubles.len(), 1);
    }
}
