//! Processes that contend for one key.

use std::time::Duration;

use crate::Result;
use crate::bench::Bench;
use crate::command::{Command, Turns, now_ns};
use crate::contestant::Name;
use crate::process::{Driver, Start};
use crate::server::Server;
use crate::stats::quantile;

/// Who contends: processes, each with so many clients, and so many tasks spread over these.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) name: Name,
    pub(super) processes: usize,
    pub(super) clients: usize,
    pub(super) tasks: usize,
}

/// Those processes.
pub(super) struct Team {
    shape: Shape,
    drivers: Vec<Driver>,
}

/// What all tasks together have seen in a round.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) turns: f64,
    pub(super) per_second: f64,
    /// Turns as a part of those that fit into the time one behind the other, each of median length.
    pub(super) used: f64,
    pub(super) wait_p50_ms: f64,
    pub(super) wait_p99_ms: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

/// How a round goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) section_ms: u64,
    pub(super) think_ms: u64,
    pub(super) lasts: Duration,
}

impl Shape {
    pub(super) fn title(self) -> String {
        let tasks = self.processes * self.tasks;
        match (self.processes, self.clients) {
            (1, 1) => format!("{}, {tasks} tasks of one process", self.name.title()),
            (processes, 1) => format!("{}, {processes} processes of {}", self.name.title(), self.tasks),
            (processes, clients) => format!("{}, {} clients", self.name.title(), processes * clients),
        }
    }
}

impl Team {
    pub(super) fn start(bench: &Bench, shape: Shape, server: &Server) -> Result<Self> {
        let start = Start { clients: shape.clients, ..Start::one(shape.name, 0) };
        let drivers = (0..shape.processes).map(|_| bench.start(start, server)).collect::<Result<_>>()?;
        Ok(Self { shape, drivers })
    }

    /// Lets them contend, and waits for what came of it.
    pub(super) fn round(&mut self, pace: Pace) -> Result<Seen> {
        self.begin(pace)?;
        self.end(pace)
    }

    pub(super) fn begin(&mut self, pace: Pace) -> Result<()> {
        // By then all of them have read their line.
        let begin_ns = now_ns() + 20_000_000;
        let end_ns = begin_ns + u64::try_from(pace.lasts.as_nanos())?;
        for driver in &mut self.drivers {
            driver.tell(Command::Contend {
                tasks: self.shape.tasks,
                section_ms: pace.section_ms,
                think_ms: pace.think_ms,
                begin_ns,
                end_ns,
            })?;
        }
        Ok(())
    }

    pub(super) fn end(&mut self, pace: Pace) -> Result<Seen> {
        let mut all = Turns::default();
        for driver in &mut self.drivers {
            let turns: Turns = driver.answer()?;
            all.waits_us.extend(turns.waits_us);
            all.served.extend(turns.served);
            all.sections_us.extend(turns.sections_us);
            all.refused += turns.refused;
        }
        if all.refused > 0 {
            eprintln!("{}: {} waits were refused", self.shape.title(), all.refused);
        }
        Ok(Seen::new(&all, pace.lasts))
    }
}

impl Seen {
    fn new(turns: &Turns, lasted: Duration) -> Self {
        let count: u64 = turns.served.iter().sum();
        Self {
            turns: count as f64,
            per_second: count as f64 / lasted.as_secs_f64(),
            used: count as f64 * quantile(&turns.sections_us, 0.5) / 1e6 / lasted.as_secs_f64(),
            wait_p50_ms: quantile(&turns.waits_us, 0.5) / 1e3,
            wait_p99_ms: quantile(&turns.waits_us, 0.99) / 1e3,
            least: turns.served.iter().copied().min().unwrap_or_default() as f64,
            most: turns.served.iter().copied().max().unwrap_or_default() as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_that_is_too_long_by_accident_does_not_count_as_use() {
        let sections_us = vec![5e5, 5e5, 9e5];
        let turns = Turns { waits_us: vec![1e3, 3e3, 2e3], served: vec![1, 2], sections_us, refused: 0 };
        let seen = Seen::new(&turns, Duration::from_secs(3));
        assert_eq!((seen.used, seen.per_second, seen.wait_p50_ms), (0.5, 1.0, 2.0));
        assert_eq!((seen.least, seen.most), (1.0, 2.0));
    }
}
