//! The names of keys and channels that stand beside the locks.

use crate::backend::redis::slots;

/// What one client calls them.
#[derive(Clone, Debug)]
pub(super) struct Names {
    prefix: String,
    /// Tells the client from all others.
    client: u64,
}

impl Names {
    pub(super) fn new(prefix: &str, client: u64) -> Self {
        Self { prefix: prefix.to_owned(), client }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn with_prefix(&self, prefix: &str) -> Self {
        Self::new(prefix, self.client)
    }

    /// The key with the last token of the slot of `lock`. One per lock would stay for ever.
    pub(super) fn fence_of(&self, lock: &str) -> String {
        format!("{}{{{}}}:fencing", self.prefix, slots::number_in(slots::slot_of(lock)))
    }

    /// Where this client hears of its places.
    pub(super) fn channel(&self) -> String {
        format!("{}waiter:{:016x}", self.prefix.replace('|', "_"), self.client)
    }

    /// What a claim of this client writes into a queue: for how long it may be offered the lock, where it
    /// hears of that, and who it is.
    pub(super) fn place_of(&self, owner: &str, offer_ms: u64) -> String {
        // The separator cannot stand in a channel; an owner ends the text.
        format!("{offer_ms}|{}|{owner}", self.channel())
    }
}

/// The queue of those who wait for `lock`, in its slot: the whole name of the lock is the hash tag.
pub(super) fn queue_of(lock: &str) -> String {
    format!("{{{lock}}}:queue")
}
