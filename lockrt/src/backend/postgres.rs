//! PostgreSQL as lock service.
//!
//! # Tables
//!
//! | table | row | how long it stays |
//! |---|---|---|
//! | `lockrt_locks` | a lock: key, owner, last fencing token, end of the lease, whether somebody waits | while its lease lasts, and some seconds more |
//! | `lockrt_floor` | one: the greatest token of all rows that were deleted | for ever |
//!
//! Each call is one statement, which is a transaction of its own at isolation level *read committed*, and
//! says by itself how long a held lock is held. The server's `clock_timestamp()` decides, since `now()` is
//! the time at which a transaction began: a statement that waited for a row would grant by an old clock.
//!
//! A token is the greater of the server's clock in microseconds and the row's last token plus one. Rows of
//! leases that have ended are swept by whoever is at work; their greatest token becomes the floor, above
//! which new rows begin. So tokens rise whichever way the clock is stepped.
//!
//! # Waiting
//!
//! A claim that waits marks the row; who releases a marked row notifies (`LISTEN`, `NOTIFY`), with a digest
//! of the key. A notification is a hint: a waiter also looks when the lease of the holder ends, and after a
//! reconnection. Behind a pooler nobody can listen, so waiters look every 200 ms, a quarter more or less, and
//! at each release by their own process.
//!
//! # Poolers
//!
//! A connection to the server carries many calls at a time; one to a pooler carries one after the other, since a
//! pooler may tear apart what comes ahead of an answer.

mod connection;
pub(crate) mod failure;
mod link;
mod migration;
pub(crate) mod server;
mod statements;
mod turn;
pub(crate) mod url;
mod waiters;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_postgres::types::Type;
use tokio_postgres::{Config, Row};

use crate::backend::contract::Backend;
use crate::backoff::{Backoff, spread};
use crate::claim::{Attempt, Capabilities, Claim, FenceStrength, Released, Renewed};
use crate::clock::Clock;
use crate::error::{BackendError, Outcome, SetupError};
use crate::masking::masked;
use connection::{Parameter, patience};
use link::Link;
use server::Server;
use statements::{LOCKS_PER_CALL, ROWS_PER_SWEEP, Renewals, Statements};
use waiters::{Waiter, name_of};

const CAPABILITIES: Capabilities = Capabilities::new("postgres").fences(FenceStrength::Durable);

/// How often a waiting claim looks at a key of which nobody tells it, a quarter more or less.
const LOOK: Duration = Duration::from_millis(200);

/// When to ask again for renewals whose row somebody has locked, if there is time: commits take that long.
const ROW_LOCKED: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(20)];

/// How often a client that is at work sweeps the table, or lets another one do it.
const SWEEP: Duration = Duration::from_secs(2);

/// Connections unless the caller says otherwise.
const CONNECTIONS: usize = 4;

/// What the server is told of each connection. Nobody waits for an attempt longer than a second, so
/// nothing goes on for longer than two. A wait for a locked row ends earlier than attempts are repeated, which
/// would else wait on all connections.
const SESSION: &str =
    "-c statement_timeout=2000 -c lock_timeout=500 -c default_transaction_isolation=read\\ committed";

/// One PostgreSQL server, version 12 or newer, as lock service.
///
/// It has connections of its own, which it opens at first use and again after a failure. The tables must
/// have been [made](Self::migrate) before.
pub struct Postgres {
    link: Arc<Link>,
    statements: Arc<Statements>,
    settings: Settings,
    /// When to sweep again, in nanoseconds of the system's clock; 0 before the first call.
    next_sweep: AtomicU64,
}

#[derive(Clone)]
struct Settings {
    config: Config,
    schema: String,
    pooled: bool,
    connections: usize,
    authorities: Option<PathBuf>,
    shown: String,
}

impl Settings {
    /// How connections are made, to which `options` go when one begins.
    fn completed(&self, pooled: bool, options: &str) -> Config {
        url::complete(self.config.clone(), pooled, options)
    }
}

impl Postgres {
    /// The server at `url`: `postgres://[user[:password]@]host[:port]/database`, with the parameters
    /// of libpq that `tokio-postgres` knows, and two of our own: `schema=<name>` as by
    /// [`in_schema`](Self::in_schema), and `pooler=transaction` as by
    /// [`behind_pooler`](Self::behind_pooler). Nothing is sent yet.
    ///
    /// With feature `postgres-tls`, `sslmode=verify-full` is TLS, the server's certificate and host verified;
    /// `verify-ca` and `require` are the same. It goes by the authorities that the system trusts, or by those in the
    /// file of `sslrootcert=<path>`, which is read here. Without `sslmode` all goes in clear text.
    ///
    /// # Errors
    ///
    /// [`SetupError::UnknownScheme`], or [`SetupError::InvalidUrl`] with what is wrong with it, such as TLS
    /// without that feature, or certificates that cannot be read.
    pub fn from_url(url: &str) -> Result<Self, SetupError> {
        let parsed = url::parse(url)?;
        Self::new(Settings {
            config: parsed.config,
            schema: parsed.schema.unwrap_or_else(|| "public".to_owned()),
            pooled: parsed.pooled,
            connections: CONNECTIONS,
            authorities: parsed.authorities,
            shown: masked(url),
        })
    }

    /// The server that a configuration of the driver names. Its `SslMode::Require` is as `sslmode=verify-full` in a
    /// [URL](Self::from_url), by the authorities that the system trusts; any other mode is clear text.
    ///
    /// # Errors
    ///
    /// [`SetupError::InvalidUrl`] if it asks for TLS that is not to be had.
    pub fn from_config(config: Config) -> Result<Self, SetupError> {
        let (schema, shown) = ("public".to_owned(), "a tokio_postgres::Config".to_owned());
        let (pooled, connections, authorities) = (false, CONNECTIONS, None);
        Self::new(Settings { config, schema, pooled, connections, authorities, shown })
    }

    /// Keeps the locks in this schema, which must exist, in place of `public`. Clients that share locks
    /// must share this.
    ///
    /// # Errors
    ///
    /// [`SetupError::InvalidUrl`] for an empty name, or one with NUL.
    pub fn in_schema(self, schema: &str) -> Result<Self, SetupError> {
        Self::new(Settings { schema: schema.to_owned(), ..self.settings })
    }

    /// Says that a pooler in transaction mode, such as PgBouncer, stands before the server. Then there are
    /// no notifications, so waiters look every 200 ms, and the server's own time-outs count in place of ours.
    ///
    /// # Errors
    ///
    /// As the constructor.
    pub fn behind_pooler(self) -> Result<Self, SetupError> {
        Self::new(Settings { pooled: true, ..self.settings })
    }

    /// Sets how many connections it may open, 4 by default and at least 1. They are opened when calls
    /// are waiting for each other.
    ///
    /// # Errors
    ///
    /// As the constructor.
    pub fn connections(self, most: usize) -> Result<Self, SetupError> {
        Self::new(Settings { connections: most, ..self.settings })
    }

    fn new(settings: Settings) -> Result<Self, SetupError> {
        let config = settings.completed(settings.pooled, SESSION);
        let server = Server::new(config, settings.authorities.as_deref())
            .map_err(|reason| SetupError::InvalidUrl { url: settings.shown.clone(), reason })?;
        Ok(Self {
            link: Arc::new(Link::new(server, settings.pooled, settings.connections)),
            statements: Arc::new(Statements::new(&settings.schema)?),
            settings,
            next_sweep: AtomicU64::new(0),
        })
    }

    /// The server for connections that are no one else's, to which nothing is sent ahead.
    pub(crate) fn server_of_sessions(&self) -> Server {
        self.link.server().by(self.settings.completed(true, ""))
    }

    /// One statement for a lock of this ttl.
    async fn call(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
        ttl: Duration,
    ) -> Result<Vec<Row>, BackendError> {
        let connection = self.link.connection().await?;
        let answer = connection.ask(statement, parameters, patience(ttl)).await;
        self.sweep_if_due();
        answer
    }

    async fn attempt(&self, claim: &Claim) -> Result<Attempt, BackendError> {
        let ttl_ms = statements::usable_ttl_ms(claim)?;
        let (key, owner, waits) = (claim.key().as_str(), claim.owner().wire(), claim.waits());
        // Where nobody can listen, nobody need be told.
        let marks = waits && !self.settings.pooled;
        let parameters: [Parameter<'_>; 4] =
            [(&key, Type::TEXT), (&owner, Type::TEXT), (&ttl_ms, Type::INT8), (&marks, Type::BOOL)];
        statements::acquired(&self.call(&self.statements.acquire, &parameters, claim.ttl()).await?)
    }

    /// An attempt of a claim that waits: it listens first, so that it hears of a release after it.
    async fn attempt_and_listen(&self, claim: &Claim, waiter: &Waiter) -> Result<Attempt, BackendError> {
        waiter.hint.forget();
        let listening = if self.settings.pooled { None } else { self.link.listening().await.ok() };
        if let Some(connection) = &listening {
            waiter.moves_to(connection.number());
        }
        let attempt = self.attempt(claim).await?;
        if let Attempt::Held { free_in } = attempt {
            let by_itself = if listening.is_some() { free_in } else { Some(look(claim)) };
            let first = [free_in, by_itself].into_iter().flatten().min();
            // A millisecond more, so that the lease has ended by then.
            let until = |rest| Clock::system().now() + rest + Duration::from_millis(1);
            first.map(until).inspect(|until| waiter.hint.look_at(*until));
        }
        Ok(attempt)
    }

    async fn renew_some(&self, claims: &[(usize, &Claim, i64)]) -> Vec<Renewed> {
        let started = Clock::system().now();
        let mut answers = self.renew_free(claims).await;
        let took = Clock::system().now().since(started);
        // Whoever asks waits for a sixth of the shortest ttl. Later than that, those that were extended are told nothing.
        let within = shortest_ttl(claims) / 12;
        for pause in ROW_LOCKED {
            let locked: Vec<usize> = (0..claims.len()).filter(|place| answers[*place].is_none()).collect();
            if locked.is_empty() || Clock::system().now().since(started) + pause + took > within {
                break;
            }
            tokio::time::sleep(pause).await;
            let again: Vec<_> = locked.iter().map(|place| claims[*place]).collect();
            for (place, answer) in locked.into_iter().zip(self.renew_free(&again).await) {
                answers[place] = answer;
            }
        }
        let known = answers.into_iter();
        known.map(|answer| answer.unwrap_or_else(|| Renewed::Unknown(failure::row_locked()))).collect()
    }

    /// Renews those whose row nobody has locked; no answer for the others.
    async fn renew_free(&self, claims: &[(usize, &Claim, i64)]) -> Vec<Option<Renewed>> {
        let renewals = Renewals::of(claims);
        match self.call(&self.statements.renew, &renewals.parameters(), shortest_ttl(claims)).await {
            Ok(rows) => statements::renewed(&rows, claims.len()),
            Err(failure) => vec![Some(Renewed::Unknown(failure)); claims.len()],
        }
    }

    /// Lets what has ended be deleted, beside the calls. One that comes to nothing is left to the next.
    fn sweep_if_due(&self) {
        let (now, due) = (Clock::system().now().as_nanos(), self.next_sweep.load(Ordering::Relaxed));
        let next = now.saturating_add(u64::try_from(SWEEP.as_nanos()).unwrap_or(u64::MAX));
        let turn = || self.next_sweep.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
        if now < due || turn().is_err() || due == 0 {
            return;
        }
        let (link, statements) = (Arc::clone(&self.link), Arc::clone(&self.statements));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(tokio::time::timeout(SWEEP, async move {
                let swept = async || {
                    let connection = link.connection().await.ok()?;
                    statements::swept(&connection.run(&statements.sweep).await.ok()?)
                };
                while swept().await == Some(ROWS_PER_SWEEP) {}
            }));
        }
    }
}

fn shortest_ttl(claims: &[(usize, &Claim, i64)]) -> Duration {
    claims.iter().map(|(_, claim, _)| claim.ttl()).min().unwrap_or_default()
}

/// When to look again at a key of which nobody tells.
fn look(claim: &Claim) -> Duration {
    spread(LOOK, claim.owner().attempt().wrapping_add(Clock::system().now().as_nanos()))
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("url", &self.settings.shown)
            .field("schema", &self.settings.schema)
            .field("pooled", &self.settings.pooled)
            .finish_non_exhaustive()
    }
}

impl Backend for Postgres {
    fn capabilities(&self) -> &Capabilities {
        const DIRECT: Capabilities = CAPABILITIES.wakes_on_release();
        if self.settings.pooled { &CAPABILITIES } else { &DIRECT }
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt, BackendError> {
        if !claim.waits() {
            return self.attempt(claim).await;
        }
        let (waiter, again) = self.link.waiters.enter(claim);
        let answer = self.attempt_and_listen(claim, &waiter).await;
        match &answer {
            Ok(Attempt::Granted { .. }) => self.link.waiters.leave(claim),
            // Nobody will release what was never sent.
            Err(error) if !again && error.outcome() == Outcome::NotApplied => self.link.waiters.leave(claim),
            Ok(_) | Err(_) => {}
        }
        answer
    }

    async fn renew(&self, claims: &[&Claim]) -> Vec<Renewed> {
        let mut answers = vec![Renewed::Unknown(failure::unusable_ttl()); claims.len()];
        let usable = claims.iter().enumerate();
        let usable: Vec<_> = usable
            .filter_map(|(place, claim)| Some((place, *claim, statements::usable_ttl_ms(claim).ok()?)))
            .collect();
        for some in usable.chunks(LOCKS_PER_CALL) {
            for ((place, ..), answer) in some.iter().zip(self.renew_some(some).await) {
                answers[*place] = answer;
            }
        }
        answers
    }

    async fn release(&self, claim: &Claim) -> Result<Released, BackendError> {
        if claim.waits() {
            self.link.waiters.leave(claim);
        }
        let (key, owner, name) = (claim.key().as_str(), claim.owner().wire(), name_of(claim));
        let parameters: [Parameter<'_>; 3] = [(&key, Type::TEXT), (&owner, Type::TEXT), (&name, Type::TEXT)];
        let rows = self.call(&self.statements.release, &parameters, claim.ttl()).await?;
        if rows.is_empty() {
            return Ok(Released::NotHeld);
        }
        // Those of this process need not wait for the server's word, which does not come behind a pooler.
        self.link.waiters.told(&name);
        Ok(Released::Freed)
    }

    async fn freed(&self, claim: &Claim) {
        let Some(waiter) = self.link.waiters.get(claim) else {
            // It has not asked, so nobody knows when to look.
            return tokio::time::sleep(look(claim)).await;
        };
        let mut pauses = Backoff::unanswered();
        loop {
            let ended = async {
                if self.settings.pooled {
                    return std::future::pending().await;
                }
                match self.link.listening().await {
                    Ok(connection) if waiter.moves_to(connection.number()) => true,
                    Ok(connection) => {
                        connection.ended().await;
                        false
                    }
                    Err(_) => {
                        tokio::time::sleep(spread(pauses.pause(), claim.owner().attempt())).await;
                        false
                    }
                }
            };
            tokio::select! {
                () = waiter.hint.heard(Clock::system()) => return,
                moved = ended => if moved { return },
            }
        }
    }
}
