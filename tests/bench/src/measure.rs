//! The workloads, each in its file.

mod contended;
mod cost;
mod floor;
mod handoff;
mod herd;
mod memory;
mod parallel;
mod renewal;
mod sequential;
mod takeover;
mod team;

use crate::Result;
use crate::bench::Bench;
use crate::row::Found;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    Floor,
    Sequential,
    Cost,
    Parallel,
    HandOff,
    Contended,
    Fair,
    Herd,
    Renewal,
    Takeover,
    Memory,
}

impl Workload {
    pub(crate) const ALL: [Self; 11] = [
        Self::Floor,
        Self::Sequential,
        Self::Cost,
        Self::Parallel,
        Self::HandOff,
        Self::Contended,
        Self::Fair,
        Self::Herd,
        Self::Renewal,
        Self::Takeover,
        Self::Memory,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Sequential => "sequential",
            Self::Cost => "cost",
            Self::Parallel => "parallel",
            Self::HandOff => "handoff",
            Self::Contended => "contended",
            Self::Fair => "fair",
            Self::Herd => "herd",
            Self::Renewal => "renewal",
            Self::Takeover => "takeover",
            Self::Memory => "memory",
        }
    }

    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|workload| workload.name() == name);
        found.ok_or_else(|| {
            format!("no workload `{name}`; there are {}", Self::ALL.map(Self::name).join(", "))
        })
    }

    pub(crate) fn measure(self, bench: &Bench) -> Result<Found> {
        match self {
            Self::Floor => floor::measure(bench),
            Self::Sequential => sequential::measure(bench),
            Self::Cost => cost::measure(bench),
            Self::Parallel => parallel::measure(bench),
            Self::HandOff => handoff::measure(bench),
            Self::Contended => contended::with_thinking(bench),
            Self::Fair => contended::without_thinking(bench),
            Self::Herd => herd::measure(bench),
            Self::Renewal => renewal::measure(bench),
            Self::Takeover => takeover::measure(bench),
            Self::Memory => memory::measure(bench),
        }
    }
}
