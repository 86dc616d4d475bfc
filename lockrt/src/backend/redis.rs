//! One Redis server.
//!
//! # Keys
//!
//! | key | value | expiry |
//! |---|---|---|
//! | the lock | `<label>#<attempt>#<nonce>` of its owner; a `?` behind it while it is offered | the ttl, or that of the offer |
//! | `{<lock>}:queue` | sorted set of those who wait, `<offer ms>\|<channel>\|<owner>`, in their order | 4 s after the last of them should have looked again |
//! | `<prefix>{<number>}:fencing` | sorted set whose member `last` has the last fencing token of a cluster slot | none; at most 16,384 of them, 2 MB |
//!
//! A lock is a plain string, as `SET key value NX PX ttl` writes it: locks that other programs keep
//! under the same key exclude ours, and ours exclude them.
//!
//! # Queue and hand-off
//!
//! A claim that waits takes a place in the queue with its attempt. Who releases offers the lock to the
//! first in the queue: the script writes that owner and a `?`, for 200 ms at most, and tells its
//! client. That takes it by an ordinary attempt, for its whole ttl and with a new token. Nobody else
//! can come first, and nobody asks meanwhile.
//!
//! Messages go to the channel of a client, `<prefix>waiter:<number>`:
//!
//! | message | says |
//! |---|---|
//! | `offer <ms> <owner> <lock>` | the lock is yours if you take it soon |
//! | `standby <ms> <owner>` | it was offered to the one before you; look when that has ended |
//!
//! A message is a hint. One that nobody hears costs the next in the queue the time of an offer; an
//! offeree and its next one that both died cost those behind them a lease. A client that has lost its
//! connection listens first, then all its waiters look. Where a user may not listen or publish, and
//! behind holders that do not release as we do (other programs, keys without an expiry), waiters look
//! every 200 ms.

mod connection;
mod contended;
mod direct;
pub(crate) mod failure;
mod link;
mod names;
mod native;
mod places;
mod scripts;
#[cfg(feature = "redis-tls")]
mod secured;
mod server;
mod server_clock;
mod slots;
mod url;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, RedisResult, Value};

use crate::backend::contract::Backend;
use crate::backoff::{Backoff, spread};
use crate::claim::{Attempt, Capabilities, Claim, FenceStrength, Released, Renewed};
use crate::clock::Clock;
use crate::error::{BackendError, Outcome, SetupError};
use crate::masking::masked;
use connection::{Connection, Ear, patience};
use contended::Contended;
use direct::Direct;
use link::Link;
use names::Names;
use places::Place;
use scripts::{Answer, LOCKS_PER_CALL, Script};
use slots::slot_of;

const CAPABILITIES: Capabilities =
    Capabilities::new("redis").fences(FenceStrength::Durable).wakes_on_release().queues_fairly();

/// How often a waiting claim looks at a key whose holder will not call it, a quarter more or less.
const LOOK: Duration = Duration::from_millis(200);

/// Renewal calls that share a round trip. Other commands pass between two round trips, so an
/// acquire waits for at most this many calls, about 1 ms.
const CALLS_PER_ROUND: usize = 8;

/// One Redis server, version 6.2 or newer, as lock service.
///
/// It connects at first use and again after a failure. Servers that hold locks should not evict
/// keys: `maxmemory-policy noeviction`.
pub struct Redis {
    link: Arc<Link>,
    direct: Direct,
    contended: Contended,
    url: String,
}

impl Redis {
    /// The server at `url`: `redis://[user[:password]@]host[:port][/db]`, or `unix:///path` for a
    /// local socket. Nothing is sent yet.
    ///
    /// With feature `redis-tls`, `rediss://` is TLS, the server's certificate and host verified. It goes by the authorities
    /// that the system trusts, or by those in the file of `?sslrootcert=<path>`, which is read here.
    ///
    /// # Errors
    ///
    /// [`SetupError::UnknownScheme`], or [`SetupError::InvalidUrl`] with what is wrong with it.
    /// [`SetupError::MissingFeature`] for TLS without that feature. [`SetupError::System`] if the system gives no random numbers.
    pub fn from_url(url: &str) -> Result<Self, SetupError> {
        let client = getrandom::u64()
            .map_err(|error| SetupError::System { what: "random numbers", reason: error.to_string() })?;
        let ear = Ear { names: Names::new("lockrt:", client), places: Arc::default() };
        let link = Arc::new(Link::new(url::server(url)?, ear));
        Ok(Self {
            link,
            direct: Direct::new(cfg!(panic = "unwind")),
            contended: Contended::new(),
            url: masked(url),
        })
    }

    /// Sets what stands before the names of the keys with the fencing tokens, and of the channels on
    /// which waiting clients listen, `lockrt:` by default.
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
        if let Some(link) = Arc::get_mut(&mut self.link) {
            link.name_by(link.names().with_prefix(prefix));
        }
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

    /// Sets whether runtimes from which locks are taken get a connection of their own, which spares an
    /// uncontended lock most of its changes of threads. By default they do where panics unwind.
    ///
    /// Say `false` if locks are taken on runtimes that were built without `enable_io`. Tokio offers no way
    /// to ask, and the one attempt to connect there ends in a panic. That is caught, and locks work on, but
    /// the panic hook hears of it, once per runtime. Where panics abort nothing can be caught: say `true`
    /// there only if every such runtime has I/O.
    #[must_use]
    pub fn connect_callers(mut self, connect: bool) -> Self {
        self.direct = Direct::new(connect);
        self
    }

    /// One call of `script` for a lock of this TTL. The script is loaded if the server has forgotten it.
    async fn call(&self, script: &Script, cmd: &redis::Cmd, ttl: Duration) -> Result<Value, BackendError> {
        self.call_on(&*self.connection().await?, script, cmd, ttl).await
    }

    /// The connection for a call that leaves no place in a queue.
    async fn connection(&self) -> Result<Arc<Connection>, BackendError> {
        match self.direct.connection(self.link.server(), self.link.ear()) {
            Some(connection) => Ok(connection),
            None => self.link.connection().await,
        }
    }

    async fn call_on(
        &self,
        connection: &Connection,
        script: &Script,
        cmd: &redis::Cmd,
        ttl: Duration,
    ) -> Result<Value, BackendError> {
        let (mut load, mut loaded) = (None, false);
        // One place that waits, for whichever answer: the driver's call is large, and each place has room for one.
        loop {
            let answer = connection.ask(load.as_ref().unwrap_or(cmd), patience(ttl)).await;
            match answer {
                Ok(_) if load.take().is_some() => loaded = true,
                Err(error) if load.is_some() => return Err(failure::before_sending(&error)),
                Err(error) if !loaded && failure::is_no_script(&error) => load = Some(script.load()),
                answer => return answer.map_err(|error| self.link.failed(connection, &error)),
            }
        }
    }

    /// Renews claims of usable TTLs, as many as fit into one round trip.
    async fn renew_round(&self, claims: &[&Claim]) -> Vec<Renewed> {
        let unknown =
            |failure: BackendError, claims: &[&Claim]| vec![Renewed::Unknown(failure); claims.len()];
        let connection = match self.link.connection().await {
            Ok(connection) => connection,
            Err(failure) => return unknown(failure, claims),
        };
        let shortest = claims.iter().map(|claim| claim.ttl()).min().unwrap_or_default();
        let (renewals, mut load) = (renewals(claims), None);
        let mut loaded = false;
        let answers = loop {
            let pipeline = load.as_ref().unwrap_or(&renewals);
            let answers = match connection.ask_together(pipeline, patience(shortest)).await {
                Ok(answers) => answers.into_iter().map(Value::extract_error).collect::<Vec<_>>(),
                Err(error) if load.is_some() => return unknown(failure::before_sending(&error), claims),
                Err(error) => return unknown(self.link.failed(&connection, &error), claims),
            };
            if load.take().is_some() {
                if let Some(Err(error)) = answers.first() {
                    return unknown(failure::before_sending(error), claims);
                }
                loaded = true;
            } else if !loaded && answers.iter().any(is_no_script) {
                // A renewal is harmless to repeat, so one forgotten script repeats the round.
                load = Some(loading(&scripts::RENEW));
            } else {
                break answers;
            }
        };
        let calls = claims.chunks(LOCKS_PER_CALL).zip(answers);
        calls
            .flat_map(|(claims, answer)| match answer {
                Ok(answer) => scripts::renewed(&answer, claims.len()),
                Err(error) => unknown(self.link.failed(&connection, &error), claims),
            })
            .collect()
    }

    /// One attempt by the script.
    async fn try_by_script(&self, claim: &Claim) -> Result<Answer, BackendError> {
        if !claim.waits() {
            let cmd = scripts::acquire(claim, self.link.names())?;
            return scripts::acquired(&self.call(&scripts::ACQUIRE, &cmd, claim.ttl()).await?);
        }
        let owner = claim.owner().wire();
        let (place, again) = self.link.places().enter(&owner);
        place.hint.forget();
        let answer = self.line_up(claim, &place, again).await;
        match &answer {
            Ok(Answer::Granted(_)) => self.link.places().leave(&owner),
            Ok(Answer::Held { called: false, .. }) => place.hint.look_at(Clock::system().now() + look(claim)),
            // Nobody will release what was never sent.
            Err(error) if !again && error.outcome() == Outcome::NotApplied => {
                self.link.places().leave(&owner);
            }
            Ok(Answer::Held { .. }) | Err(_) => {}
        }
        answer
    }

    /// One attempt of a claim that waits: if the lock is held it takes a place in the queue.
    async fn line_up(&self, claim: &Claim, place: &Place, again: bool) -> Result<Answer, BackendError> {
        let connection = self.link.connection().await?;
        place.moves_to(connection.number());
        let names = self.link.names();
        let cmd = if connection.hears() {
            scripts::line_up(claim, names, again)?
        } else {
            scripts::acquire(claim, names)?
        };
        scripts::acquired(&self.call_on(&connection, &scripts::ACQUIRE, &cmd, claim.ttl()).await?)
    }
}

/// When to look again after somebody who will not call.
fn look(claim: &Claim) -> Duration {
    spread(LOOK, claim.owner().attempt().wrapping_add(Clock::system().now().as_nanos()))
}

fn is_no_script(answer: &RedisResult<Value>) -> bool {
    answer.as_ref().err().is_some_and(failure::is_no_script)
}

fn renewals(claims: &[&Claim]) -> Pipeline {
    let mut pipeline = redis::pipe();
    for claims in claims.chunks(LOCKS_PER_CALL) {
        pipeline.add_command(scripts::renew(claims));
    }
    pipeline
}

fn loading(script: &Script) -> Pipeline {
    let mut pipeline = redis::pipe();
    pipeline.add_command(script.load());
    pipeline
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("url", &self.url)
            .field("fence_prefix", &self.link.names().prefix())
            .finish_non_exhaustive()
    }
}

impl Backend for Redis {
    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt, BackendError> {
        scripts::usable_ttl_ms(claim)?;
        let slot = slot_of(claim.key().as_str());
        if let Some(token) = self.try_natively(claim, slot).await? {
            return Ok(Attempt::Granted { fencing: Some(token) });
        }
        let answer = self.try_by_script(claim).await;
        if let Ok(Answer::Held { .. }) = &answer {
            self.contended.note(slot, Clock::system().now());
        }
        answer.map(Attempt::from)
    }

    async fn renew(&self, claims: &[&Claim]) -> Vec<Renewed> {
        let is_usable = |claim: &&Claim| scripts::usable_ttl_ms(claim).is_ok();
        let usable: Vec<&Claim> = claims.iter().copied().filter(is_usable).collect();
        let mut answers = Vec::with_capacity(usable.len());
        for round in usable.chunks(LOCKS_PER_CALL * CALLS_PER_ROUND) {
            answers.extend(self.renew_round(round).await);
        }
        if usable.len() == claims.len() {
            return answers;
        }
        let (mut answers, unusable) = (answers.into_iter(), || Renewed::Unknown(failure::unusable_ttl()));
        let answer = |claim: &&Claim| {
            if is_usable(claim) { answers.next().unwrap_or_else(unusable) } else { unusable() }
        };
        claims.iter().map(answer).collect()
    }

    async fn release(&self, claim: &Claim) -> Result<Released, BackendError> {
        if claim.waits() {
            self.link.places().leave(&claim.owner().wire());
        }
        let cmd = scripts::release(claim, self.link.names());
        scripts::released(&self.call(&scripts::RELEASE, &cmd, claim.ttl()).await?)
    }

    async fn freed(&self, claim: &Claim) {
        let Some(place) = self.link.places().get(&claim.owner().wire()) else {
            // It has not asked, so nobody will call it.
            return tokio::time::sleep(look(claim)).await;
        };
        let mut pauses = Backoff::unanswered();
        loop {
            if let Ok(connection) = self.link.connection().await {
                if place.moves_to(connection.number()) {
                    return;
                }
                tokio::select! {
                    () = place.hint.heard(Clock::system()) => return,
                    () = connection.ended() => {}
                }
            } else {
                let now = Clock::system().now();
                tokio::time::sleep(spread(pauses.pause(), now.as_nanos())).await;
            }
        }
    }
}
