//! A shutdown that meets an acquire whose answer is still on its way.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use lockrt::{
    Attempt, Backend, BackendError, Capabilities, Claim, LockManager, LockPolicy, Released, Renewed,
};
use lockrt_tests::{key, soon, until};
use tokio::sync::Notify;

/// Grants when it is told to, and frees what it has granted.
#[derive(Clone, Debug)]
struct Slow {
    capabilities: Capabilities,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    grants: Notify,
    held: AtomicBool,
    releases: AtomicUsize,
}

impl Slow {
    fn new() -> Self {
        Self { capabilities: Capabilities::new("slow"), shared: Arc::default() }
    }
}

impl Backend for Slow {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn try_acquire(&self, _: &Claim) -> Result<Attempt, BackendError> {
        self.shared.grants.notified().await;
        self.shared.held.store(true, Ordering::SeqCst);
        Ok(Attempt::Granted { fencing: None })
    }

    async fn renew(&self, _: &[&Claim]) -> Vec<Renewed> {
        Vec::new()
    }

    async fn release(&self, _: &Claim) -> Result<Released, BackendError> {
        let freed = self.shared.held.swap(false, Ordering::SeqCst);
        self.shared.releases.fetch_add(1, Ordering::SeqCst);
        Ok(if freed { Released::Freed } else { Released::NotHeld })
    }
}

#[tokio::test]
async fn a_grant_that_its_caller_fetches_after_the_shutdown_began_is_released() {
    let service = Slow::new();
    let manager = LockManager::builder().build(service.clone()).unwrap();
    let policy = LockPolicy::new(Duration::from_secs(30));
    let name = key("k");
    let mut acquire = pin!(manager.acquire(&name, &policy));
    assert!(acquire.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let closing = manager.clone();
    let shutdown = tokio::spawn(async move { closing.shutdown(Duration::from_secs(20)).await });
    // The keeper frees what is not there yet, again and again, ever less often.
    let releases = || service.shared.releases.load(Ordering::SeqCst);
    until("the keeper has released", async || releases() >= 3).await;
    service.shared.grants.notify_one();
    // The caller is told of the shutdown, or fetches its grant; either way it gets no lock.
    assert!(soon("the refusal", acquire).await.is_err());
    until("the grant is released", async || !service.shared.held.load(Ordering::SeqCst)).await;
    assert!(soon("the shutdown", shutdown).await.unwrap().is_clean());
}
