//! For tests of services and of backends.

use std::ops::Deref;
use std::time::Duration;

use crate::backend::contract::Backend;
use crate::backend::memory::Memory;
use crate::claim::Claim;
use crate::clock::Clock;
use crate::error::SetupError;
use crate::global::{DefaultGuard, set_default};
use crate::key::LockKey;
use crate::manager::LockManager;
use crate::token::{OwnerLabel, OwnerToken, ProcessRandom};

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
/// # Panics
///
/// If the system gives no thread or no random numbers.
#[must_use = "the locks are gone as soon as the guard is dropped"]
pub fn memory() -> TestLocks {
    let manager = manager(Memory::on(Clock::tokio()));
    TestLocks { _default: set_default(manager.clone()), manager }
}

/// What [`memory`] gives: a manager that is this thread's default.
#[derive(Debug)]
pub struct TestLocks {
    manager: LockManager,
    _default: DefaultGuard,
}

impl Deref for TestLocks {
    type Target = LockManager;

    fn deref(&self) -> &LockManager {
        &self.manager
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
    match ProcessRandom::get() {
        Ok(random) => OwnerToken::fresh(&OwnerLabel::of_process(), random),
        Err(error) => panic!("the system gives no random numbers: {error}"),
    }
}
