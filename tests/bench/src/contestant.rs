//! The libraries that are measured, behind one trait; each has its file.

pub(crate) mod async_redis_lock;
pub(crate) mod lockrt;
pub(crate) mod raw;
pub(crate) mod redlock;
pub(crate) mod rslock;

use crate::Result;
use crate::options::Orders;

/// How a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// At once: nobody else has it.
    Free,
    /// After whoever has it.
    Wait,
    /// At once, and renewed until it is released, if the library does that.
    Renewed,
}

/// One client of one library.
pub(crate) trait Contestant: Sized + 'static {
    /// A key, as the library wants it: made beforehand, as services reuse theirs.
    type Key: 'static;
    /// What is held.
    type Held: 'static;

    async fn connect(orders: &Orders) -> Result<Self>;

    fn key(number: usize) -> Self::Key;

    async fn acquire(&self, key: &Self::Key, how: How) -> Result<Self::Held>;

    /// Gives the lock back, and waits for the answer where the library does.
    async fn release(&self, held: Self::Held) -> Result<()>;
}

/// The name of key `number` in the server, for all contestants alike: 31 bytes.
pub(crate) fn stored_key(number: usize) -> String {
    format!("lock:{}", bare_key(number))
}

/// The same without lockrt's prefix.
pub(crate) fn bare_key(number: usize) -> String {
    format!("bench:{number:020}")
}

/// All that is measured, peers in other languages included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    Lockrt,
    /// lockrt, without waiting for the release.
    LockrtStarted,
    /// redis-rs with its defaults, sending what lockrt sends.
    Raw,
    /// The same without what redis-rs adds by default.
    Lean,
    Rslock,
    AsyncRedisLock,
    Redlock,
    RedisPy,
    PythonRedisLock,
    NodeRedlock,
    RedisSemaphore,
}

impl Name {
    const ALL: [Self; 11] = [
        Self::Lockrt,
        Self::LockrtStarted,
        Self::Raw,
        Self::Lean,
        Self::Rslock,
        Self::AsyncRedisLock,
        Self::Redlock,
        Self::RedisPy,
        Self::PythonRedisLock,
        Self::NodeRedlock,
        Self::RedisSemaphore,
    ];

    /// Its name in arguments.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Lockrt => "lockrt",
            Self::LockrtStarted => "lockrt-started",
            Self::Raw => "raw",
            Self::Lean => "lean",
            Self::Rslock => "rslock",
            Self::AsyncRedisLock => "async-redis-lock",
            Self::Redlock => "redlock",
            Self::RedisPy => "redis_py",
            Self::PythonRedisLock => "python_redis_lock",
            Self::NodeRedlock => "node_redlock",
            Self::RedisSemaphore => "redis_semaphore",
        }
    }

    /// Its name in table and chart.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Lockrt => "lockrt",
            Self::LockrtStarted => "lockrt, release not awaited",
            Self::Raw => "redis-rs, same commands",
            Self::Lean => "redis-rs, same commands, lean",
            Self::Rslock => "rslock",
            Self::AsyncRedisLock => "async-redis-lock",
            Self::Redlock => "redlock (Rust)",
            Self::RedisPy => "redis-py (Python)",
            Self::PythonRedisLock => "python-redis-lock",
            Self::NodeRedlock => "redlock (Node)",
            Self::RedisSemaphore => "redis-semaphore (Node)",
        }
    }

    pub(crate) fn language(self) -> Language {
        match self {
            Self::RedisPy | Self::PythonRedisLock => Language::Python,
            Self::NodeRedlock | Self::RedisSemaphore => Language::JavaScript,
            _ => Language::Rust,
        }
    }

    pub(crate) fn named(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|name| name.word() == word);
        found.ok_or_else(|| format!("nobody is called `{word}`"))
    }
}

/// What a driver is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    Python,
    JavaScript,
}
