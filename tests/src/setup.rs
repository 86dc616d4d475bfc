//! Where a lock-level case runs.

use std::time::Duration;

use lockrt::conformance::Service;
use lockrt::{Clock, LockManager, ManagerBuilder, Memory, Redis, testing};
use tokio::time::Instant;

use crate::{RedisServer, Yielding};

/// One lock service that a case has for itself.
pub trait Setup {
    /// How late a call may return that is bound to a moment. On servers that is for a machine which
    /// runs other tests too.
    const SLACK: Duration;

    /// Another manager on the service, as another process would have.
    fn manager(&self) -> LockManager;

    /// How many locks are held on the service.
    fn held(&self) -> impl Future<Output = usize>;
}

/// A service whose keepers are threads, so that it outlives any runtime of the case.
pub trait Threads: Setup {
    /// A manager with a prefix or label of its own.
    fn build(&self, builder: ManagerBuilder) -> LockManager;
}

/// Memory on tokio's clock, which the case may pause; its keepers are tasks.
#[derive(Clone, Debug)]
pub struct Paused(pub Memory);

impl Paused {
    /// An empty one.
    #[must_use]
    pub fn start() -> Self {
        Self(Memory::on(Clock::tokio()))
    }
}

impl Setup for Paused {
    const SLACK: Duration = Duration::from_millis(50);

    fn manager(&self) -> LockManager {
        testing::manager(Yielding(self.0.clone()))
    }

    async fn held(&self) -> usize {
        self.0.held()
    }
}

/// Memory on the system's clock; its keepers are threads.
#[derive(Clone, Debug)]
pub struct Threaded(pub Memory);

impl Threaded {
    /// An empty one.
    #[must_use]
    pub fn start() -> Self {
        Self(Memory::new())
    }
}

impl Setup for Threaded {
    const SLACK: Duration = Duration::from_secs(1);

    fn manager(&self) -> LockManager {
        self.build(LockManager::builder())
    }

    async fn held(&self) -> usize {
        self.0.held()
    }
}

impl Threads for Threaded {
    fn build(&self, builder: ManagerBuilder) -> LockManager {
        builder.build(self.0.clone()).expect("there is a thread to be had")
    }
}

impl Setup for RedisServer {
    const SLACK: Duration = Duration::from_secs(1);

    fn manager(&self) -> LockManager {
        self.build(LockManager::builder())
    }

    async fn held(&self) -> usize {
        self.stored().await.per_key
    }
}

impl Threads for RedisServer {
    fn build(&self, builder: ManagerBuilder) -> LockManager {
        let backend = Redis::from_url(&self.url()).expect("the URL is well-formed");
        builder.build(backend).expect("there is a thread to be had")
    }
}

/// Waits until the keeper of a manager that nobody uses any more has nothing left to do.
///
/// # Panics
///
/// If that does not come to pass before the shutdown begins to take leases away.
pub async fn settled(manager: LockManager, case: &str) {
    const PATIENCE: Duration = Duration::from_secs(20);
    let asked = Instant::now();
    let report = manager.shutdown(PATIENCE).await;
    assert!(report.is_clean(), "{case}: {report}");
    assert!(asked.elapsed() < PATIENCE, "{case}: a lock was taken away that nobody gave back");
}

/// Makes each case a test on memory with paused time and one on Redis.
#[macro_export]
macro_rules! on_each_backend {
    ($($case:ident),+ $(,)?) => {
        mod memory {
            $(#[tokio::test(start_paused = true)]
            async fn $case() {
                super::$case(&$crate::Paused::start()).await;
            })+
        }
        mod redis {
            $(#[tokio::test]
            async fn $case() {
                super::$case(&$crate::RedisServer::start()).await;
            })+
        }
    };
}

/// Makes each case, an ordinary function, a test on memory and one on Redis, in real time.
#[macro_export]
macro_rules! with_thread_keepers {
    ($($case:ident),+ $(,)?) => {
        mod memory_thread {
            $(#[test]
            fn $case() {
                super::$case(&$crate::Threaded::start());
            })+
        }
        mod redis_thread {
            $(#[test]
            fn $case() {
                super::$case(&$crate::RedisServer::start());
            })+
        }
    };
}
