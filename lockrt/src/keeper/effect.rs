//! What follows a step and runs code of others: wakers, subscribers. None of it may run while the
//! desk is locked, nor end the keeper.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::claim::Released;
use crate::error::LossReason;
use crate::keeper::foreign::{tell, waking};
use crate::keeper::record::Record;
use crate::keeper::timers::Timer;
use crate::observe;
use crate::protocol::kept::Remains;

pub(super) enum Effect {
    /// The caller has a letter.
    Call(Arc<Record>),
    Lost(Arc<Record>, LossReason),
    Released(Arc<Record>, Released),
    /// The ttl of the claim, in milliseconds.
    Abandoned(Arc<Record>, u64),
    /// The desk's share of a claim that is over.
    Forget(Arc<Record>),
    Timer(Timer),
    Closed(oneshot::Sender<Remains>, Remains),
}

impl Effect {
    pub(super) fn run(self) {
        match self {
            Self::Call(record) => waking(|| record.call()),
            Self::Lost(record, reason) => {
                waking(|| record.ended.notify_waiters());
                observe::lost(record.name, &record.key, reason);
            }
            Self::Released(record, released) => observe::released(record.name, &record.key, released),
            Self::Abandoned(record, ttl_ms) => observe::abandoned(record.name, &record.key, ttl_ms),
            Self::Forget(record) => drop(record),
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
