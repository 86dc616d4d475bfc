//! The names of keys and channels that stand beside the locks.

use std::io::Write as _;

use redis::{RedisWrite, ToRedisArgs};

use crate::backend::redis::slots;
use crate::digits::Digits;
use crate::token::OwnerToken;

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
    pub(super) fn fence_of(&self, slot: u16) -> Text<impl Spell> {
        let number = slots::number_in(slot);
        Text(move |write: &mut dyn FnMut(&str)| {
            write(&self.prefix);
            write("{");
            write(Digits::decimal(u64::from(number)).as_str());
            write("}:fencing");
        })
    }

    /// Where this client hears of its places.
    pub(super) fn channel(&self) -> &str {
        &self.channel
    }

    /// What a claim of this client writes into a queue: for how long it may be offered the lock, where it
    /// hears of that, and who it is.
    pub(super) fn place_of(&self, owner: &OwnerToken, offer_ms: u64) -> Text<impl Spell> {
        Text(move |write: &mut dyn FnMut(&str)| {
            // The separator cannot stand in a channel; an owner ends the text.
            write(Digits::decimal(offer_ms).as_str());
            write("|");
            write(&self.channel);
            write("|");
            owner.spell(write);
        })
    }
}

/// The queue of those who wait for `lock`, in its slot: the whole name of the lock is the hash tag.
pub(super) fn queue_of(lock: &str) -> Text<impl Spell> {
    Text(move |write: &mut dyn FnMut(&str)| ["{", lock, "}:queue"].into_iter().for_each(write))
}

/// What the lock of this owner holds.
pub(super) fn value_of(owner: &OwnerToken) -> Text<impl Spell> {
    Text(move |write: &mut dyn FnMut(&str)| owner.spell(write))
}

/// What it holds while it is offered to this owner: one that was taken has no `?`.
pub(super) fn offer_to(owner: &str) -> Text<impl Spell> {
    Text(move |write: &mut dyn FnMut(&str)| [owner, "?"].into_iter().for_each(write))
}

/// Text that is written into its command piece by piece, without a string of its own.
pub(super) struct Text<S>(S);

pub(super) trait Spell: Fn(&mut dyn FnMut(&str)) {}

impl<S: Fn(&mut dyn FnMut(&str))> Spell for S {}

impl<S: Spell> ToRedisArgs for Text<S> {
    fn write_redis_args<O: ?Sized + RedisWrite>(&self, out: &mut O) {
        let mut arg = out.writer_for_next_arg();
        // Writing to memory does not fail.
        (self.0)(&mut |piece| drop(arg.write_all(piece.as_bytes())));
    }
}
