//! One connection to the server, and how its death is noticed.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Error, Row, SimpleQueryMessage};

use crate::backend::postgres::failure;
use crate::backend::postgres::server::Server;
use crate::backend::postgres::turn::Turns;
use crate::backend::postgres::waiters::Waiters;
use crate::backend::silence::Silence;
use crate::clock::Clock;
use crate::error::BackendError;

/// How long an attempt to connect may take for each host of the URL, log-in included. The server starts a process
/// for it.
const CONNECT: Duration = Duration::from_secs(2);

/// How long calls may wait in all, without a single answer, before the connection counts as dead. As long
/// as the longest attempt of a lock.
pub(super) const SILENCE: Duration = Duration::from_secs(1);

/// A call takes long that is unanswered after this time, as one that waits for a row which somebody has locked.
pub(super) const LONG: Duration = Duration::from_millis(50);

/// How long the server lets a statement last.
const STATEMENT: Duration = Duration::from_secs(2);

/// The least that a connection is given to answer, however little time a lock has.
const LEAST_SILENCE: Duration = Duration::from_millis(250);

/// How long the calls for a lock of this ttl may wait in all before its connection counts as dead:
/// as long as an attempt for it, so that one of its renewals still finds a new connection.
pub(super) fn patience(ttl: Duration) -> Duration {
    (ttl / 3).clamp(LEAST_SILENCE, SILENCE)
}

/// A value that goes with a statement, and its type, which spares asking the server.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// A connection that has been greeted. It dies once and is then replaced by a new one.
#[derive(Debug)]
pub(super) struct Connection {
    client: Arc<Client>,
    turns: Turns,
    number: u64,
    silence: Mutex<Silence>,
    ended: Arc<watch::Sender<bool>>,
    listens: AtomicBool,
}

impl Connection {
    /// Connects, and starts the task that carries everything out, on the current runtime.
    pub(super) async fn open(
        server: &Server,
        pooled: bool,
        waiters: &Arc<Waiters>,
    ) -> Result<Arc<Self>, BackendError> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let hosts = u32::try_from(server.hosts()).unwrap_or(u32::MAX);
        let connected = tokio::time::timeout(CONNECT.saturating_mul(hosts), server.connect()).await;
        let (client, mut driver) =
            connected.map_err(|_| BackendError::not_applied("PostgreSQL has not let us in within 2 s"))??;
        let ended = Arc::new(watch::channel(false).0);
        let (waiters, tell_end) = (Arc::clone(waiters), Arc::clone(&ended));
        // It ends with the client, or with the server.
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| driver.poll_message(cx)).await {
                if let AsyncMessage::Notification(told) = message {
                    waiters.told(told.payload());
                }
            }
            tell_end.send_replace(true);
        });
        Ok(Arc::new(Self {
            client: Arc::new(client),
            turns: Turns::new(pooled),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            silence: Mutex::new(Silence::new()),
            ended,
            listens: AtomicBool::new(false),
        }))
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether a call would wait behind one that takes long, and how many calls wait for their answer, or for that to
    /// one that was given up.
    pub(super) fn load(&self) -> (bool, usize) {
        let (silence, now) = (self.silence(), Clock::system().now());
        let waiting = silence.waiting().max(usize::from(self.turns.are_taken()));
        // The server is at what nobody waits for any more for as long as it lets a statement last.
        let is_at_it = waiting > 0 || now.since(silence.since()) < STATEMENT;
        (is_at_it && silence.so_far(now) >= LONG, waiting)
    }

    /// One statement, one round trip, without a name: behind a pooler the next one may go to another
    /// server process. Dropped unanswered, it ends a connection that has been silent for longer than
    /// `patience`.
    pub(super) async fn ask(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
        patience: Duration,
    ) -> Result<Vec<Row>, BackendError> {
        self.answer(self.client.query_typed(statement, parameters), patience).await
    }

    /// Several statements without parameters, as one transaction, in one round trip.
    pub(super) async fn run(&self, statements: &str) -> Result<Vec<SimpleQueryMessage>, BackendError> {
        self.answer(self.client.simple_query(statements), SILENCE).await
    }

    async fn answer<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
        patience: Duration,
    ) -> Result<T, BackendError> {
        let waiting = Waiting::on(self, patience);
        let turn = self.turns.next(&self.client, &self.ended).await?;
        let answer = call.await;
        waiting.ended(answer.as_ref().err());
        match answer {
            Ok(answer) => {
                turn.answered();
                Ok(answer)
            }
            Err(error) => Err(failure::after_sending(&error)),
        }
    }

    /// Has releases told to the waiters from now on. Who finds that nobody has asked for it yet asks: waiting
    /// for another one to do it would be waiting for a caller that may not be polled any more.
    pub(super) async fn listen(&self) -> Result<(), Error> {
        if !self.listens.load(Ordering::Acquire) {
            let waiting = Waiting::on(self, SILENCE);
            let answer = self.client.batch_execute("LISTEN lockrt").await;
            waiting.ended(answer.as_ref().err());
            answer?;
            self.listens.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Gives the connection up; calls in progress may still be answered on it.
    pub(super) fn close(&self) {
        self.ended.send_replace(true);
    }

    /// Resolves when the connection has ended.
    pub(super) async fn ended(&self) {
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    pub(super) fn is_usable(&self) -> bool {
        if self.silence().so_far(Clock::system().now()) >= SILENCE || self.client.is_closed() {
            self.close();
        }
        !*self.ended.borrow()
    }

    fn silence(&self) -> MutexGuard<'_, Silence> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that waits for its answer; dropped when the call is.
struct Waiting<'a> {
    connection: &'a Connection,
    patience: Duration,
    answered: bool,
}

impl<'a> Waiting<'a> {
    fn on(connection: &'a Connection, patience: Duration) -> Self {
        connection.silence().starts(Clock::system().now());
        Self { connection, patience, answered: false }
    }

    fn ended(mut self, error: Option<&Error>) {
        match error {
            Some(error) if failure::ends_connection(error) => self.connection.close(),
            // Any other refusal is a sign of life.
            _ => self.answered = true,
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let now = Clock::system().now();
        let mut silence = self.connection.silence();
        if self.answered {
            silence.answered(now);
        } else {
            silence.abandoned(now);
            if silence.so_far(now) >= self.patience {
                self.connection.close();
            }
        }
    }
}
