//! One connection to the server, and how its death is noticed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use once_cell::sync::OnceCell;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, Pipeline, PushInfo, PushKind, RedisError, RedisResult, Value,
};
use tokio::sync::watch;

use crate::backend::redis::names::Names;
use crate::backend::redis::places::{Places, Unwanted};
use crate::backend::redis::scripts::{self, ACQUIRE, RELEASE, RENEW};
use crate::clock::{Clock, Moment};

/// How long an attempt to connect may take, the name look-up and the greeting included.
const CONNECT: Duration = Duration::from_secs(1);

/// How long calls may wait in all, without a single answer, before the connection counts as dead.
///
/// A peer that vanished, or that does not read, gives no I/O error for minutes; all one sees is
/// that calls are dropped unanswered. As long as the longest attempt of a lock.
const SILENCE: Duration = Duration::from_secs(1);

/// How many calls may queue up before further ones wait their turn.
const QUEUE: usize = 1_024;

/// A connection that has been greeted. It dies once and is then replaced by a new one.
#[derive(Debug)]
pub(super) struct Connection {
    /// Commands and pushed messages share it, so a message cannot overtake the answer before it.
    driver: MultiplexedConnection,
    number: u64,
    silence: Mutex<Silence>,
    ended: Arc<watch::Sender<bool>>,
    /// Whether the server tells it what becomes of places in queues.
    hears: AtomicBool,
}

/// What a client listens for on its connections.
#[derive(Debug)]
pub(super) struct Ear {
    pub(super) names: Names,
    pub(super) places: Arc<Places>,
}

impl Connection {
    /// Connects, listens and tells the server the scripts. Gives also its `INFO memory`, if it may be
    /// asked.
    pub(super) async fn open(client: &Client, ear: &Ear) -> RedisResult<(Arc<Self>, Option<String>)> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let ended = Arc::new(watch::channel(false).0);
        let back = Arc::new(OnceCell::<Weak<Self>>::new());
        let config = AsyncConnectionConfig::new()
            // The keeper bounds each call; the driver's own time-out would only guess.
            .set_response_timeout(None)
            .set_connection_timeout(Some(CONNECT))
            .set_pipeline_buffer_size(QUEUE)
            .set_push_sender(receiver(Arc::clone(&ear.places), Arc::clone(&ended), Arc::clone(&back)));
        let driver = client.get_multiplexed_async_connection_with_config(&config).await?;
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let (silence, hears) = (Mutex::new(Silence::new()), AtomicBool::new(false));
        let connection = Arc::new(Self { driver, number, silence, ended, hears });
        // Weak: the driver's task owns the receiver, and must end with the connection.
        let _ = back.set(Arc::downgrade(&connection));
        let memory = tokio::time::timeout(CONNECT, connection.set_up(&ear.names.channel())).await;
        let memory = memory.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
        Ok((connection, memory))
    }

    /// Listens, and loads the scripts ahead of their first calls. A server that refuses will say so again then.
    async fn set_up(&self, channel: &str) -> RedisResult<Option<String>> {
        let mut pipeline = redis::pipe();
        pipeline.add_command(ACQUIRE.load()).add_command(RENEW.load()).add_command(RELEASE.load());
        pipeline.cmd("INFO").arg("memory").ignore_errors();
        let mut driver = self.driver.clone();
        let listening = self.watched(driver.subscribe(channel));
        let (listens, answers) = tokio::join!(listening, self.ask_all(&pipeline));
        // This user may not listen, perhaps; then nobody calls its claims, and they look by themselves.
        self.hears.store(listens.is_ok(), Ordering::Release);
        let memory = answers?.pop().and_then(Result::ok);
        Ok(memory.and_then(|memory| redis::from_redis_value(memory).ok()))
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn hears(&self) -> bool {
        self.hears.load(Ordering::Acquire)
    }

    /// One command, one round trip.
    pub(super) async fn ask(&self, cmd: &Cmd) -> RedisResult<Value> {
        let mut driver = self.driver.clone();
        self.watched(cmd.query_async(&mut driver)).await
    }

    /// Several commands in one round trip, each with its own answer.
    pub(super) async fn ask_all(&self, pipeline: &Pipeline) -> RedisResult<Vec<RedisResult<Value>>> {
        let mut driver = self.driver.clone();
        self.watched(pipeline.query_async(&mut driver)).await
    }

    /// Hands an offer on that nobody here waits for, in a task that lives as long as the round trip. If it fails the
    /// offer ends by itself.
    fn decline(self: &Arc<Self>, unwanted: &Unwanted) {
        let (this, decline) = (Arc::clone(self), scripts::decline(unwanted));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { this.ask(&decline).await });
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

    /// Notes whether and when `call` is answered.
    async fn watched<T>(&self, call: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
        let waiting = Waiting::on(self);
        let answer = call.await;
        waiting.ended(answer.as_ref().err());
        answer
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

/// How long calls have waited since the last answer, not counting when none was waiting.
#[derive(Debug)]
struct Silence {
    waiting: usize,
    since: Moment,
    before: Duration,
}

impl Silence {
    fn new() -> Self {
        Self { waiting: 0, since: Moment::from_nanos(0), before: Duration::ZERO }
    }

    fn so_far(&self, now: Moment) -> Duration {
        if self.waiting == 0 { self.before } else { self.before + now.since(self.since) }
    }

    fn starts(&mut self, now: Moment) {
        if self.waiting == 0 {
            self.since = now;
        }
        self.waiting += 1;
    }

    fn answered(&mut self, now: Moment) {
        self.waiting -= 1;
        self.since = now;
        self.before = Duration::ZERO;
    }

    fn abandoned(&mut self, now: Moment) {
        self.before = self.so_far(now);
        self.since = now;
        self.waiting -= 1;
    }
}

/// A call that waits for its answer; dropped when the call is.
struct Waiting<'a> {
    connection: &'a Connection,
    answered: bool,
}

impl<'a> Waiting<'a> {
    fn on(connection: &'a Connection) -> Self {
        connection.silence().starts(Clock::system().now());
        Self { connection, answered: false }
    }

    fn ended(mut self, error: Option<&RedisError>) {
        match error {
            // Any answer of the server is a sign of life, a refusal included.
            Some(error) if error.code().is_none() => self.connection.close(),
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
            if silence.so_far(now) >= SILENCE {
                self.connection.close();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    fn heard(silence: &Silence, at: u64) -> u128 {
        silence.so_far(ms(at)).as_millis()
    }

    #[test]
    fn silence_adds_up_over_calls_that_are_given_up() {
        let mut silence = Silence::new();
        silence.starts(ms(0));
        silence.abandoned(ms(300));
        silence.starts(ms(1_000));
        assert_eq!(heard(&silence, 1_200), 500);
        silence.abandoned(ms(1_400));
        assert_eq!(heard(&silence, 1_400), 700);
    }

    #[test]
    fn silence_is_not_counted_while_nobody_waits() {
        let mut silence = Silence::new();
        silence.starts(ms(0));
        silence.abandoned(ms(300));
        assert_eq!(heard(&silence, 3_600_000), 300);
    }

    #[test]
    fn one_answer_ends_the_silence_of_all_calls() {
        let mut silence = Silence::new();
        silence.starts(ms(0));
        silence.starts(ms(100));
        silence.answered(ms(900));
        assert_eq!(heard(&silence, 900), 0);
        // The other call has been silent since that answer only.
        assert_eq!(heard(&silence, 1_500), 600);
        silence.abandoned(ms(1_600));
        assert_eq!(heard(&silence, 9_000), 700);
    }
}
