//! A call to the lock service that its caller makes itself.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::backend::caller::polled_in;
use crate::backend::erased::Boxed;
use crate::claim::{Attempt, Released};
use crate::clock::Moment;
use crate::error::BackendError;
use crate::keeper::desk::Desk;
use crate::keeper::foreign::panicked;
use crate::protocol::keeping::Event;
use crate::protocol::kept::Id;

pub(super) enum Call {
    Attempt(Boxed<Result<Attempt, BackendError>>),
    Release(Boxed<Result<Released, BackendError>>),
}

pub(super) enum Answered {
    Attempt(Result<Attempt, BackendError>),
    Release(Result<Released, BackendError>),
}

impl Answered {
    /// What has happened, to a call of `id` that left at `sent`.
    pub(super) fn event(self, id: Id, sent: Moment) -> Event {
        match self {
            Self::Attempt(result) => Event::Tried { id, sent, result },
            Self::Release(result) => Event::Freed { id, result },
        }
    }
}

impl Call {
    /// What a call that panics has come to.
    fn panicked(&self) -> Answered {
        self.failed(panicked())
    }

    pub(super) fn failed(&self, error: BackendError) -> Answered {
        match self {
            Self::Attempt(_) => Answered::Attempt(Err(error)),
            Self::Release(_) => Answered::Release(Err(error)),
        }
    }
}

/// A backend's panic is an answer: one bad call must not unwind its caller, or end the keeper.
impl Future for Call {
    type Output = Answered;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answered> {
        let polled = catch_unwind(AssertUnwindSafe(|| match &mut *self {
            Self::Attempt(call) => call.as_mut().poll(cx).map(Answered::Attempt),
            Self::Release(call) => call.as_mut().poll(cx).map(Answered::Release),
        }));
        polled.unwrap_or_else(|_| Poll::Ready(self.panicked()))
    }
}

/// A call on its way, polled by whoever wants the answer and in the keeper's runtime all the same:
/// connections and timers of a backend live there. Dropped early, it goes on at the keeper.
pub(super) struct Errand {
    desk: Arc<Desk>,
    id: Id,
    call: Option<Call>,
}

impl Errand {
    pub(super) fn new(desk: Arc<Desk>, id: Id, call: Call) -> Self {
        Self { desk, id, call: Some(call) }
    }

    pub(super) fn is_release(&self) -> bool {
        matches!(self.call, Some(Call::Release(_)))
    }
}

impl Future for Errand {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(mut call) = self.call.take() else { return Poll::Pending };
        let polled = polled_in(&self.desk.runtime, || Pin::new(&mut call).poll(cx));
        match polled {
            Poll::Ready(answered) => {
                discard(call);
                self.desk.answered(self.id, answered);
                Poll::Ready(())
            }
            Poll::Pending => {
                self.call = Some(call);
                Poll::Pending
            }
        }
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            self.desk.adopt(self.id, call);
        }
    }
}

/// Drops a call, whose panics end here.
pub(super) fn discard(call: Call) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(call)));
}
