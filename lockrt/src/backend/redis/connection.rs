//! One connection to the server, and how its death is noticed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use once_cell::sync::OnceCell;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, PushInfo, RedisError, RedisResult, Value};

use crate::backend::redis::scripts::{ACQUIRE, RELEASE, RENEW};
use crate::backend::redis::wakeups::{Listener, Wakeups};
use crate::clock::{Clock, Moment};

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

/// How every connection is made; its receiver of pushed messages is its own.
pub(super) fn settings() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        // The keeper bounds each call; the driver's own time-out would only guess.
        .set_response_timeout(None)
        .set_connection_timeout(Some(CONNECT))
        .set_pipeline_buffer_size(QUEUE)
}

/// A connection that has been greeted. It dies once and is then replaced by a new one.
#[derive(Debug)]
pub(super) struct Connection {
    /// Commands and pushed messages share it, so a wake-up cannot overtake the answer before it.
    driver: MultiplexedConnection,
    silence: Mutex<Silence>,
    wakeups: Arc<Wakeups>,
}

impl Connection {
    /// Connects and tells the server the scripts. Gives also its `INFO memory`, if it may be asked.
    pub(super) async fn open(
        client: &Client,
        settings: AsyncConnectionConfig,
    ) -> RedisResult<(Arc<Self>, Option<String>)> {
        let wakeups = Arc::new(Wakeups::default());
        let back = Arc::new(OnceCell::<Weak<Self>>::new());
        let settings = settings.set_push_sender(receiver(Arc::clone(&wakeups), Arc::clone(&back)));
        let driver = client.get_multiplexed_async_connection_with_config(&settings).await?;
        let connection = Arc::new(Self { driver, silence: Mutex::new(Silence::new()), wakeups });
        // Weak: the driver's task owns the receiver, and must end with the connection.
        let _ = back.set(Arc::downgrade(&connection));
        let memory = connection.set_up().await?;
        Ok((connection, memory))
    }

    /// Loads the scripts ahead of their first calls. A server that refuses will say so again then.
    async fn set_up(&self) -> RedisResult<Option<String>> {
        let mut pipeline = redis::pipe();
        pipeline.add_command(ACQUIRE.load()).add_command(RENEW.load()).add_command(RELEASE.load());
        pipeline.cmd("INFO").arg("memory").ignore_errors();
        let bounded = tokio::time::timeout(CONNECT, self.ask_all(&pipeline, SILENCE));
        let mut answers = match bounded.await {
            Ok(answers) => answers?,
            Err(_) => return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        };
        let memory = answers.pop().and_then(Result::ok);
        Ok(memory.and_then(|memory| redis::from_redis_value(memory).ok()))
    }

    /// One command, one round trip. Dropped unanswered, it ends a connection that has been silent
    /// for longer than `patience`.
    pub(super) async fn ask(&self, cmd: &Cmd, patience: Duration) -> RedisResult<Value> {
        let mut driver = self.driver.clone();
        self.watched(patience, cmd.query_async(&mut driver)).await
    }

    /// Several commands in one round trip, each with its own answer.
    pub(super) async fn ask_all(
        &self,
        pipeline: &Pipeline,
        patience: Duration,
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        let mut driver = self.driver.clone();
        self.watched(patience, pipeline.query_async(&mut driver)).await
    }

    /// Listens on `channel`, and sees to it that the server tells what is published there.
    pub(super) async fn listen(self: &Arc<Self>, channel: &str) -> RedisResult<Listener> {
        let (listener, idle) = self.wakeups.listen(channel);
        self.unsubscribe(idle);
        if !listener.subscribed {
            let mut driver = self.driver.clone();
            self.watched(SILENCE, driver.subscribe(channel)).await?;
        }
        Ok(listener)
    }

    /// In a task of its own, which lives as long as the round trip: nobody waits for it.
    fn unsubscribe(self: &Arc<Self>, channels: Vec<Vec<u8>>) {
        if channels.is_empty() {
            return;
        }
        let this = Arc::clone(self);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let mut driver = this.driver.clone();
                let _ = this.watched(SILENCE, driver.unsubscribe(channels)).await;
            });
        }
    }

    /// Gives the connection up; calls in progress may still be answered on it.
    pub(super) fn close(&self) {
        self.wakeups.close();
    }

    pub(super) fn is_usable(&self) -> bool {
        if self.silence().so_far(Clock::system().now()) >= SILENCE {
            self.close();
        }
        !self.wakeups.is_closed()
    }

    /// Notes whether and when `call` is answered.
    async fn watched<T>(
        &self,
        patience: Duration,
        call: impl Future<Output = RedisResult<T>>,
    ) -> RedisResult<T> {
        let waiting = Waiting::on(self, patience);
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
    wakeups: Arc<Wakeups>,
    back: Arc<OnceCell<Weak<Connection>>>,
) -> impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static {
    move |push| {
        let idle = wakeups.pushed(&push);
        if let Some(connection) = back.get().and_then(Weak::upgrade) {
            connection.unsubscribe(idle);
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
    patience: Duration,
    answered: bool,
}

impl<'a> Waiting<'a> {
    fn on(connection: &'a Connection, patience: Duration) -> Self {
        connection.silence().starts(Clock::system().now());
        Self { connection, patience, answered: false }
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
            if silence.so_far(now) >= self.patience {
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
