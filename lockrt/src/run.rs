//! A body under its lock: polled while the lease is held, dropped when it is lost.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::sync::futures::Notified;

use crate::error::{LockError, LossReason};
use crate::guard::LockGuard;
use crate::lease::{Lease, Polling};
use crate::observe;
use crate::policy::{OnCancel, OnLost};
use crate::protocol::lease::{End, Standing};

/// How a body ended.
#[derive(Debug)]
pub enum Ended<T> {
    /// It came to its end while the lease was held, or was allowed to outlive it.
    Done(T),
    /// It came to its end after the lease was lost.
    Late(T, LockError),
    /// The lease was lost, so the body was dropped.
    Lost(LockError),
}

pin_project! {
    /// A body that runs under a guard; made by [`hold`].
    pub struct Hold<'g, F> {
        guard: &'g LockGuard,
        #[pin]
        body: Option<F>,
        #[pin]
        ended: Notified<'g>,
    }
}

/// Runs `body` under `guard`.
///
/// The clock is read before every poll of the body and once more after it is ready: past the
/// deadline the body is dropped and not polled again. A body that was ready too late is
/// [`Ended::Late`].
///
/// # Cancellation
///
/// Drops the body; the guard decides what becomes of the lock.
pub fn hold<F: Future>(guard: &LockGuard, body: F) -> Hold<'_, F> {
    Hold { guard, body: Some(body), ended: guard.lease().ended() }
}

impl<F: Future> Future for Hold<'_, F> {
    type Output = Ended<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let guard = self.guard;
        let lease = guard.lease();
        // Wakes this task when the lease is lost; after that there is nothing more to hear.
        let heard = self.as_mut().project().ended.poll(cx).is_ready();
        if let Some(reason) = cancels(guard) {
            return Poll::Ready(self.stop(lease.loss(reason)));
        }
        if heard {
            let renewed = lease.ended();
            self.as_mut().project().ended.set(renewed);
        }
        let output = {
            let polling = Polling::under(lease);
            let polled = match self.as_mut().project().body.as_pin_mut() {
                Some(body) => body.poll(cx),
                None => Poll::Pending,
            };
            drop(polling);
            ready!(polled)
        };
        // The body's locals are gone before the lock is.
        self.as_mut().project().body.set(None);
        Poll::Ready(match lease.standing() {
            Standing::Ended(End::Lost(_)) if guard.lost_action() == OnLost::Report => {
                observe::ended_unguarded(lease.name(), lease.key());
                Ended::Done(output)
            }
            Standing::Ended(End::Lost(reason)) => Ended::Late(output, lease.loss(reason)),
            Standing::Held(_) | Standing::Ended(End::Released) => Ended::Done(output),
        })
    }
}

impl<F> Hold<'_, F> {
    /// Drops the body, as part of which its code may run: it still stands under its lease.
    fn stop<T>(mut self: Pin<&mut Self>, loss: LockError) -> Ended<T> {
        let polling = Polling::under(self.guard.lease());
        self.as_mut().project().body.set(None);
        drop(polling);
        Ended::Lost(loss)
    }
}

/// Whether the body must stop, and why.
fn cancels(guard: &LockGuard) -> Option<LossReason> {
    match (guard.lease().standing(), guard.lost_action()) {
        (Standing::Ended(End::Lost(reason)), OnLost::Cancel) => Some(reason),
        _ => None,
    }
}

/// A value that a future which is `Send` may keep while it awaits the release.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not `Send`, so it cannot be kept while the release of the lock is awaited",
    label = "write `release = started` in the attribute, then nothing is awaited after the body",
    note = "or return a value that is `Send`, such as `Box<dyn Error + Send + Sync>`"
)]
pub trait Kept {}

#[diagnostic::do_not_recommend]
impl<T: Send> Kept for T {}

/// Asks for it where the function says that its future is `Send`.
pub const fn kept<T: Kept>() {}

/// Gives the lock back after its body has ended. `failed` says that the value is the body's own
/// error, which a loss does not replace.
///
/// # Errors
///
/// [`LockError::Lost`] if the lease was lost before the body ended.
///
/// # Cancellation
///
/// The release goes on; the value is dropped.
pub async fn leave<T>(guard: &LockGuard, ended: Ended<T>, failed: bool) -> Result<T, LockError> {
    if keeps_key(guard, &ended) {
        guard.abandon();
    } else {
        guard.settle().await;
    }
    ended.settled(failed)
}

/// The same for `release = started`: nothing is awaited, so that the value need not be `Send`.
///
/// # Errors
///
/// As [`leave`].
pub fn leave_started<T>(guard: &LockGuard, ended: Ended<T>, failed: bool) -> Result<T, LockError> {
    if keeps_key(guard, &ended) {
        guard.abandon();
    } else {
        guard.settle_started();
    }
    ended.settled(failed)
}

/// A body that was dropped may have left an effect in flight.
fn keeps_key<T>(guard: &LockGuard, ended: &Ended<T>) -> bool {
    matches!(ended, Ended::Lost(_)) && guard.cancel_action() == OnCancel::Hold
}

impl<T> Ended<T> {
    fn settled(self, failed: bool) -> Result<T, LockError> {
        match self {
            Self::Done(value) => Ok(value),
            Self::Late(value, _) if failed => Ok(value),
            Self::Late(_, loss) | Self::Lost(loss) => Err(loss),
        }
    }
}

/// Runs `body` under `guard` and gives the lock back.
pub(crate) async fn run<T>(guard: LockGuard, body: impl AsyncFnOnce(&Lease) -> T) -> Result<T, LockError> {
    let ended = hold(&guard, body(guard.lease())).await;
    leave(&guard, ended, false).await
}
