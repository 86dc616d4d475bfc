//! The lines between director and drivers: one command per line, one JSON value as its answer.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a driver is asked to do. Its words are also understood by the drivers in `peers/`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Command {
    /// `cycles MS`: acquire and release one key after the other for so long; answers [`Cycles`].
    Cycles { ms: u64 },
    /// `count N`: exactly so many cycles; answers [`Cycles`].
    Count { cycles: u64 },
    /// `parallel TASKS MS`: tasks that each cycle on a key of their own; answers [`Cycles`].
    Parallel { tasks: usize, ms: u64 },
    /// `contend TASKS SECTION_MS THINK_MS BEGIN_NS END_NS`: tasks that share a key; answers [`Turns`].
    Contend { tasks: usize, section_ms: u64, think_ms: u64, begin_ns: u64, end_ns: u64 },
    /// `acquire`: waits for the one key and keeps it; answers [`At`] once it is held.
    Acquire,
    /// `release`: gives it back; answers [`At`] of the moment just before.
    Release,
    /// `ping`: one round trip; answers [`Cycles`].
    Ping,
    /// `hold N`: takes so many keys and keeps them renewed; answers [`Bytes`].
    Hold { keys: usize },
    /// `park N`: waits for the one key so many times; answers [`Bytes`].
    Park { waiters: usize },
    /// `cpu`: answers [`At`] with the processor time of this process so far.
    Cpu,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cycles { ms } => write!(f, "cycles {ms}"),
            Self::Count { cycles } => write!(f, "count {cycles}"),
            Self::Parallel { tasks, ms } => write!(f, "parallel {tasks} {ms}"),
            Self::Contend { tasks, section_ms, think_ms, begin_ns, end_ns } => {
                write!(f, "contend {tasks} {section_ms} {think_ms} {begin_ns} {end_ns}")
            }
            Self::Acquire => f.write_str("acquire"),
            Self::Release => f.write_str("release"),
            Self::Ping => f.write_str("ping"),
            Self::Hold { keys } => write!(f, "hold {keys}"),
            Self::Park { waiters } => write!(f, "park {waiters}"),
            Self::Cpu => f.write_str("cpu"),
        }
    }
}

impl Command {
    /// Reads a line; none if it is no command.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(match (name, numbers.as_slice()) {
            ("cycles", &[ms]) => Self::Cycles { ms },
            ("count", &[cycles]) => Self::Count { cycles },
            ("parallel", &[tasks, ms]) => Self::Parallel { tasks: usize::try_from(tasks).ok()?, ms },
            ("contend", &[tasks, section_ms, think_ms, begin_ns, end_ns]) => {
                Self::Contend { tasks: usize::try_from(tasks).ok()?, section_ms, think_ms, begin_ns, end_ns }
            }
            ("acquire", &[]) => Self::Acquire,
            ("release", &[]) => Self::Release,
            ("ping", &[]) => Self::Ping,
            ("hold", &[keys]) => Self::Hold { keys: usize::try_from(keys).ok()? },
            ("park", &[waiters]) => Self::Park { waiters: usize::try_from(waiters).ok()? },
            ("cpu", &[]) => Self::Cpu,
            _ => return None,
        })
    }
}

/// How acquire and release went, again and again.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Cycles {
    pub(crate) cycles: u64,
    /// The median of one.
    pub(crate) p50_us: f64,
    pub(crate) wall_us: f64,
    /// Allocations in all; 0 where they are not counted.
    pub(crate) allocations: u64,
}

/// How the tasks of one driver fared on a key that all share.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Turns {
    /// How long each turn was waited for.
    pub(crate) waits_us: Vec<f64>,
    /// Turns of each task.
    pub(crate) served: Vec<u64>,
    /// How long each turn lasted.
    pub(crate) sections_us: Vec<f64>,
    /// Waits that ended without the lock, which nobody has asked for.
    pub(crate) refused: u64,
}

/// A moment, on the clock that all processes share, or a duration.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct At {
    pub(crate) at_ns: u64,
}

/// What a driver has allocated and not given back.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Bytes {
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// Nanoseconds since the machine started, for all processes the same (`CLOCK_MONOTONIC`).
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    nanoseconds(now)
}

/// The processor time of this process.
pub(crate) fn cpu_ns() -> u64 {
    nanoseconds(rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime))
}

fn nanoseconds(time: rustix::time::Timespec) -> u64 {
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or_default()
}
