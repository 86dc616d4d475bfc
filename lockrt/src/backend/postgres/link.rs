//! The connections in use, their replacement, and pauses between attempts to connect.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::backend::postgres::connection::{Connection, LONG, SILENCE};
use crate::backend::postgres::failure;
use crate::backend::postgres::server::Server;
use crate::backend::postgres::waiters::Waiters;
use crate::backoff::{Backoff, spread};
use crate::clock::{Clock, Moment};
use crate::error::BackendError;

/// After this long without a failure the pauses start short again.
const CALM: Duration = Duration::from_secs(5);

type Opened = Result<Arc<Connection>, BackendError>;

/// The way to the server.
///
/// A server process carries out one statement after the other, and each commit waits for a disk. So
/// there are several connections; a further one is opened when all others are busy.
pub(super) struct Link {
    server: Server,
    pooled: bool,
    /// Which lane is next to be opened for a call that finds all others busy.
    spread: AtomicUsize,
    pub(super) waiters: Arc<Waiters>,
    /// Never empty. The first one listens.
    lanes: Box<[Mutex<Lane>]>,
}

/// The place of one connection. At most one attempt to connect is under way in it, whoever asks.
struct Lane {
    phase: Phase,
    failures: Backoff,
    last_failure: Moment,
}

enum Phase {
    /// Never connected.
    Idle,
    /// A task connects. Its sender is dropped with it, also when its runtime ends.
    Opening(watch::Receiver<Option<Opened>>),
    Open(Arc<Connection>),
    /// Until then every call gets this failure again, so that no number of callers makes a storm.
    Failed(Moment, BackendError),
}

impl Link {
    pub(super) fn new(server: Server, pooled: bool, connections: usize) -> Self {
        let lanes = (0..connections.max(1)).map(|_| Mutex::new(Lane::new()));
        Self { server, pooled, spread: AtomicUsize::new(0), waiters: Arc::default(), lanes: lanes.collect() }
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// A connection that nobody waits on, or the one where a call waits least. Opens the first one if there is none, and
    /// further ones when all that are open are busy: callers spread over those that are being opened, since who shares one
    /// waits for what is slow there.
    ///
    /// # Cancellation
    ///
    /// Does not stop the attempt to connect, which would else never come to an end for callers with
    /// little time.
    pub(super) async fn connection(self: &Arc<Self>) -> Opened {
        let least = match self.least_busy() {
            Some(least) => least,
            // Others may have waited for it, too.
            None => self.first().await?,
        };
        let (takes_long, waiting) = least.load();
        let closed: Vec<usize> = self.lanes().filter(|lane| self.open_connection(*lane).is_none()).collect();
        if closed.is_empty() || (!takes_long && waiting == 0) {
            return Ok(least);
        }
        let lane = closed[self.spread.fetch_add(1, Ordering::Relaxed) % closed.len()];
        let within = if takes_long { SILENCE } else { LONG };
        let sooner = async {
            loop {
                tokio::time::sleep(LONG).await;
                // What took long is answered by now, and to connect may take longer still.
                if let Some(free) = self.least_busy().filter(|open| !open.load().0) {
                    return free;
                }
            }
        };
        let connection = async {
            tokio::select! {
                biased;
                opened = self.opened(lane) => opened.ok(),
                free = sooner => Some(free),
            }
        };
        Ok(tokio::time::timeout(within, connection).await.ok().flatten().unwrap_or(least))
    }

    fn least_busy(&self) -> Option<Arc<Connection>> {
        self.lanes().filter_map(|lane| self.open_connection(lane)).min_by_key(|open| open.load())
    }

    fn lanes(&self) -> Range<usize> {
        0..self.lanes.len()
    }

    /// The connection that listens, or would if it were asked to.
    pub(super) async fn first(self: &Arc<Self>) -> Opened {
        self.opened(0).await
    }

    /// The connection of a lane, once it is open.
    async fn opened(self: &Arc<Self>, lane: usize) -> Opened {
        let mut opening = match self.enter(lane) {
            Entered::Open(connection) => return Ok(connection),
            Entered::Failed(failure) => return Err(failure),
            Entered::Opening(opening) => opening,
        };
        match opening.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(opened)) => opened.clone(),
            _ => Err(BackendError::not_applied("the runtime that was connecting to PostgreSQL has ended")),
        }
    }

    /// The connection that listens, once it does.
    pub(super) async fn listening(self: &Arc<Self>) -> Opened {
        let connection = self.first().await?;
        match connection.listen().await {
            Ok(()) => Ok(connection),
            Err(error) => Err(failure::after_sending(&error)),
        }
    }

    fn open_connection(&self, lane: usize) -> Option<Arc<Connection>> {
        match &self.lane(lane).phase {
            Phase::Open(connection) if connection.is_usable() => Some(Arc::clone(connection)),
            _ => None,
        }
    }

    /// What is to be had at a lane by now; begins to connect if that is due.
    fn enter(self: &Arc<Self>, number: usize) -> Entered {
        let mut lane = self.lane(number);
        match &lane.phase {
            Phase::Open(connection) if connection.is_usable() => Entered::Open(Arc::clone(connection)),
            Phase::Failed(until, failure) if Clock::system().now() < *until => {
                Entered::Failed(failure.clone())
            }
            Phase::Opening(opening) if opening.has_changed().is_ok() => Entered::Opening(opening.clone()),
            _ => match self.start_opening(number) {
                Ok(opening) => {
                    lane.phase = Phase::Opening(opening.clone());
                    Entered::Opening(opening)
                }
                Err(failure) => Entered::Failed(failure),
            },
        }
    }

    fn start_opening(
        self: &Arc<Self>,
        number: usize,
    ) -> Result<watch::Receiver<Option<Opened>>, BackendError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| {
            BackendError::not_applied("the PostgreSQL backend runs on a tokio runtime").permanent()
        })?;
        let (sender, receiver) = watch::channel(None);
        let link = Arc::clone(self);
        runtime.spawn(async move {
            let opened = Connection::open(&link.server, link.pooled, &link.waiters).await;
            let mut lane = link.lane(number);
            match &opened {
                Ok(connection) => lane.phase = Phase::Open(Arc::clone(connection)),
                Err(failure) => lane.fail(failure.clone()),
            }
            drop(lane);
            sender.send_replace(Some(opened));
        });
        Ok(receiver)
    }

    fn lane(&self, number: usize) -> MutexGuard<'_, Lane> {
        self.lanes[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Entered {
    Open(Arc<Connection>),
    Opening(watch::Receiver<Option<Opened>>),
    Failed(BackendError),
}

impl Lane {
    fn new() -> Self {
        Self { phase: Phase::Idle, failures: Backoff::unanswered(), last_failure: Moment::from_nanos(0) }
    }

    fn fail(&mut self, failure: BackendError) {
        let now = Clock::system().now();
        if now.since(self.last_failure) > CALM {
            self.failures = Backoff::unanswered();
        }
        self.last_failure = now;
        self.phase = Phase::Failed(now + spread(self.failures.pause(), now.as_nanos()), failure);
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("connections", &self.lanes.len()).finish_non_exhaustive()
    }
}
