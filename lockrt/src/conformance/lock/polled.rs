//! Futures that are dropped, or panic, at a chosen moment.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Polls `future` at most `polls` times and drops it; its output if it was ready by then.
///
/// With `linger`, that is awaited between the last poll and the drop: what woke the future by then
/// is never seen by it.
pub(super) async fn polled<T>(
    polls: usize,
    future: impl Future<Output = T>,
    linger: impl Future<Output = ()>,
) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    let output = poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    if output.is_none() {
        linger.await;
    }
    output
}

/// The output of `future`, or what it panicked with.
///
/// # Errors
///
/// The panic's payload.
pub(super) async fn caught<T>(future: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(payload) => Poll::Ready(Err(payload)),
    })
    .await
}
