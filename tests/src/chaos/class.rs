//! The classes of faults.

use std::fmt;

/// What goes wrong while the workers work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Nothing.
    Baseline,
    /// Worker processes are stopped for longer than a lease and go on (`SIGSTOP`).
    WorkersStopped,
    /// Worker processes are killed and started anew.
    WorkersKilled,
    /// The lock server's process is stopped and goes on.
    ServerStopped,
    /// The lock server is killed and comes back empty.
    ServerEmptied,
    /// Workers are cut off from the lock server; their store they reach.
    CutOff,
    /// Between workers and lock server only requests arrive, or only answers.
    OneWay,
    /// Each direction of each connection is late by a time of its own, up to 400 ms.
    Latency,
    /// Connections break at a request, at its answer, or in the middle of that.
    Reset,
    /// The lock server takes no writes, or does nothing, for a while.
    ServerBusy,
    /// Scripts are forgotten and connections closed by the lock server.
    Forgetful,
    /// Every key of the lock server is deleted, or every fence key.
    Flushed,
    /// Three calls of ten are dropped on their way.
    Cancelled,
    /// Workers drop their runtime with all tasks and guards in it.
    RuntimesDropped,
    /// A replica that misses the last writes takes over.
    FailedOver,
}

impl Class {
    /// All of them, in the order in which they are run.
    pub(super) const ALL: [Self; 15] = [
        Self::Baseline,
        Self::WorkersStopped,
        Self::WorkersKilled,
        Self::ServerStopped,
        Self::CutOff,
        Self::OneWay,
        Self::Latency,
        Self::Reset,
        Self::ServerBusy,
        Self::Forgetful,
        Self::Cancelled,
        Self::RuntimesDropped,
        Self::ServerEmptied,
        Self::Flushed,
        Self::FailedOver,
    ];

    /// Its name in arguments and in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Baseline => "none",
            Self::WorkersStopped => "worker-stopped",
            Self::WorkersKilled => "worker-killed",
            Self::ServerStopped => "server-stopped",
            Self::ServerEmptied => "server-emptied",
            Self::CutOff => "cut-off",
            Self::OneWay => "one-way",
            Self::Latency => "latency",
            Self::Reset => "reset",
            Self::ServerBusy => "server-busy",
            Self::Forgetful => "forgetful",
            Self::Flushed => "flushed",
            Self::Cancelled => "cancelled",
            Self::RuntimesDropped => "runtime-dropped",
            Self::FailedOver => "failed-over",
        }
    }

    /// Whether the lock server forgets locks that are held, so that two holders are to be expected
    /// and only a fence keeps them from harm.
    pub(super) fn loses_data(self) -> bool {
        matches!(self, Self::ServerEmptied | Self::Flushed | Self::FailedOver)
    }

    /// Whether holders write after their lease has ended, so that a fence must have refused some.
    pub(super) fn must_be_refused(self) -> bool {
        self == Self::WorkersStopped
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
