//! One connection to the server, and how its death is noticed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use once_cell::sync::OnceCell;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, PushInfo, PushKind, RedisResult, Value};
use tokio::sync::watch;

use crate::backend::redis::failure;
use crate::backend::redis::names::Names;
use crate::backend::redis::places::{Places, Unwanted};
use crate::backend::redis::scripts::{self, ACQUIRE, RELEASE, RENEW};
use crate::backend::redis::server::{Driver, Server};
use crate::backend::redis::server_clock::{Estimate, ServerClock};
use crate::backend::silence::Silence;
use crate::clock::{Clock, Moment};
use crate::error::BackendError;

/// How long an attempt to connect may take, the name look-up and the greeting included.
const CONNECT: Duration = Duration::from_secs(1);

/// How long calls may wait in all, without a single answer, before the connection counts as dead.
///
/// A peer that vanished, or that does not read, gives no I/O error for minutes; all one sees is
/// that calls are dropped unanswered. As long as the longest attempt of a lock.
const SILENCE: Duration = Duration::from_secs(1);

/// The least that a connection is given to answer, however little time a lock has.
const LEAST_SILENCE: Duration = Duration::from_millis(250);

/// How long the calls for a lock of this TTL may wait in all before its connection counts as dead:
/// as long as an attempt for it, so that one of its renewals still finds a new connection.
pub(super) fn patience(ttl: Duration) -> Duration {
    (ttl / 3).clamp(LEAST_SILENCE, SILENCE)
}

/// How many calls may queue up before further ones wait their turn.
const QUEUE: usize = 1_024;

/// In whose runtime a connection lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// The keeper's: it hears what becomes of places in queues.
    Keeper,
    /// A caller's, which may have no timers.
    Caller,
}

impl Home {
    /// How its connections are made; their receivers of pushed messages are their own.
    pub(super) fn settings(self) -> AsyncConnectionConfig {
        AsyncConnectionConfig::new()
            // The keeper bounds each call; the driver's own time-out would only guess.
            .set_response_timeout(None)
            .set_connection_timeout((self == Self::Keeper).then_some(CONNECT))
            .set_pipeline_buffer_size(QUEUE)
    }
}

/// A connection that has been greeted. It dies once and is then replaced by a new one.
#[derive(Debug)]
pub(super) struct Connection {
    /// Commands and pushed messages share it, so a message cannot overtake the answer before it.
    driver: Driver,
    number: u64,
    silence: Mutex<Silence>,
    ended: Arc<watch::Sender<bool>>,
    /// Whether the server tells it what becomes of places in queues.
    hears: AtomicBool,
    /// The time there; of this server, so that another one is asked anew.
    clock: ServerClock,
    /// Whether the server knows `SET .. NX GET`, as far as one can tell.
    native: AtomicBool,
}

/// What a client listens for on its connections.
#[derive(Clone, Debug)]
pub(super) struct Ear {
    pub(super) names: Names,
    pub(super) places: Arc<Places>,
}

impl Connection {
    /// Connects, listens and tells the server the scripts. Gives also its `INFO memory`, if it may be
    /// asked.
    pub(super) async fn open(
        server: &Server,
        settings: AsyncConnectionConfig,
        ear: &Ear,
        home: Home,
    ) -> Result<(Arc<Self>, Option<String>), BackendError> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let ended = Arc::new(watch::channel(false).0);
        let back = Arc::new(OnceCell::<Weak<Self>>::new());
        let receiver = receiver(Arc::clone(&ear.places), Arc::clone(&ended), Arc::clone(&back));
        let settings = settings.set_push_sender(receiver);
        let driver = match home {
            Home::Caller => server.connect(&settings).await?,
            Home::Keeper => tokio::time::timeout(CONNECT, server.connect(&settings))
                .await
                .map_err(|_| server.late())??,
        };
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let silence = Mutex::new(Silence::new());
        let (hears, native) = (AtomicBool::new(false), AtomicBool::new(true));
        let clock = ServerClock::default();
        let connection = Arc::new(Self { driver, number, silence, ended, hears, clock, native });
        // Weak: the driver's task owns the receiver, and must end with the connection.
        let _ = back.set(Arc::downgrade(&connection));
        let memory = match home {
            // Nobody waits for it, and a peer that is silent is found out by keep-alive.
            Home::Caller => connection.prepare().await,
            Home::Keeper => tokio::time::timeout(CONNECT, connection.set_up(ear.names.channel()))
                .await
                .map_err(|_| failure::late())?,
        };
        Ok((connection, memory.map_err(|error| failure::before_sending(&error))?))
    }

    /// Listens and prepares.
    async fn set_up(&self, channel: &str) -> RedisResult<Option<String>> {
        let listening = async {
            let waiting = Waiting::on(self, SILENCE);
            let mut driver = self.driver.commands.clone();
            waiting.ended(driver.subscribe(channel).await)
        };
        let (listens, memory) = tokio::join!(listening, self.prepare());
        // This user may not listen, perhaps; then nobody calls its claims, and they look by themselves.
        self.hears.store(listens.is_ok(), Ordering::Release);
        memory
    }

    /// Asks for the time, and loads the scripts ahead of their first calls. A server that refuses will say so
    /// again then.
    async fn prepare(&self) -> RedisResult<Option<String>> {
        let mut pipeline = redis::pipe();
        pipeline.add_command(ACQUIRE.load()).add_command(RENEW.load()).add_command(RELEASE.load());
        pipeline.cmd("TIME").cmd("INFO").arg("memory");
        let mut answers = self.ask_together(&pipeline, SILENCE).await?;
        let memory = answers.pop();
        if let Some(time) = answers.pop() {
            self.told_time(&time);
        }
        Ok(memory.and_then(|memory| redis::from_redis_value(memory).ok()))
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn hears(&self) -> bool {
        self.hears.load(Ordering::Acquire)
    }

    /// The time at the server, if the lock may be taken by plain commands.
    pub(super) fn server_time(&self, now: Moment) -> Option<Estimate> {
        if self.native.load(Ordering::Relaxed) { self.clock.at(now) } else { None }
    }

    /// Takes in an answer to `TIME` that has just arrived.
    pub(super) fn told_time(&self, answer: &Value) {
        self.clock.told(answer, Clock::system().now());
    }

    /// The server is too old for an attempt by plain commands.
    pub(super) fn has_no_native_attempt(&self) {
        self.native.store(false, Ordering::Relaxed);
    }

    /// One command, one round trip. Dropped unanswered, it ends a connection that has been silent
    /// for longer than `patience`.
    pub(super) async fn ask(&self, cmd: &Cmd, patience: Duration) -> RedisResult<Value> {
        let waiting = Waiting::on(self, patience);
        let mut driver = self.driver.commands.clone();
        // As `query_async`, but for the box that it puts the call in.
        waiting.ended(driver.send_packed_command(cmd).await).and_then(Value::extract_error)
    }

    /// The same for several commands, whose refusals are among the answers.
    pub(super) async fn ask_together(
        &self,
        pipeline: &Pipeline,
        patience: Duration,
    ) -> RedisResult<Vec<Value>> {
        let waiting = Waiting::on(self, patience);
        let mut driver = self.driver.commands.clone();
        waiting.ended(driver.send_packed_commands(pipeline, 0, pipeline.len()).await)
    }

    /// Hands an offer on that nobody here waits for, in a task that lives as long as the round trip. If it fails the
    /// offer ends by itself.
    fn decline(self: &Arc<Self>, unwanted: &Unwanted) {
        let (this, decline) = (Arc::clone(self), scripts::decline(unwanted));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { this.ask(&decline, SILENCE).await });
        }
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
        if self.silence().so_far(Clock::system().now()) >= SILENCE {
            self.close();
        }
        !*self.ended.borrow()
    }

    fn silence(&self) -> MutexGuard<'_, Silence> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the driver hands pushed messages to; it runs inside the driver's task.
fn receiver(
    places: Arc<Places>,
    ended: Arc<watch::Sender<bool>>,
    back: Arc<OnceCell<Weak<Connection>>>,
) -> impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static {
    move |push| {
        match (push.kind, push.data.get(1)) {
            (PushKind::Disconnection, _) => drop(ended.send_replace(true)),
            (PushKind::Message, Some(Value::BulkString(message))) => {
                let unwanted = std::str::from_utf8(message).ok().and_then(|message| places.told(message));
                if let Some((unwanted, connection)) = unwanted.zip(back.get().and_then(Weak::upgrade)) {
                    connection.decline(&unwanted);
                }
            }
            _ => {}
        }
        Ok(())
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

    /// Notes how the call has ended, and when.
    fn ended<T>(mut self, result: RedisResult<T>) -> RedisResult<T> {
        match &result {
            // Any answer of the server is a sign of life, a refusal included.
            Err(error) if error.code().is_none() => self.connection.close(),
            _ => self.answered = true,
        }
        result
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
