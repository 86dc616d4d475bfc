//! For tests of services and of backends.

mod fragile;
mod interrupt;

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use once_cell::sync::Lazy;

use crate::backend::contract::Backend;
use crate::claim::Claim;
use crate::error::SetupError;
use crate::global::{DefaultGuard, set_default};
use crate::key::LockKey;
use crate::manager::LockManager;
use crate::testing::fragile::Fragile;
use crate::token::{OwnerLabel, OwnerToken, ProcessRandom};

pub use crate::testing::interrupt::{Interruptions, interrupt_everywhere};

/// How long somebody else holds a key whose guard is not dropped.
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Gives this thread locks of its own, in memory, until the guard is dropped: one line at the top
/// of a test, so that parallel tests never meet.
///
/// Inside a runtime the keeper is a task of it, on tokio's clock, so that a test with paused time
/// sees leases end without waiting for them; a body that blocks its thread then stops the keeper
/// too. Outside a runtime the keeper is a thread. The default is seen by this thread only: in a
/// multi-thread runtime pass the manager to spawned tasks, or use `manager = ..`.
///
/// ```
/// # use lockrt::{LockError, LockKey, LockPolicy};
/// # use std::time::Duration;
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(async {
/// let locks = lockrt::testing::memory();
/// let key = LockKey::new("k")?;
/// let policy = LockPolicy::new(Duration::from_secs(10));
/// let _guard = locks.acquire(&key, &policy).await?;
/// assert!(locks.try_acquire(&key, &policy).await.is_err_and(|refusal| refusal.is_contended()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`TestLocks`] says how to force contention, loss and an outage.
///
/// # Panics
///
/// If the system gives no thread or no random numbers.
#[must_use = "the locks are gone as soon as the guard is dropped"]
pub fn memory() -> TestLocks {
    let service = Fragile::new();
    let manager = manager(service.clone());
    TestLocks { _default: set_default(manager.clone()), manager, service }
}

/// What [`memory`] gives: a manager that is this thread's default, and a lock service that fails
/// when it is told to.
///
/// ```
/// use lockrt::{LockError, LockKey, distributed_lock};
///
/// #[distributed_lock(key = "invoice:{id}", ttl_ms = 10_000)]
/// async fn send(id: u64) -> Result<u64, LockError> {
///     Ok(id)
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(async {
/// let locks = lockrt::testing::memory();
/// let held = locks.hold(&LockKey::new("invoice:7")?);
/// assert!(send(7).await.is_err_and(|refusal| refusal.is_contended()));
/// drop(held);
/// assert_eq!(send(7).await?, 7);
///
/// locks.fail();
/// assert!(send(7).await.is_err_and(|refusal| refusal.is_unavailable()));
/// locks.recover();
/// assert_eq!(send(7).await?, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TestLocks {
    manager: LockManager,
    service: Fragile,
    _default: DefaultGuard,
}

impl TestLocks {
    /// Somebody else holds `key` from now on, until the guard is dropped, for a day at most. Both
    /// happen at once and need no lock service that answers.
    ///
    /// # Panics
    ///
    /// If the key is held already.
    pub fn hold(&self, key: &LockKey) -> HeldElsewhere {
        let claim = self.manager.claim(key, DAY);
        assert!(self.service.grant(&claim), "{key} is held already, so nobody else can take it");
        HeldElsewhere { service: self.service.clone(), claim }
    }

    /// The running lease of `key` is lost now, as if the lock service had said that it is gone, and
    /// others may take the lock. With `on_lost = cancel` the body is dropped at its next poll.
    ///
    /// A real lease without renewal learns of this at its deadline only, and one with renewal at
    /// its next renewal. To see that, let (paused) time pass.
    ///
    /// # Panics
    ///
    /// If this manager holds no such lock: then the test does not test what it says.
    ///
    /// # Cancellation
    ///
    /// The lease is lost all the same.
    #[allow(clippy::unused_async, reason = "a keeper elsewhere would have to be waited for")]
    pub async fn lose(&self, key: &LockKey) {
        let stored = self.manager.claim(key, DAY);
        assert!(self.service.forget(stored.key()), "no running lease has {key}");
        self.manager.lose(Some(key));
    }

    /// Every running lease of this manager is lost now, as with [`lose`](Self::lose).
    ///
    /// # Panics
    ///
    /// If there is none.
    ///
    /// # Cancellation
    ///
    /// The leases are lost all the same.
    #[allow(clippy::unused_async, reason = "a keeper elsewhere would have to be waited for")]
    pub async fn lose_all(&self) {
        assert!(self.service.forget_all(), "there is no running lease to lose");
        self.manager.lose(None);
    }

    /// The lock service answers nothing from now on, and carries nothing out: who asks for a lock
    /// gets [`Unavailable`](crate::LockError::Unavailable) after the least of its ttl and 3 s, and
    /// leases that need renewal are lost at their deadline.
    pub fn fail(&self) {
        self.service.answer(false);
    }

    /// The lock service answers again; calls that it swallowed stay without an answer.
    pub fn recover(&self) {
        self.service.answer(true);
    }

    /// How many locks are held at present, by whomever.
    #[must_use]
    pub fn held(&self) -> usize {
        self.service.held()
    }
}

impl Deref for TestLocks {
    type Target = LockManager;

    fn deref(&self) -> &LockManager {
        &self.manager
    }
}

/// A lock that somebody else holds until this is dropped; see [`TestLocks::hold`].
#[must_use = "the lock is free as soon as this is dropped"]
pub struct HeldElsewhere {
    service: Fragile,
    claim: Claim,
}

impl Drop for HeldElsewhere {
    fn drop(&mut self) {
        self.service.free(&self.claim);
    }
}

impl fmt::Debug for HeldElsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldElsewhere").field("claim", &self.claim).finish_non_exhaustive()
    }
}

/// A manager on `backend` whose keeper is a task of the current runtime, on tokio's clock; outside
/// a runtime it is a thread.
///
/// # Panics
///
/// If the system gives no thread or no random numbers.
#[must_use]
pub fn manager(backend: impl Backend) -> LockManager {
    let made = match tokio::runtime::Handle::try_current() {
        Ok(runtime) => LockManager::builder().build_on(backend, &runtime),
        Err(_) => LockManager::builder().build(backend),
    };
    made.unwrap_or_else(|error: SetupError| panic!("no lock manager for the test: {error}"))
}

/// A claim by a new owner, for tests of a backend. It does not wait.
///
/// # Panics
///
/// If the system gives no random numbers.
#[must_use]
pub fn claim(key: &LockKey, ttl: Duration) -> Claim {
    Claim::new(key.clone(), owner(), ttl, false)
}

/// A claim by a new owner that waits when the lock is held, for tests of a backend.
///
/// # Panics
///
/// If the system gives no random numbers.
#[must_use]
pub fn waiting_claim(key: &LockKey, ttl: Duration) -> Claim {
    Claim::new(key.clone(), owner(), ttl, true)
}

fn owner() -> OwnerToken {
    // Asking the system for it takes longer than all the rest of a claim.
    static LABEL: Lazy<OwnerLabel> = Lazy::new(|| match ProcessRandom::get() {
        Ok(random) => OwnerLabel::of_process(random),
        Err(error) => panic!("the system gives no random numbers: {error}"),
    });
    OwnerToken::fresh(&LABEL, std::process::id())
}
