//! The ways to write a counter under a lock: [`Way`].

use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    RowNaive,
    RowChecked,
    RowFence,
    RowOnce,
    RowColumn,
    RowColumnOnce,
    LockIn,
    RedisNaive,
    RedisFence,
    RedisOnce,
    ObjectNaive,
    ObjectFence,
    ObjectOnce,
    ObjectMidWrite,
    Forgetful,
}

pub(crate) const WAYS: [Way; 15] = [
    Way::RowNaive,
    Way::RowChecked,
    Way::RowFence,
    Way::RowOnce,
    Way::RowColumn,
    Way::RowColumnOnce,
    Way::LockIn,
    Way::RedisNaive,
    Way::RedisFence,
    Way::RedisOnce,
    Way::ObjectNaive,
    Way::ObjectFence,
    Way::ObjectOnce,
    Way::ObjectMidWrite,
    Way::Forgetful,
];

/// Where the counter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Row,
    Redis,
    Object,
}

impl Way {
    fn described(self) -> (&'static str, &'static str) {
        match self {
            Self::RowNaive => ("row-naive", "PostgreSQL: the lock alone"),
            Self::RowChecked => ("row-checked", "PostgreSQL: `lease.check()` before the write"),
            Self::RowFence => ("row-fence", "PostgreSQL: `PostgresFence`, `register` and `guard`"),
            Self::RowOnce => ("row-once", "PostgreSQL: `PostgresFence`, `guard_once`"),
            Self::RowColumn => {
                ("row-column", "PostgreSQL: a column, `<= $1` before the read and at the write")
            }
            Self::RowColumnOnce => ("row-column-once", "PostgreSQL: a column, `< $1` at the write"),
            Self::LockIn => ("lock-in", "PostgreSQL: `lock_in`, in the data's own transaction"),
            Self::RedisNaive => ("redis-naive", "Redis: the lock alone"),
            Self::RedisFence => ("redis-fence", "Redis: `RedisFence`, `register` and `write`"),
            Self::RedisOnce => ("redis-once", "Redis: `RedisFence`, `write_once`"),
            Self::ObjectNaive => ("object-naive", "object: the lock alone"),
            Self::ObjectFence => ("object-fence", "object: `ObjectFence`, `register` and `write`"),
            Self::ObjectOnce => ("object-once", "object: `ObjectFence`, `write_once`"),
            Self::ObjectMidWrite => {
                ("object-mid-write", "object: the same, stopped between comparison and put")
            }
            Self::Forgetful => ("forgetful", "a fence that each process has for itself"),
        }
    }

    pub(crate) fn word(self) -> &'static str {
        self.described().0
    }

    pub(crate) fn label(self) -> &'static str {
        self.described().1
    }

    /// Whether no stale write may pass.
    pub(crate) fn is_safe(self) -> bool {
        !matches!(self, Self::RowNaive | Self::RowChecked | Self::RedisNaive | Self::ObjectNaive)
    }

    pub(crate) fn place(self) -> Place {
        match self {
            Self::RedisNaive | Self::RedisFence | Self::RedisOnce => Place::Redis,
            Self::ObjectNaive | Self::ObjectFence | Self::ObjectOnce | Self::ObjectMidWrite => Place::Object,
            _ => Place::Row,
        }
    }
}

impl FromStr for Way {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        WAYS.into_iter().find(|way| way.word() == word).ok_or_else(|| {
            let words: Vec<&str> = WAYS.into_iter().map(Self::word).collect();
            format!("write one of {}", words.join(", "))
        })
    }
}
