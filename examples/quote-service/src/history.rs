//! Who worked when, so that a reader can check that no two worked on one quote at once.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// The oldest are forgotten beyond this many.
const REMEMBERED: usize = 1_000;

/// One interval of work.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Work {
    pub(crate) operation: &'static str,
    pub(crate) tenant: String,
    pub(crate) id: String,
    pub(crate) fencing: u64,
    pub(crate) instance: String,
    pub(crate) started_unix_us: u64,
    /// `None` while it runs.
    pub(crate) ended_unix_us: Option<u64>,
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Running,
    Wrote,
    /// The store refused the write: the lease was over, and a newer one had written.
    Stale,
    /// The body was dropped: the client went away, or the lease was lost.
    Dropped,
}

/// The last intervals of work of this process.
#[derive(Debug, Default)]
pub(crate) struct History {
    recorded: Mutex<Recorded>,
}

#[derive(Debug, Default)]
struct Recorded {
    forgotten: usize,
    works: VecDeque<Work>,
}

impl History {
    pub(crate) fn all(&self) -> Vec<Work> {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.works.iter().cloned().collect()
    }

    /// Records that work begins now. It ends with what is returned here.
    pub(crate) fn begin(
        &self,
        operation: &'static str,
        tenant: &str,
        id: &str,
        fencing: u64,
        instance: &str,
    ) -> Working<'_> {
        let work = Work {
            operation,
            tenant: tenant.to_owned(),
            id: id.to_owned(),
            fencing,
            instance: instance.to_owned(),
            started_unix_us: unix_us(),
            ended_unix_us: None,
            outcome: Outcome::Running,
        };
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        if recorded.works.len() == REMEMBERED {
            recorded.works.pop_front();
            recorded.forgotten += 1;
        }
        let number = recorded.forgotten + recorded.works.len();
        recorded.works.push_back(work.clone());
        Working { history: self, number, work }
    }
}

/// Work that goes on; dropping it says that it was dropped.
#[derive(Debug)]
pub(crate) struct Working<'a> {
    history: &'a History,
    number: usize,
    work: Work,
}

impl Working<'_> {
    pub(crate) fn end(mut self, outcome: Outcome) -> Work {
        self.settle(outcome);
        self.work.clone()
    }

    fn settle(&mut self, outcome: Outcome) {
        self.work.ended_unix_us = Some(unix_us());
        self.work.outcome = outcome;
        let mut recorded = self.history.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let place = self.number.checked_sub(recorded.forgotten);
        if let Some(work) = place.and_then(|place| recorded.works.get_mut(place)) {
            *work = self.work.clone();
        }
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        if self.work.outcome == Outcome::Running {
            self.settle(Outcome::Dropped);
        }
    }
}

fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_outlives_its_place_in_the_history_is_forgotten() {
        let history = History::default();
        let first = history.begin("recalculate", "acme", "42", 1, "a");
        for fencing in 2..=1_001 {
            history.begin("recalculate", "acme", "42", fencing, "a").end(Outcome::Wrote);
        }
        first.end(Outcome::Stale);
        let all = history.all();
        assert_eq!(all.len(), REMEMBERED);
        assert!(all.iter().all(|work| work.outcome == Outcome::Wrote && work.ended_unix_us.is_some()));
    }

    #[test]
    fn dropped_work_says_so() {
        let history = History::default();
        drop(history.begin("recalculate", "acme", "42", 1, "a"));
        assert_eq!(history.all()[0].outcome, Outcome::Dropped);
    }
}
