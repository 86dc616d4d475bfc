//! The backend before the suite of lockrt, as its author would run it.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a service that cannot be started fails the test")]

use std::sync::atomic::{AtomicU64, Ordering};

use lockrt::conformance::{Fault, Power, SLOWNESS, STEP, Service, Stored};
use lockrt_outside::{Doorman, Server};

/// A service of a test's own.
struct Desk(Server);

impl Desk {
    fn start() -> Self {
        static DESKS: AtomicU64 = AtomicU64::new(0);
        let number = DESKS.fetch_add(1, Ordering::Relaxed);
        let name = format!("lockrt-outside-{}-{number}", std::process::id());
        Self(Server::start(std::env::temp_dir().join(name)).unwrap())
    }
}

impl Service for Desk {
    type Client = Doorman;

    async fn client(&self) -> Doorman {
        Doorman::at(self.0.socket())
    }

    async fn stored(&self) -> Stored {
        Stored { per_key: self.0.held(), endless: 0, shared: 1 }
    }
}

impl Power for Desk {
    async fn inflict(&self, fault: Fault) {
        match fault {
            Fault::Down => self.0.crash(),
            Fault::Paused => self.0.pause(),
            Fault::Slow => self.0.slow_down(SLOWNESS),
            Fault::ReplyLost => self.0.lose_reply(),
            Fault::NoWakeUps => self.0.lose_wake_ups(),
            Fault::ClockAhead => self.0.step_clock(STEP),
            Fault::Forgetful | Fault::ClientAhead => unreachable!("stands under `cannot` below"),
        }
    }

    async fn heal(&self) {
        self.0.heal().unwrap();
    }
}

lockrt::conformance_tests!(
    Desk::start(),
    power = Desk::start(),
    can = [Down, Paused, Slow, ReplyLost, NoWakeUps, ClockAhead],
    // It keeps no scripts, and its clients look at no clock.
    cannot = [Forgetful, ClientAhead],
);
