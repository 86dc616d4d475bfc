//! A lock service that does not answer at once.

use std::future::Future;

use lockrt::{Attempt, Backend, BackendError, Capabilities, Claim, Released, Renewed};
use tokio::task::yield_now;

/// Memory answers within the poll that asks. This answers two polls later, so that there are moments
/// at which a caller can be dropped that has been granted a lock and not seen it.
#[derive(Clone, Debug)]
pub struct Yielding<B>(pub B);

async fn slowly<T>(call: impl Future<Output = T>) -> T {
    let answer = call.await;
    yield_now().await;
    yield_now().await;
    answer
}

impl<B: Backend> Backend for Yielding<B> {
    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt, BackendError> {
        slowly(self.0.try_acquire(claim)).await
    }

    async fn renew(&self, claims: &[&Claim]) -> Vec<Renewed> {
        slowly(self.0.renew(claims)).await
    }

    async fn release(&self, claim: &Claim) -> Result<Released, BackendError> {
        slowly(self.0.release(claim)).await
    }

    fn freed(&self, claim: &Claim) -> impl Future<Output = ()> + Send {
        self.0.freed(claim)
    }
}
