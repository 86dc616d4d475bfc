//! A lock service inside the test, on tokio's clock, over which the test has all power.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockrt::conformance::{Fault, Power, STEP, Service, Stored};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::client::Client;
use super::flaw::{Flaw, Kind};
use super::state::{Call, Micros, State, micros};

/// Some day in 2027.
const MORNING: Micros = 1_800_000_000_000_000;

/// One lock service. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Model(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    flaw: Option<Flaw>,
    state: Mutex<State>,
    weather: watch::Sender<Weather>,
    releases: watch::Sender<u64>,
    sessions: AtomicU64,
    start: Instant,
}

/// What has been done to the service.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// A bit for each fault.
    faults: u8,
    pub(crate) restarts: u64,
}

impl Weather {
    pub(crate) fn is(self, fault: Fault) -> bool {
        self.faults & (1 << fault as u8) != 0
    }

    fn turn(&mut self, fault: Fault, on: bool) {
        self.faults = self.faults & !(1 << fault as u8) | u8::from(on) << fault as u8;
        self.restarts += u64::from(on && fault == Fault::Down);
    }
}

impl Model {
    pub(crate) fn start(kind: Kind, flaw: Option<Flaw>) -> Self {
        Self(Arc::new(Inner {
            kind,
            flaw,
            state: Mutex::new(State::new(kind, flaw)),
            weather: watch::Sender::default(),
            releases: watch::Sender::default(),
            sessions: AtomicU64::new(1),
            start: Instant::now(),
        }))
    }

    pub(crate) fn kind(&self) -> Kind {
        self.0.kind
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.0.flaw == Some(flaw)
    }

    pub(crate) fn weather(&self) -> Weather {
        *self.0.weather.borrow()
    }

    pub(crate) fn turn(&self, fault: Fault, on: bool) {
        self.0.weather.send_modify(|weather| weather.turn(fault, on));
    }

    /// Waits while the service is paused.
    pub(crate) async fn resumed(&self) {
        if !self.weather().is(Fault::Paused) {
            return;
        }
        let mut weather = self.0.weather.subscribe();
        let _ = weather.wait_for(|weather| !weather.is(Fault::Paused)).await;
    }

    pub(crate) fn call(&self, session: u64) -> Call {
        let (weather, elapsed) = (self.weather(), MORNING + micros(self.0.start.elapsed()));
        let on = |ahead: bool| elapsed + if ahead { micros(STEP) } else { 0 };
        Call {
            session,
            now: on(weather.is(Fault::ClockAhead)),
            client_now: on(weather.is(Fault::ClientAhead)),
        }
    }

    pub(crate) fn now(&self) -> Micros {
        self.call(0).now
    }

    /// Tells whoever listens that some key may be free.
    pub(crate) fn tell(&self) {
        if !self.weather().is(Fault::NoWakeUps) {
            self.0.releases.send_modify(|count| *count += 1);
        }
    }

    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        self.0.releases.subscribe()
    }
}

impl Service for Model {
    type Client = Client;

    async fn client(&self) -> Client {
        Client::new(self.clone(), self.0.sessions.fetch_add(1, Ordering::Relaxed))
    }

    async fn stored(&self) -> Stored {
        let now = self.now();
        self.state().stored(now)
    }
}

impl Power for Model {
    async fn inflict(&self, fault: Fault) {
        if fault == Fault::Down {
            self.state().restart();
        }
        self.turn(fault, true);
    }

    async fn heal(&self) {
        if self.weather().is(Fault::Down) {
            // No service starts in no time, so its clock is later than before.
            sleep(Duration::from_millis(100)).await;
        }
        for fault in Fault::ALL {
            self.turn(fault, false);
        }
    }
}
