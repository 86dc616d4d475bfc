//! Fenced writes for data in Redis: the comparison of tokens and the write are one call.
//!
//! The data may be on another Redis than the locks, and the locks need not be in Redis at all.
//!
//! ```no_run
//! use lockrt::fence::redis::{RedisFence, Write};
//! use lockrt::{LockError, distributed_lock};
//! use redis::AsyncCommands;
//!
//! #[distributed_lock(key = "quote:{id}", ttl_ms = 10_000, lease = lease, fencing = required)]
//! async fn raise_price(
//!     id: u64,
//!     mut redis: redis::aio::MultiplexedConnection,
//! ) -> Result<(), Box<dyn std::error::Error>> {
//!     let key = format!("quote:{id}:price");
//!     let fence = RedisFence::beside(&key)?;
//!     fence.register(&mut redis, lease).await?; // before the first read
//!     let price: u64 = redis.get(&key).await?;
//!     fence.write(&mut redis, lease, Write::set(price + 10)).await?;
//!     Ok(())
//! }
//! ```
//!
//! # Where the token is kept
//!
//! In two fields of a hash, `lockrt:token` (the greatest seen) and `lockrt:written` (the last one that
//! wrote), as decimal digits:
//!
//! * [`RedisFence::inside`]: of the data themselves, if they are a hash. The token lives and dies with
//!   them, and costs some 50 bytes.
//! * [`RedisFence::beside`]: of a key next to any kind of data, in the same cluster slot:
//!   `{<data key>}:fence`, or `<data key>::fence` if the key has a hash tag. It costs some 150 bytes,
//!   and stays when the data are deleted or expire, so that a stale write cannot bring them back.
//!
//! # How long it is kept
//!
//! Whoever loses the token lets a stale write land. So a key beside the data has no expiry unless you
//! [give it one](RedisFence::kept_for), and in that it differs from all other keys of this crate but
//! the fences of the lock service. Give one where data keys come and go: then a holder that was paused
//! for longer, while nobody else came, can write. For the same reason set
//! `maxmemory-policy noeviction` where fenced data live. A failover that loses the last writes loses
//! data and token together, and the fence goes on from there.

mod call;
mod write;

use std::fmt;
use std::time::Duration;

use redis::Value;
use redis::aio::ConnectionLike;

pub use self::write::{REGISTER, WRITE, Write, WriteScript};

use self::call::Call;
use self::write::{REGISTERING, WRITING, What};
use crate::fence::error::{FenceError, Mistake};
use crate::fence::marks::{Idiom, usable};
use crate::fence::resource::Resource;
use crate::token::FencingToken;

/// A hundred years: far above every use, and far below where the server's clock overflows.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// A fence around one key of Redis.
///
/// Making one sends nothing. Every call takes a connection of the caller's (of one server, of a
/// cluster, a `ConnectionManager`) and a `&Lease`, or for callees a [`FencingToken`] or
/// `lease.fencing()`, and is one round trip; two where the server has forgotten the script.
///
/// # Errors
///
/// All calls give [`FenceError::Stale`] if a later holder is known, [`FenceError::NoToken`] or
/// [`FenceError::Invalid`] before anything is sent, [`FenceError::Unusable`] where a key holds what is
/// no token, or another type of value, and [`FenceError::Unavailable`] if Redis refuses or does not
/// answer.
///
/// # Cancellation
///
/// A call that is dropped may be carried out all the same. So may one whose connection broke, and
/// clients of a cluster repeat those by themselves: [`write_once`](Self::write_once) is for writes
/// that must not be done twice.
#[derive(Clone)]
pub struct RedisFence {
    data: Resource,
    token_key: String,
    keep: Keep,
}

/// For how long the token is kept, as the scripts read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    Always,
    WithData,
    For(Duration),
}

impl RedisFence {
    /// A fence around `data` of any type, whose token is kept beside them and stays when they go.
    ///
    /// # Errors
    ///
    /// [`FenceError::Invalid`] if the key is empty, over 1 KiB, or has braces that are no hash tag.
    pub fn beside(data: &str) -> Result<Self, FenceError> {
        let token_key = token_key(data).ok_or(FenceError::Invalid(Mistake::Braces))?;
        Ok(Self { data: Resource::new(data)?, token_key, keep: Keep::Always })
    }

    /// A fence around the hash `data`, whose token is kept in fields of it and goes with them.
    ///
    /// Commands that do not begin with `H` are refused: they would replace or delete the hash. A
    /// script that does so deletes the token.
    ///
    /// # Errors
    ///
    /// [`FenceError::Invalid`] if the key is empty or over 1 KiB.
    pub fn inside(data: &str) -> Result<Self, FenceError> {
        Ok(Self { data: Resource::new(data)?, token_key: data.to_owned(), keep: Keep::WithData })
    }

    /// Sets for how long a token beside the data is kept after its last use; it has no end unless
    /// set. Choose it longer than any holder can be paused.
    ///
    /// # Errors
    ///
    /// [`FenceError::Invalid`] for less than 1 ms, more than 100 years, or a token that is kept inside.
    pub fn kept_for(self, time: Duration) -> Result<Self, FenceError> {
        match self.keep {
            Keep::WithData => Err(FenceError::Invalid(Mistake::ExpiryOfData)),
            _ if time.as_millis() == 0 || time > LONGEST => Err(FenceError::Invalid(Mistake::Expiry)),
            _ => Ok(Self { keep: Keep::For(time), ..self }),
        }
    }

    /// The key in which the token is kept.
    #[must_use]
    pub fn token_key(&self) -> &str {
        &self.token_key
    }

    /// Announces the holder: whoever has an older token is refused from now on, before it can write.
    /// Call it before the first read.
    ///
    /// # Errors
    ///
    /// See [the type](Self#errors).
    ///
    /// # Cancellation
    ///
    /// See [the type](Self#cancellation).
    pub async fn register(
        &self,
        connection: &mut impl ConnectionLike,
        token: impl Into<Option<FencingToken>>,
    ) -> Result<(), FenceError> {
        let token = usable(&self.data, token)?;
        let call = Call { fence: self, token, idiom: Idiom::Register };
        call.make(connection, &REGISTERING, None).await.map(drop)
    }

    /// Writes unless a later holder is known, and refuses older ones from then on; one holder may
    /// write more than once. Gives what Redis answered.
    ///
    /// # Errors
    ///
    /// See [the type](Self#errors).
    ///
    /// # Cancellation
    ///
    /// See [the type](Self#cancellation).
    pub async fn write(
        &self,
        connection: &mut impl ConnectionLike,
        token: impl Into<Option<FencingToken>>,
        write: Write,
    ) -> Result<Value, FenceError> {
        self.pass(connection, usable(&self.data, token)?, Idiom::Write, &write).await
    }

    /// Writes unless a later holder is known or this one has written: once per grant, so that a retry
    /// cannot do it twice. Gives what Redis answered.
    ///
    /// # Errors
    ///
    /// See [the type](Self#errors), and [`FenceError::Repeated`] if this grant has written before.
    ///
    /// # Cancellation
    ///
    /// See [the type](Self#cancellation).
    pub async fn write_once(
        &self,
        connection: &mut impl ConnectionLike,
        token: impl Into<Option<FencingToken>>,
        write: Write,
    ) -> Result<Value, FenceError> {
        self.pass(connection, usable(&self.data, token)?, Idiom::Once, &write).await
    }

    async fn pass(
        &self,
        connection: &mut impl ConnectionLike,
        token: FencingToken,
        idiom: Idiom,
        write: &Write,
    ) -> Result<Value, FenceError> {
        if let (Keep::WithData, Some(command)) = (self.keep, write.command_name())
            && !command.starts_with(['h', 'H'])
        {
            let command = command.to_owned();
            return Err(FenceError::Invalid(Mistake::Replaces { command }));
        }
        let script = match &write.what {
            What::Command(_) => &*WRITING,
            What::Script(script) => script,
        };
        Call { fence: self, token, idiom }.make(connection, script, Some(write)).await
    }
}

impl fmt::Debug for RedisFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisFence")
            .field("data", &self.data)
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}

/// The name of the key for the token of `data` in their slot; none if there is no such name.
///
/// What stands between the first `{` and the next `}` chooses the slot, unless it is empty. The two
/// forms differ in their colons, so that no two keys share a token.
fn token_key(data: &str) -> Option<String> {
    if !data.contains(['{', '}']) {
        return Some(format!("{{{data}}}:fence"));
    }
    let (_, tagged) = data.split_once('{')?;
    let (tag, _) = tagged.split_once('}')?;
    (!tag.is_empty()).then(|| format!("{data}::fence"))
}
