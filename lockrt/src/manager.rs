//! The front door: [`LockManager`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::acquire::Acquirer;
use crate::backend::contract::Backend;
use crate::backend::erased::DynBackend;
use crate::backend::memory::Memory;
use crate::claim::{Capabilities, Claim};
use crate::clock::Clock;
use crate::error::{BackendError, LockError, SetupError};
use crate::gate::Gate;
use crate::guard::LockGuard;
use crate::keeper::Keeper;
use crate::key::LockKey;
use crate::lease::Lease;
use crate::masking::masked;
use crate::mutant::{self, Flaw};
use crate::observe;
use crate::policy::{Contention, LockPolicy};
use crate::protocol::kept::Remains;
use crate::run;
use crate::token::{OwnerLabel, ProcessRandom};

/// The variable that names the lock service.
const URL_VARIABLE: &str = "LOCK_URL";
/// How long `from_url` waits for the lock service.
const CONNECT: Duration = Duration::from_secs(2);
/// Keys of this library, unless the caller chooses another prefix.
pub(crate) const PREFIX: &str = "lock:";

/// Takes and gives back locks of one lock service.
///
/// Cloning is cheap and every clone is the same manager. When the last clone and the last guard
/// are dropped, the releases that are still due are finished in the background.
///
/// Some events are sent from the manager's own thread. A `tracing` subscriber must not block there,
/// least of all until it gets a lock of the same manager.
#[derive(Clone, Debug)]
pub struct LockManager(Arc<Acquirer>);

impl LockManager {
    /// A manager for the lock service at `url`: `memory:` (locks of this manager and its clones
    /// alone); with feature `redis`, `redis://[user:password@]host[:port][/database]`; with feature
    /// `postgres`, `postgres://[user[:password]@]host[:port]/database`.
    ///
    /// # Errors
    ///
    /// [`SetupError`], saying what to change in the URL, the features or the system;
    /// `Unavailable` if the service does not answer within 2 s.
    ///
    /// # Cancellation
    ///
    /// Leaves nothing behind.
    pub async fn from_url(url: &str) -> Result<Self, SetupError> {
        Self::builder().connect(url).await
    }

    /// A manager for the lock service that the environment variable `LOCK_URL` names.
    ///
    /// # Errors
    ///
    /// [`SetupError::MissingUrl`] if it is not set, else as [`from_url`](Self::from_url).
    ///
    /// # Cancellation
    ///
    /// Leaves nothing behind.
    pub async fn from_env() -> Result<Self, SetupError> {
        match std::env::var(URL_VARIABLE) {
            Ok(url) if !url.is_empty() => Self::from_url(&url).await,
            _ => Err(SetupError::MissingUrl),
        }
    }

    /// As [`from_env`](Self::from_env), but without `LOCK_URL` a memory backend that locks this
    /// process alone, with a warning event that says so.
    ///
    /// # Errors
    ///
    /// As [`from_url`](Self::from_url).
    ///
    /// # Cancellation
    ///
    /// Leaves nothing behind.
    pub async fn from_env_or_memory() -> Result<Self, SetupError> {
        match Self::from_env().await {
            Err(SetupError::MissingUrl) => {
                observe::warning(
                    "LOCK_URL is not set, or empty: locks are kept in memory and exclude nobody outside this process",
                );
                Self::builder().build(Memory::new())
            }
            other => other,
        }
    }

    /// Starts a manager with a prefix or a label of its own, or with a backend of yours.
    pub fn builder() -> ManagerBuilder {
        ManagerBuilder { prefix: String::from(PREFIX), label: None }
    }

    /// The name of the backend, such as `memory` or `redis`.
    #[must_use]
    pub fn backend_name(&self) -> &'static str {
        self.capabilities().name()
    }

    /// What the backend can do.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        self.0.keeper.capabilities()
    }

    /// Takes the lock, waiting as the policy says.
    ///
    /// # Errors
    ///
    /// [`LockError`], by kind: somebody else holds it, the service does not answer, the policy or
    /// the key cannot be used, the manager is shutting down.
    ///
    /// # Cancellation
    ///
    /// Leaves nothing behind, whenever it is dropped: the keeper cleans up.
    pub async fn acquire(&self, key: &LockKey, policy: &LockPolicy) -> Result<LockGuard, LockError> {
        self.0.acquire(key, policy, policy.contention()).await
    }

    /// Takes the lock if it is free, whatever the policy says of waiting.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); [`LockError::Contended`] after one answered attempt.
    ///
    /// # Cancellation
    ///
    /// Leaves nothing behind.
    pub async fn try_acquire(&self, key: &LockKey, policy: &LockPolicy) -> Result<LockGuard, LockError> {
        self.0.acquire(key, policy, Contention::Fail).await
    }

    /// Runs `body` under the lock: takes it, polls the body while the lease is held, stops it when
    /// the lease is lost (unless `on_lost` says otherwise), and gives the lock back.
    ///
    /// ```
    /// use std::time::Duration;
    /// use lockrt::{LockKey, LockManager, LockPolicy};
    ///
    /// static NIGHTLY: LockPolicy = LockPolicy::new(Duration::from_secs(30)).named("nightly");
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let manager = LockManager::from_url("memory:").await?;
    /// let key = LockKey::new("jobs:nightly")?;
    /// let rows = manager.run(&key, &NIGHTLY, async |lease| {
    ///     println!("working under token {:?}", lease.fencing());
    ///     17
    /// });
    /// assert_eq!(rows.await?, 17);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(example())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`LockError::Lost`] if the lease was lost before the
    /// body ended; its value, if it came late, is dropped.
    ///
    /// # Cancellation
    ///
    /// Drops the body; `on_cancel` says what becomes of the lock.
    pub async fn run<T>(
        &self,
        key: &LockKey,
        policy: &LockPolicy,
        body: impl AsyncFnOnce(&Lease) -> T,
    ) -> Result<T, LockError> {
        run::run(self.acquire(key, policy).await?, body).await
    }

    /// Refuses new acquires, lets running bodies end until `timeout`, then takes their leases,
    /// releases them, and says what is left. A lock service that does not answer keeps it for a
    /// second more.
    ///
    /// # Cancellation
    ///
    /// The shutdown goes on.
    pub async fn shutdown(&self, timeout: Duration) -> ShutdownReport {
        ShutdownReport(self.0.keeper.close(timeout).await)
    }

    /// Asks the lock service for a sign of life, which leaves nothing there.
    pub(crate) async fn probe(&self, key: &LockKey, within: Duration) -> Result<(), BackendError> {
        self.0.keeper.probe(self.claim(key, within), within).await
    }

    /// A claim by a new owner for the lock that this manager calls `key`.
    pub(crate) fn claim(&self, key: &LockKey, ttl: Duration) -> Claim {
        self.0.claim(key, ttl, false, std::process::id())
    }

    /// Ends the leases of `key`, or all, as if the lock service had said that they are gone.
    /// Whether there was one.
    pub(crate) fn lose(&self, key: Option<&LockKey>) -> bool {
        self.0.keeper.lose(key)
    }

    /// Whether all that has been given back by now is freed.
    pub(crate) fn is_settled(&self) -> bool {
        self.0.keeper.is_settled()
    }

    /// Whether somebody has a lease.
    pub(crate) fn has_lease(&self) -> bool {
        self.0.keeper.has_lease()
    }
}

/// A [`LockManager`] in the making.
#[derive(Clone, Debug)]
#[must_use = "a manager is made by `build()` or `connect()`"]
pub struct ManagerBuilder {
    prefix: String,
    label: Option<String>,
}

impl ManagerBuilder {
    /// Sets what stands before every key in the lock service, `lock:` by default. Managers with
    /// different prefixes never meet: so a prefix is one word and a colon, such as `shop:`. The
    /// empty prefix takes keys as they are, to share locks with programs that know no prefix.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the label by which operators recognise this owner, `service@host:pid` by default.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// A manager on `backend`, whose keeper is a thread of its own. It connects at first use.
    ///
    /// # Errors
    ///
    /// [`SetupError::InvalidPrefix`], or [`SetupError::System`] if there is no thread to be had.
    pub fn build(self, backend: impl Backend) -> Result<LockManager, SetupError> {
        if let (true, Ok(user)) =
            (mutant::has(Flaw::KeeperOnUsersRuntime), tokio::runtime::Handle::try_current())
        {
            return self.finish(|| Ok(Keeper::on_runtime(Arc::new(backend), Clock::system(), &user)));
        }
        self.finish(|| Keeper::on_thread(Arc::new(backend), Clock::system()))
    }

    /// A manager for the lock service at `url`, once that has answered.
    ///
    /// # Errors
    ///
    /// As [`LockManager::from_url`].
    ///
    /// # Cancellation
    ///
    /// Leaves nothing behind.
    pub async fn connect(self, url: &str) -> Result<LockManager, SetupError> {
        let backend = backend(url)?;
        let manager = self.finish(|| Keeper::on_thread(backend, Clock::system()))?;
        let key = LockKey::new("probe").map_err(|error| invalid_url(url, &error.to_string()))?;
        match manager.probe(&key, CONNECT).await {
            Ok(()) => Ok(manager),
            Err(source) => Err(SetupError::Unavailable { url: masked(url), source }),
        }
    }

    /// A manager whose keeper is a task of `runtime`, on tokio's clock.
    pub(crate) fn build_on(
        self,
        backend: impl Backend,
        runtime: &tokio::runtime::Handle,
    ) -> Result<LockManager, SetupError> {
        self.finish(|| Ok(Keeper::on_runtime(Arc::new(backend), Clock::tokio(), runtime)))
    }

    fn finish(self, keeper: impl FnOnce() -> Result<Keeper, SetupError>) -> Result<LockManager, SetupError> {
        static MANAGERS: AtomicU64 = AtomicU64::new(1);
        let prefix = checked_prefix(self.prefix)?;
        let random = ProcessRandom::get()
            .map_err(|error| SetupError::System { what: "random numbers", reason: error.to_string() })?;
        let keeper = keeper()?;
        Ok(LockManager(Arc::new(Acquirer {
            gate: Gate::new(keeper.clone()),
            keeper,
            manager: MANAGERS.fetch_add(1, Ordering::Relaxed),
            prefix,
            label: match self.label.as_deref() {
                Some(label) => OwnerLabel::new(label, random),
                None => OwnerLabel::of_process(random),
            },
        })))
    }
}

/// One word and a colon: no prefix is the beginning of another one.
fn checked_prefix(prefix: String) -> Result<String, SetupError> {
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '{' | '}' | '%' | ':');
    let reason = match prefix.strip_suffix(':') {
        None if prefix.is_empty() => return Ok(prefix),
        None => "it must end with a colon, as in `shop:`",
        Some("") => "it must have a word before its colon, as in `shop:`",
        Some(word) if word.contains(['{', '}']) => {
            "braces would choose a Redis Cluster slot, which the backend does"
        }
        Some(word) if !word.chars().all(plain) => {
            "it must be one word of visible ASCII without `%`, and a colon, as in `shop:`; with colons inside, one prefix could be the beginning of another"
        }
        Some(_) => return Ok(prefix),
    };
    Err(SetupError::InvalidPrefix { prefix, reason })
}

/// The backend that `url` names, not yet connected.
fn backend(url: &str) -> Result<Arc<dyn DynBackend>, SetupError> {
    let Some((scheme, rest)) = url.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        return Err(invalid_url(
            url,
            "it does not begin with a scheme; write `memory:`, `redis://host:port` or `postgres://host/database`",
        ));
    };
    match scheme {
        "memory" if rest.is_empty() => Ok(Arc::new(Memory::new())),
        "memory" => Err(invalid_url(url, "`memory:` takes nothing after its colon")),
        #[cfg(feature = "redis")]
        "redis" | "rediss" | "unix" | "redis+unix" => {
            let redis = crate::backend::redis::Redis::from_url(url)?;
            Ok(Arc::new(redis.on_warning(observe::warning)))
        }
        #[cfg(not(feature = "redis"))]
        "redis" | "rediss" | "unix" | "redis+unix" => {
            Err(SetupError::MissingFeature { scheme: "redis", feature: "redis" })
        }
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Arc::new(crate::backend::postgres::Postgres::from_url(url)?)),
        #[cfg(not(feature = "postgres"))]
        "postgres" | "postgresql" => {
            Err(SetupError::MissingFeature { scheme: "postgres", feature: "postgres" })
        }
        other => Err(SetupError::UnknownScheme {
            scheme: String::from(other),
            known: if cfg!(feature = "redis-tls") {
                "`memory:`, `redis://host:port`, `rediss://host:port` for TLS, or `postgres://host/database`"
            } else {
                "`memory:`, `redis://host:port` or `postgres://host/database`"
            },
        }),
    }
}

/// Whether text before a colon is a scheme (RFC 3986), and not perhaps a password.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn invalid_url(url: &str, reason: &str) -> SetupError {
    SetupError::InvalidUrl { url: masked(url), reason: String::from(reason) }
}

/// What a shutdown could not release.
#[derive(Clone, Debug)]
pub struct ShutdownReport(Remains);

impl ShutdownReport {
    /// Whether nothing is left.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.0.unreleased.is_empty() && self.0.kept.is_empty()
    }

    /// Name and key of each lock that may still be held, since its release was not answered in
    /// time; an acquire that was never answered counts too. It ends with its TTL.
    pub fn unreleased(&self) -> impl Iterator<Item = (&'static str, &LockKey)> {
        self.0.unreleased.iter().map(|(name, key)| (*name, key))
    }

    /// Name and key of each lock that `min_hold` or `on_cancel = hold` keeps to its TTL.
    pub fn kept(&self) -> impl Iterator<Item = (&'static str, &LockKey)> {
        self.0.kept.iter().map(|(name, key)| (*name, key))
    }
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_clean() {
            return f.write_str("every lock was released");
        }
        let mut separator = "";
        for (name, key) in self.unreleased() {
            write!(f, "{separator}lock `{name}` ({key}) may still be held and ends with its ttl")?;
            separator = "; ";
        }
        for (name, key) in self.kept() {
            write!(f, "{separator}lock `{name}` ({key}) is kept to its ttl, as its policy asks")?;
            separator = "; ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_one_word_and_a_colon_or_nothing() {
        for good in ["", "shop:", "shop.locks:", "a-b_c/d:"] {
            assert!(checked_prefix(good.into()).is_ok(), "{good}");
        }
        for bad in ["shop", ":", "shop:eu:", "{shop}:", "sh op:", "a%:", "ü:"] {
            assert!(checked_prefix(bad.into()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bad_url_says_what_to_write() {
        let told = |url| backend(url).unwrap_err().to_string();
        assert!(told("nonsense").contains("begin with a scheme"));
        assert!(!told("s3cret@host:6379").contains("s3cret"));
        assert!(told("memory:x").contains("nothing after"));
        assert!(told("mysql://x").contains("`mysql`"));
    }
}
