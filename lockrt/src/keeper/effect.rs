//! What follows a step and runs code of others: wakers, subscribers. None of it may run while the
//! desk is locked, nor end the keeper.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::claim::Released;
use crate::error::LossReason;
use crate::keeper::foreign::{tell, waking};
use crate::keeper::signals::Signals;
use crate::keeper::timers::Timer;
use crate::key::LockKey;
use crate::observe;
use crate::protocol::kept::Remains;

pub(super) enum Effect {
    /// The caller has a letter.
    Call(Arc<Signals>),
    Lost(Arc<Signals>, &'static str, LockKey, LossReason),
    Released(&'static str, LockKey, Released),
    Abandoned(&'static str, LockKey, Duration),
    /// The desk's share of a claim that is over.
    Forget(Arc<Signals>),
    Timer(Timer),
    Closed(oneshot::Sender<Remains>, Remains),
}

impl Effect {
    pub(super) fn run(self) {
        match self {
            Self::Call(signals) => waking(|| signals.called.notify_one()),
            Self::Lost(signals, name, key, reason) => {
                waking(|| signals.ended.notify_waiters());
                observe::lost(name, &key, reason);
            }
            Self::Released(name, key, released) => observe::released(name, &key, released),
            Self::Abandoned(name, key, ttl) => observe::abandoned(name, &key, ttl),
            Self::Forget(signals) => drop(signals),
            Self::Timer(timer) => waking(timer.call),
            Self::Closed(answer, remains) => tell(answer, remains),
        }
    }
}

/// Effects run when this is dropped: after the desk is unlocked, since they run code of others.
#[derive(Default)]
pub(super) struct After {
    /// As many as the release of an ordinary lock has; they need no room of their own.
    first: [Option<Effect>; 2],
    more: Vec<Effect>,
}

impl After {
    pub(super) fn push(&mut self, effect: Effect) {
        match self.first.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(effect),
            None => self.more.push(effect),
        }
    }
}

impl Drop for After {
    fn drop(&mut self) {
        for effect in self.first.iter_mut().filter_map(Option::take).chain(self.more.drain(..)) {
            effect.run();
        }
    }
}
