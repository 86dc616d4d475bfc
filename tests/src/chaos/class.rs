//! The classes of faults.

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
    /// The lock server is killed and comes back with its data.
    ServerKilled,
    /// The lock server is killed and comes back empty.
    ServerEmptied,
    /// Some sessions at the lock server are ended, in the midst of whatever they do.
    SessionsEnded,
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
    /// Every lock of the lock server is deleted, or what keeps its last tokens.
    Flushed,
    /// Three calls of ten are dropped on their way.
    Cancelled,
    /// Workers drop their runtime with all tasks and guards in it.
    RuntimesDropped,
    /// The lock server's clock is set ahead or back, by seconds or by up to an hour.
    ClockStepped,
    /// A replica, or standby, that misses the last writes takes over.
    FailedOver,
}

impl Class {
    /// Those of Redis, in the order in which they are run.
    pub(super) const REDIS: [Self; 16] = [
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
        Self::ClockStepped,
        Self::FailedOver,
    ];

    /// Those of PostgreSQL. It has no scripts to forget, and does not come back empty.
    pub(super) const POSTGRES: [Self; 16] = [
        Self::Baseline,
        Self::WorkersStopped,
        Self::WorkersKilled,
        Self::ServerStopped,
        Self::ServerKilled,
        Self::SessionsEnded,
        Self::CutOff,
        Self::OneWay,
        Self::Latency,
        Self::Reset,
        Self::ServerBusy,
        Self::Cancelled,
        Self::RuntimesDropped,
        Self::Flushed,
        Self::ClockStepped,
        Self::FailedOver,
    ];

    /// Its name in arguments and in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Baseline => "none",
            Self::WorkersStopped => "worker-stopped",
            Self::WorkersKilled => "worker-killed",
            Self::ServerStopped => "server-stopped",
            Self::ServerKilled => "server-killed",
            Self::ServerEmptied => "server-emptied",
            Self::SessionsEnded => "sessions-ended",
            Self::CutOff => "cut-off",
            Self::OneWay => "one-way",
            Self::Latency => "latency",
            Self::Reset => "reset",
            Self::ServerBusy => "server-busy",
            Self::Forgetful => "forgetful",
            Self::Flushed => "flushed",
            Self::Cancelled => "cancelled",
            Self::RuntimesDropped => "runtime-dropped",
            Self::ClockStepped => "clock-stepped",
            Self::FailedOver => "failed-over",
        }
    }

    /// Whether the lock server forgets locks that are held, or ends them early, so that two holders are to be
    /// expected and only a fence keeps them from harm.
    pub(super) fn loses_locks(self) -> bool {
        matches!(self, Self::ServerEmptied | Self::Flushed | Self::ClockStepped | Self::FailedOver)
    }

    /// Whether somebody who waits may stand in a queue after he is gone: killed, or let in by a server
    /// that had not answered for longer than he, or his clean-up, waited.
    pub(super) fn leaves_queues(self) -> bool {
        let silent = matches!(self, Self::ServerStopped | Self::ServerBusy | Self::CutOff);
        silent || matches!(self, Self::WorkersKilled | Self::FailedOver)
    }

    /// Whether holders write after their lease has ended, so that a fence must have refused some.
    pub(super) fn must_be_refused(self) -> bool {
        self == Self::WorkersStopped
    }
}
