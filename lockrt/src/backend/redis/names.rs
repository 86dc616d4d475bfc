//! The names of keys and channels that stand beside the locks.

use std::fmt::{self, Display, Formatter};

use redis::{RedisWrite, ToRedisArgs};

use crate::backend::redis::slots;
use crate::token::{OwnerToken, Wire};

/// What one client calls them.
#[derive(Clone, Debug)]
pub(super) struct Names {
    prefix: String,
    /// Tells the client from all others.
    client: u64,
    channel: String,
}

impl Names {
    pub(super) fn new(prefix: &str, client: u64) -> Self {
        // What stands in a place is told apart by this sign.
        let channel = format!("{}waiter:{client:016x}", prefix.replace('|', "_"));
        Self { prefix: prefix.to_owned(), client, channel }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn with_prefix(&self, prefix: &str) -> Self {
        Self::new(prefix, self.client)
    }

    /// The key with the last token of a slot. One per lock would stay for ever.
    pub(super) fn fence_of(&self, slot: u16) -> Text<impl Write> {
        let number = slots::number_in(slot);
        Text(move |f: &mut Formatter<'_>| write!(f, "{}{{{number}}}:fencing", self.prefix))
    }

    /// Where this client hears of its places.
    pub(super) fn channel(&self) -> &str {
        &self.channel
    }

    /// What a claim of this client writes into a queue: for how long it may be offered the lock, where it
    /// hears of that, and who it is.
    pub(super) fn place_of(&self, owner: &OwnerToken, offer_ms: u64) -> Text<impl Write> {
        // The separator cannot stand in a channel; an owner ends the text.
        Text(move |f: &mut Formatter<'_>| write!(f, "{offer_ms}|{}|{}", self.channel, Wire(owner)))
    }
}

/// The queue of those who wait for `lock`, in its slot: the whole name of the lock is the hash tag.
pub(super) fn queue_of(lock: &str) -> Text<impl Write> {
    Text(move |f: &mut Formatter<'_>| write!(f, "{{{lock}}}:queue"))
}

/// What the lock of this owner holds.
pub(super) fn value_of(owner: &OwnerToken) -> Text<impl Write> {
    Text(move |f: &mut Formatter<'_>| write!(f, "{}", Wire(owner)))
}

/// What it holds while it is offered to this owner: one that was taken has no `?`.
pub(super) fn offer_to(owner: &str) -> Text<impl Write> {
    Text(move |f: &mut Formatter<'_>| write!(f, "{owner}?"))
}

/// Text that is written into its command, without a string of its own.
pub(super) struct Text<W>(W);

pub(super) trait Write: Fn(&mut Formatter<'_>) -> fmt::Result {}

impl<W: Fn(&mut Formatter<'_>) -> fmt::Result> Write for W {}

impl<W: Write> Display for Text<W> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        (self.0)(f)
    }
}

impl<W: Write> ToRedisArgs for Text<W> {
    fn write_redis_args<O: ?Sized + RedisWrite>(&self, out: &mut O) {
        out.write_arg_fmt(self);
    }
}
