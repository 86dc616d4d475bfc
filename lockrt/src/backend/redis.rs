//! One Redis server.
//!
//! A lock is a plain string, as `SET key value NX PX ttl` writes it: locks that other programs keep
//! under the same key exclude ours, and ours exclude them. Beside the locks there is one key per
//! cluster slot, `<prefix>{<number>}:fencing`, a sorted set whose one member `last` has the last fencing
//! token as its score; it has no expiry, so a busy server holds at most 16,384 of them, 2 MB in all. A release publishes an empty message on
//! the channel `<lock key>:freed`.

mod connection;
pub(crate) mod failure;
mod link;
mod scripts;
mod slots;
mod url;
mod wakeups;

use std::fmt;
use std::sync::Arc;

use redis::{Pipeline, RedisError, RedisResult, Value};

use crate::backend::contract::Backend;
use crate::backoff::{Backoff, spread};
use crate::claim::{Attempt, Capabilities, Claim, FenceStrength, Released, Renewed};
use crate::clock::Clock;
use crate::error::{BackendError, SetupError};
use crate::masking::masked;
use connection::Connection;
use link::Link;
use scripts::{LOCKS_PER_CALL, Script};

const CAPABILITIES: Capabilities =
    Capabilities::new("redis").fences(FenceStrength::Durable).wakes_on_release();

/// Renewal calls that share a round trip. Other commands pass between two round trips, so an
/// acquire waits for at most this many calls, about 2 ms.
const CALLS_PER_ROUND: usize = 8;

/// One Redis server, version 6.2 or newer, as lock service.
///
/// It connects at first use and again after a failure. Servers that hold locks should not evict
/// keys: `maxmemory-policy noeviction`.
pub struct Redis {
    link: Arc<Link>,
    fence_prefix: String,
    url: String,
}

impl Redis {
    /// The server at `url`: `redis://[user[:password]@]host[:port][/db]`, or `unix:///path` for a
    /// local socket. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`SetupError::UnknownScheme`], or [`SetupError::InvalidUrl`] with what is wrong with it. TLS
    /// (`rediss://`) is not supported yet.
    pub fn from_url(url: &str) -> Result<Self, SetupError> {
        let link = Arc::new(Link::new(url::client(url)?, |_| {}));
        Ok(Self { link, fence_prefix: "lockrt:".to_owned(), url: masked(url) })
    }

    /// Sets what stands before the names of the keys with the fencing tokens, `lockrt:` by default.
    ///
    /// Clients that share locks must share this: two prefixes are two sequences of tokens. It need
    /// not be the prefix of the locks, since a token may rise for several of them.
    ///
    /// # Errors
    ///
    /// [`SetupError::InvalidPrefix`] for one with braces, which would move the key away from its
    /// cluster slot.
    pub fn fence_prefix(mut self, prefix: &str) -> Result<Self, SetupError> {
        if prefix.contains(['{', '}']) {
            let reason = "braces choose the cluster slot; leave them out";
            return Err(SetupError::InvalidPrefix { prefix: prefix.to_owned(), reason });
        }
        prefix.clone_into(&mut self.fence_prefix);
        Ok(self)
    }

    /// Sets who is told of a server that is set up badly for locks, once per connection.
    #[must_use]
    pub fn on_warning(mut self, warn: fn(&str)) -> Self {
        if let Some(link) = Arc::get_mut(&mut self.link) {
            link.warn_by(warn);
        }
        self
    }

    /// The key with the last token of the slot of `lock`. One per lock would stay for ever.
    fn fence_of(&self, lock: &str) -> String {
        format!("{}{{{}}}:fencing", self.fence_prefix, slots::number_in(slots::slot_of(lock)))
    }

    /// One call of `script`, which is loaded if the server has forgotten it.
    async fn call(&self, script: &Script, cmd: &redis::Cmd) -> Result<Value, BackendError> {
        let connection = self.link.connection().await?;
        let mut answer = connection.ask(cmd).await;
        if is_no_script(&answer) {
            self.load(&connection, script).await?;
            answer = connection.ask(cmd).await;
        }
        answer.map_err(|error| self.link.failed(&connection, &error))
    }

    async fn load(&self, connection: &Connection, script: &Script) -> Result<(), BackendError> {
        let loaded = connection.ask(&script.load()).await;
        loaded.map(drop).map_err(|error| failure::before_sending(&error))
    }

    /// Renews claims of usable TTLs, as many as fit into one round trip.
    async fn renew_round(&self, claims: &[&Claim]) -> Vec<Renewed> {
        let unknown =
            |failure: BackendError, claims: &[&Claim]| vec![Renewed::Unknown(failure); claims.len()];
        let connection = match self.link.connection().await {
            Ok(connection) => connection,
            Err(failure) => return unknown(failure, claims),
        };
        let mut answers = match connection.ask_all(&renewals(claims)).await {
            Ok(answers) => answers,
            Err(error) => return unknown(self.link.failed(&connection, &error), claims),
        };
        // A renewal is harmless to repeat, so one forgotten script repeats the round.
        if answers.iter().any(is_no_script) {
            if let Err(failure) = self.load(&connection, &scripts::RENEW).await {
                return unknown(failure, claims);
            }
            answers = match connection.ask_all(&renewals(claims)).await {
                Ok(answers) => answers,
                Err(error) => return unknown(self.link.failed(&connection, &error), claims),
            };
        }
        let calls = claims.chunks(LOCKS_PER_CALL).zip(answers);
        calls
            .flat_map(|(claims, answer)| match answer {
                Ok(answer) => scripts::renewed(&answer, claims.len()),
                Err(error) => unknown(self.link.failed(&connection, &error), claims),
            })
            .collect()
    }

    /// Waits on one connection until the key of `claim` is free or a release of it is told.
    async fn freed_on(&self, connection: &Arc<Connection>, claim: &Claim) -> Result<(), Ended> {
        let lock = claim.key().as_str();
        let mut listener = connection.listen(&wakeups::channel_of(lock)).await?;
        // A release before the subscription was told to nobody, one after this answer will be heard.
        if connection.ask(redis::cmd("EXISTS").arg(lock)).await? == Value::Int(0) {
            return Ok(());
        }
        listener.told.changed().await.map_err(|_| Ended::Topic)
    }
}

/// Why waiting on a connection ended without a wake-up.
enum Ended {
    /// The connection broke, or the channel was unsubscribed.
    Topic,
    Failed(RedisError),
}

impl From<RedisError> for Ended {
    fn from(error: RedisError) -> Self {
        Self::Failed(error)
    }
}

fn is_no_script(answer: &RedisResult<Value>) -> bool {
    answer.as_ref().err().is_some_and(failure::is_no_script)
}

fn renewals(claims: &[&Claim]) -> Pipeline {
    let mut pipeline = redis::pipe();
    for claims in claims.chunks(LOCKS_PER_CALL) {
        pipeline.add_command(scripts::renew(claims));
    }
    pipeline.ignore_errors();
    pipeline
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("url", &self.url)
            .field("fence_prefix", &self.fence_prefix)
            .finish_non_exhaustive()
    }
}

impl Backend for Redis {
    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt, BackendError> {
        let cmd = scripts::acquire(claim, &self.fence_of(claim.key().as_str()))?;
        scripts::acquired(&self.call(&scripts::ACQUIRE, &cmd).await?)
    }

    async fn renew(&self, claims: &[&Claim]) -> Vec<Renewed> {
        let mut answers = vec![Renewed::Unknown(failure::unusable_ttl()); claims.len()];
        let usable = claims.iter().copied().enumerate();
        let usable: Vec<_> = usable.filter(|(_, claim)| scripts::usable_ttl_ms(claim).is_ok()).collect();
        for round in usable.chunks(LOCKS_PER_CALL * CALLS_PER_ROUND) {
            let claims: Vec<&Claim> = round.iter().map(|(_, claim)| *claim).collect();
            for ((place, _), answer) in round.iter().zip(self.renew_round(&claims).await) {
                answers[*place] = answer;
            }
        }
        answers
    }

    async fn release(&self, claim: &Claim) -> Result<Released, BackendError> {
        scripts::released(&self.call(&scripts::RELEASE, &scripts::release(claim)).await?)
    }

    async fn freed(&self, claim: &Claim) {
        let mut pauses = Backoff::unanswered();
        loop {
            if let Ok(connection) = self.link.connection().await {
                match self.freed_on(&connection, claim).await {
                    Ok(()) => return,
                    // Perhaps this user may not subscribe. Waiters poll anyway.
                    Err(Ended::Failed(error)) if failure::after_sending(&error).is_permanent() => {
                        return std::future::pending().await;
                    }
                    Err(_) => {}
                }
            }
            let now = Clock::system().now();
            tokio::time::sleep(spread(pauses.pause(), now.as_nanos())).await;
        }
    }
}
