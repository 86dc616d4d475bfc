//! A name that a connection of its own locks, for as long as that lasts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{CancelToken, Client, Config, Row};

use crate::backend::postgres::server::Server;
use crate::backend::postgres::{Postgres, failure, url};
use crate::error::{BackendError, LockError};
use crate::key::LockKey;
use crate::policy::LockPolicy;
use crate::postgres::advisory::{NAMESPACE, advisory_number};
use crate::postgres::asking::{Asked, Patience, patience_of};

/// How long an answer may take that has nothing to wait for, and an attempt to connect.
const ANSWER: Duration = Duration::from_secs(2);

const PROCESS: &str = "SELECT pg_backend_pid()";

/// How often a pooler is looked for: a busy one may give out its processes as if it were none.
const LOOKS: u32 = 2;

/// What a session needs: it ends by nothing but its own doing, and the server notices within half a minute that its
/// client is gone, sooner where it waits. `$2`: the `lock_timeout`. Which settings there are depends on the version, and
/// all but Linux may refuse to look after a client that waits. In the process of a pooler they would stay, and hold
/// for its other clients.
const SET: &str = "SELECT count(set_config(settings.name, wanted.value, false))
    FROM pg_settings AS settings JOIN (VALUES
        ('lock_timeout', $2), ('statement_timeout', '0'), ('transaction_timeout', '0'), ('idle_session_timeout', '0'),
        ('tcp_keepalives_idle', '15'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3'),
        ('tcp_user_timeout', '30000'), ('client_connection_check_interval', '2000')
    ) AS wanted (name, value) USING (name)
    WHERE pg_backend_pid() = $1
    AND (settings.name <> 'client_connection_check_interval' OR version() LIKE '%linux%')";

const TRY: &str = "pg_try_advisory_lock($1)";

const WAIT: &str = "pg_advisory_lock($1)::text IS NOT NULL";

const FREE: &str = "pg_advisory_unlock($1)";

const HELD: &str = "EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
    AND granted AND objsubid = 1 AND (classid::bigint << 32 | objid::bigint) = $1)";

/// In this process, in which the lock is held already or is not yet. One that has the lock before it was asked for it
/// is also somebody else's, and would have it twice. None in another one.
fn in_process(held: bool, what: &str) -> String {
    let not = if held { "" } else { "NOT " };
    format!("SELECT CASE WHEN pg_backend_pid() = $2 AND {not}{HELD} THEN {what} END")
}

/// A lock that ends with its connection, which nobody else uses. See [`session_lock`].
///
/// Dropping it closes the connection; the server frees the lock when it notices that.
pub struct SessionLock {
    session: Session,
    asked: Asked,
    number: i64,
}

/// Locks `key` by a session-level advisory lock, on a connection that is opened for it and for nothing else.
///
/// It is for work that is longer than a transaction should be and whose lock must not expire: there is no
/// lease, so nothing bounds how long it is held but its holder, and no fencing token. What it protects is
/// safe only as long as the connection lasts, and a holder that is cut off learns that late: the server may have let
/// the next one in before. Where that must not be, take a lease and fence the writes.
///
/// The lock is that of [`lock_in`](super::lock_in) for the same key; the [module](super) says what a policy means.
/// A pooler in transaction mode would hand the session, and the lock, to somebody else. One is found out by
/// the process at the server, which must stay the same while another connection has one of its own, and is refused
/// before anything is locked or set. Each later call looks again. A busy one may seem to be none by chance: it gives the
/// lock to nobody else then, but may end it without a word. So let `config` name the server itself.
///
/// `SslMode::Require` is verified TLS, as everywhere here: by the authorities that the system trusts. Where they are in
/// a file, give its path in a URL, to [`Postgres::session_lock`].
///
/// Of a client whose machine is gone without a word the server learns within 30 s, by keepalives that the session has
/// it send, and frees the lock then. One that waits and has closed its connection is noticed after 2 s, by version 14 or
/// newer on Linux. Behind a pooler in session mode the pooler's own settings count.
///
/// ```no_run
/// use std::time::Duration;
/// use lockrt::{LockKey, LockPolicy, postgres::session_lock};
///
/// # async fn export() {}
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let config = "postgres://app@db.internal/shop".parse()?; // the server itself
/// let policy = LockPolicy::new(Duration::from_secs(10)).named("export").wait(Duration::from_secs(5));
/// let lock = session_lock(&config, &LockKey::new("export")?, &policy).await?;
/// tokio::select! {
///     () = export() => lock.release().await?,
///     () = lock.lost() => {} // stop: somebody else may have it
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`LockError::Contended`] if somebody else has it; [`LockError::Unavailable`] for all else that the server, or
/// the way to it, says. [`LockError::Unsupported`] behind a pooler in transaction mode, and for a policy that cannot be
/// met.
///
/// # Cancellation
///
/// Closes the connection, and asks the server to wait no longer. One that cannot be reached for that notices at its
/// turn, and frees the lock then.
pub async fn session_lock(
    config: &Config,
    key: &LockKey,
    policy: &LockPolicy,
) -> Result<SessionLock, LockError> {
    // It sends no settings when it connects, which a pooler would refuse.
    let config = url::complete(config.clone(), true, "");
    let server = if config.get_ssl_mode() == SslMode::Require {
        // The first one reads the system's authorities from disk.
        let reading = tokio::task::spawn_blocking(move || Server::new(config, None));
        reading.await.unwrap_or_else(|_| Err("the runtime has ended".to_owned()))
    } else {
        Server::new(config, None)
    };
    lock_at(server, key, policy).await
}

impl Postgres {
    /// [`session_lock`] at the server that this one names, over TLS if its URL says so. It takes no connection of
    /// those that this one has.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancellation
    ///
    /// As there.
    pub async fn session_lock(&self, key: &LockKey, policy: &LockPolicy) -> Result<SessionLock, LockError> {
        lock_at(Ok(self.server_of_sessions()), key, policy).await
    }
}

async fn lock_at(
    server: Result<Server, String>,
    key: &LockKey,
    policy: &LockPolicy,
) -> Result<SessionLock, LockError> {
    let patience = patience_of(policy, "postgres, on a session")?;
    let (asked, number) = (Asked::new(key, policy), advisory_number(NAMESPACE, key));
    let failed = |source| asked.unavailable(source);
    let server = server.map_err(|reason| failed(BackendError::not_applied(reason).permanent()))?;
    let session = Session::open(&server).await.map_err(failed)?;
    if session.is_shared(&server).await.map_err(failed)? {
        return Err(pooled(&asked));
    }
    let (what, most_ms, within) = match patience {
        Patience::None => (TRY, 0, ANSWER),
        Patience::Millis(most_ms) => (WAIT, most_ms, Duration::from_millis(most_ms) + ANSWER),
        Patience::Endless => (WAIT, 0, Duration::MAX),
    };
    if !session.set(most_ms).await.map_err(failed)? {
        return Err(pooled(&asked));
    }
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&number, Type::INT8), (&session.process, Type::INT4)];
    let waiting = Waiting(Some((session.client.cancel_token(), server)));
    let statement = in_process(false, what);
    let answer = timeout(within, session.client.query_typed(&statement, &parameters)).await;
    // Without an answer the server is asked to wait no longer.
    let answer = answer.map_err(|_| failed(late()))?;
    waiting.ended();
    let rows = answer.map_err(|error| match error.code() {
        Some(&SqlState::LOCK_NOT_AVAILABLE) => asked.contended(),
        _ => failed(failure::after_sending(&error)),
    })?;
    match answered(&rows).map_err(failed)? {
        Some(true) => Ok(SessionLock { session, asked, number }),
        Some(false) => Err(asked.contended()),
        None => Err(pooled(&asked)),
    }
}

impl SessionLock {
    /// What is locked.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        &self.asked.key
    }

    /// Asks the server whether the lock is still held. It speaks of the moment of the answer.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the connection has ended, or the lock is not there any more;
    /// [`LockError::Unavailable`] if the server has not answered within 2 s, and then nothing is known.
    ///
    /// # Cancellation
    ///
    /// Changes nothing.
    pub async fn check(&self) -> Result<(), LockError> {
        match self.ask("true").await? {
            Some(true) => Ok(()),
            _ => Err(self.asked.lost()),
        }
    }

    /// Resolves when the connection has ended, and the lock with it.
    ///
    /// # Cancellation
    ///
    /// Changes nothing.
    pub async fn lost(&self) {
        self.session.ended().await;
    }

    /// Gives the lock back, and closes the connection.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if it was not held any more: somebody else may have had it meanwhile.
    /// [`LockError::Unavailable`] without an answer; the connection is closed all the same.
    ///
    /// # Cancellation
    ///
    /// Closes the connection, which frees the lock as well.
    pub async fn release(self) -> Result<(), LockError> {
        match self.ask(FREE).await? {
            Some(true) => Ok(()),
            _ => Err(self.asked.lost()),
        }
    }

    async fn ask(&self, what: &str) -> Result<Option<bool>, LockError> {
        let (session, statement) = (&self.session, in_process(true, what));
        let parameters: [(&(dyn ToSql + Sync), Type); 2] =
            [(&self.number, Type::INT8), (&session.process, Type::INT4)];
        let late = |_| self.asked.unavailable(late());
        let answer = timeout(ANSWER, session.client.query_typed(&statement, &parameters)).await;
        let rows = match answer.map_err(late)? {
            Ok(rows) => rows,
            // Without its connection there is no lock. The last answer of one may come before its end.
            Err(error) if failure::ends_connection(&error) => return Err(self.asked.lost()),
            Err(error) => return Err(self.asked.unavailable(failure::after_sending(&error))),
        };
        answered(&rows).map_err(|source| self.asked.unavailable(source))
    }
}

impl fmt::Debug for SessionLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionLock")
            .field("name", &self.asked.name)
            .field("key", &self.asked.key)
            .finish_non_exhaustive()
    }
}

/// A connection of ours, and the process at the server that answered on it first.
struct Session {
    client: Client,
    process: i32,
    ended: Arc<watch::Sender<bool>>,
}

impl Session {
    async fn open(server: &Server) -> Result<Self, BackendError> {
        let (client, driver) = in_time(server.connect()).await?;
        let ended = Arc::new(watch::channel(false).0);
        let ending = Ending(Arc::clone(&ended));
        tokio::spawn(async move {
            let _ending = ending;
            let _ = driver.await;
        });
        let session = Self { client, process: 0, ended };
        let process = session.number(PROCESS).await?;
        Ok(Self { process, ..session })
    }

    /// Whether the server's process is given to others between statements. A second connection takes one for a
    /// transaction and gives it back. A pooler gives it that of the first, or one of the two to the first; or, where
    /// it uses them in turn, two statements of the first go to two.
    async fn is_shared(&self, server: &Server) -> Result<bool, BackendError> {
        let other = Self::open(server).await?;
        for _ in 0..LOOKS {
            other.run("BEGIN").await?;
            if other.number(PROCESS).await? == self.process || self.has_moved().await? {
                return Ok(true);
            }
            other.run("ROLLBACK").await?;
            if self.has_moved().await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn has_moved(&self) -> Result<bool, BackendError> {
        Ok(self.number(PROCESS).await? != self.process || self.number(PROCESS).await? != self.process)
    }

    /// Sets what the session needs; whether that was in its process.
    async fn set(&self, most_ms: u64) -> Result<bool, BackendError> {
        let most_ms = most_ms.to_string();
        let parameters: [(&(dyn ToSql + Sync), Type); 2] =
            [(&self.process, Type::INT4), (&most_ms, Type::TEXT)];
        let set = async {
            let row = self.client.query_typed_one(SET, &parameters).await;
            row.and_then(|row| row.try_get::<_, i64>(0)).map_err(|error| failure::after_sending(&error))
        };
        Ok(in_time(set).await? > 0)
    }

    async fn run(&self, statement: &str) -> Result<(), BackendError> {
        let run = async {
            let run = self.client.batch_execute(statement).await;
            run.map_err(|error| failure::after_sending(&error))
        };
        in_time(run).await
    }

    async fn number(&self, statement: &str) -> Result<i32, BackendError> {
        let asked = async {
            let row = self.client.query_typed_one(statement, &[]).await;
            row.and_then(|row| row.try_get(0)).map_err(|error| failure::after_sending(&error))
        };
        in_time(asked).await
    }

    async fn ended(&self) {
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }
}

/// Tells the end of a connection, also where its driver ends with its runtime.
struct Ending(Arc<watch::Sender<bool>>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// A statement that waits at the server, which else waits on for a client that is gone.
struct Waiting(Option<(CancelToken, Server)>);

impl Waiting {
    fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let (Some((statement, server)), Ok(runtime)) =
            (self.0.take(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(async move { timeout(ANSWER, server.cancel(&statement)).await });
        }
    }
}

fn pooled(asked: &Asked) -> LockError {
    let what = "a lock of a session, through a pooler that shares sessions";
    LockError::Unsupported { name: asked.name, what, backend: "postgres, on a session" }
}

fn answered(rows: &[Row]) -> Result<Option<bool>, BackendError> {
    let answer = rows.first().and_then(|row| row.try_get(0).ok());
    answer.ok_or_else(|| BackendError::unknown("PostgreSQL gave an answer of an unexpected form"))
}

async fn in_time<T>(answer: impl Future<Output = Result<T, BackendError>>) -> Result<T, BackendError> {
    timeout(ANSWER, answer).await.unwrap_or_else(|_| Err(late()))
}

fn late() -> BackendError {
    BackendError::unknown("PostgreSQL has not answered in time")
}
