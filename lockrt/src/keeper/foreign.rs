//! Code of others that runs on the keeper, or within somebody else's call: backends, and the wakers of
//! whoever waits. Its panics end here.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::error::BackendError;

/// Runs what wakes somebody. A waker is foreign code: one that panics must not end the keeper, nor the
/// call of whoever let its owner go on.
pub(crate) fn waking(wake: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(wake));
}

/// Answers a caller, who may be gone.
pub(super) fn tell<T>(caller: oneshot::Sender<T>, answer: T) {
    waking(|| drop(caller.send(answer)));
}

/// The call's output, or why there is none within the bound.
pub(super) async fn bounded<F: Future + Unpin>(
    within: Duration,
    call: impl FnOnce() -> F,
) -> Result<F::Output, BackendError> {
    match timeout(within, caught(call)).await {
        Ok(output) => output,
        Err(_) => Err(BackendError::unknown(format!("no answer within {} ms", within.as_millis()))),
    }
}

/// The call's output, or that it panicked: one bad call must not end the keeper, nor leave its
/// caller without an answer.
pub(super) async fn caught<F: Future + Unpin>(call: impl FnOnce() -> F) -> Result<F::Output, BackendError> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(call) => Caught(Some(call)).await,
        Err(_) => Err(panicked()),
    }
}

pub(super) fn panicked() -> BackendError {
    BackendError::unknown("the backend panicked")
}

/// A future whose panics end here, those of its drop too.
struct Caught<F>(Option<F>);

impl<F: Future + Unpin> Future for Caught<F> {
    type Output = Result<F::Output, BackendError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(call) = &mut self.0 else { return Poll::Pending };
        match catch_unwind(AssertUnwindSafe(|| Pin::new(call).poll(cx))) {
            Ok(polled) => polled.map(Ok),
            Err(_) => Poll::Ready(Err(panicked())),
        }
    }
}

impl<F> Drop for Caught<F> {
    fn drop(&mut self) {
        let call = self.0.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(call)));
    }
}
