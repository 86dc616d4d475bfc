//! Claims that wait: their pauses, and who listens for their keys.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::backend::erased::DynBackend;
use crate::claim::Claim;
use crate::keeper::Woken;
use crate::keeper::driver::Done;
use crate::keeper::foreign::{caught, tell};
use crate::protocol::by_id::ById;
use crate::protocol::kept::Id;

#[derive(Default)]
pub(super) struct Waiters(ById<Waiter>);

#[derive(Default)]
struct Waiter {
    pause: Option<Pause>,
    listener: Option<Listener>,
}

struct Pause {
    answer: oneshot::Sender<Woken>,
    task: AbortHandle,
}

/// Hears when the key may be free; at most once, then another one takes its place.
struct Listener {
    heard: Arc<Notify>,
    task: AbortHandle,
}

impl Waiters {
    /// Lets the waiter of `claim` pause for `rest`, or until it hears that the key may be free.
    pub(super) fn pause(
        &mut self,
        id: Id,
        claim: &Claim,
        backend: &Arc<dyn DynBackend>,
        (rest, listen): (Duration, bool),
        answer: oneshot::Sender<Woken>,
        calls: &mut JoinSet<Done>,
    ) {
        let waiter = self.0.entry(id).or_default();
        let heard = listen.then(|| match &waiter.listener {
            // What was heard since the last pause counts, also from one that has ended.
            Some(listener) => Arc::clone(&listener.heard),
            None => waiter.listen(claim, backend, calls),
        });
        let task = calls.spawn(async move {
            let woken = if let Some(heard) = heard {
                timeout(rest, heard.notified()).await.is_ok()
            } else {
                sleep(rest).await;
                false
            };
            Done::Paused { id, woken }
        });
        waiter.pause = Some(Pause { answer, task });
    }

    /// Listens again ahead of an attempt, for a claim that has listened before: a release that
    /// happens after the attempt must not go unheard.
    pub(super) fn listen_again(
        &mut self,
        id: Id,
        claim: &Claim,
        backend: &Arc<dyn DynBackend>,
        calls: &mut JoinSet<Done>,
    ) {
        if let Some(waiter) = self.0.get_mut(&id)
            && waiter.listener.as_ref().is_some_and(|listener| listener.task.is_finished())
        {
            waiter.listen(claim, backend, calls);
        }
    }

    pub(super) fn paused(&mut self, id: Id, woken: bool) {
        if let Some(pause) = self.0.get_mut(&id).and_then(|waiter| waiter.pause.take()) {
            tell(pause.answer, if woken { Woken::Yes } else { Woken::No });
        }
    }

    pub(super) fn stop(&mut self, id: Id, why: Woken) {
        let Some(waiter) = self.0.remove(&id) else { return };
        if let Some(listener) = waiter.listener {
            listener.task.abort();
        }
        if let Some(pause) = waiter.pause {
            pause.task.abort();
            tell(pause.answer, why);
        }
    }
}

impl Waiter {
    fn listen(
        &mut self,
        claim: &Claim,
        backend: &Arc<dyn DynBackend>,
        calls: &mut JoinSet<Done>,
    ) -> Arc<Notify> {
        let heard = Arc::new(Notify::new());
        let (backend, claim, told) = (Arc::clone(backend), claim.clone(), Arc::clone(&heard));
        let task = calls.spawn(async move {
            // A backend that panics here is one that never wakes.
            if caught(|| backend.freed(claim)).await.is_ok() {
                told.notify_one();
            } else {
                pending::<()>().await;
            }
            Done::Nothing
        });
        self.listener = Some(Listener { heard: Arc::clone(&heard), task });
        heard
    }
}
