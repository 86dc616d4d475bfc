//! A caller that is not polled while its attempt times out, and goes on later.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use lockrt::{
    Attempt, Backend, BackendError, Capabilities, Claim, LockManager, LockPolicy, Released, Renewed,
};
use lockrt_tests::{key, soon};
use tokio::sync::Notify;
use tokio::time::sleep;

/// Sends an attempt when its connection stands.
#[derive(Clone, Debug)]
struct Connecting {
    capabilities: Capabilities,
    connected: Arc<Notify>,
    sent: Arc<AtomicUsize>,
}

impl Backend for Connecting {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn try_acquire(&self, _: &Claim) -> Result<Attempt, BackendError> {
        self.connected.notified().await;
        self.sent.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }

    async fn renew(&self, _: &[&Claim]) -> Vec<Renewed> {
        Vec::new()
    }

    async fn release(&self, _: &Claim) -> Result<Released, BackendError> {
        Ok(Released::NotHeld)
    }
}

#[tokio::test]
async fn an_attempt_that_was_given_up_is_not_sent_when_its_caller_goes_on() {
    let (connected, sent) = (Arc::<Notify>::default(), Arc::<AtomicUsize>::default());
    let capabilities = Capabilities::new("connecting");
    let service = Connecting { capabilities, connected: Arc::clone(&connected), sent: Arc::clone(&sent) };
    let manager = LockManager::builder().build(service).unwrap();
    let policy = LockPolicy::new(Duration::from_millis(300));
    let name = key("k");
    let mut acquire = pin!(manager.acquire(&name, &policy));
    assert!(acquire.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    // Its clean-up would end before an attempt that leaves only then has arrived.
    sleep(policy.ttl() * 3).await;
    connected.notify_one();
    assert!(soon("the refusal", acquire).await.is_err_and(|refusal| refusal.is_unavailable()));
    assert_eq!(sent.load(Ordering::SeqCst), 0);
}
