//! The keys that the workers fight over.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use lockrt::LockKey;
use serde::{Deserialize, Serialize};

use crate::Dice;

/// How many keys are wanted by several workers at any time.
pub(super) const HOT: u16 = 16;

/// How many keys are rarely wanted by two.
const COLD: u16 = 1_000;

/// How long each of them is locked, without renewal.
pub(super) const TTL: Duration = Duration::from_millis(500);

/// How long they are locked at last, when all faults have ended: longer than anybody needs to look for locks
/// that were not given back.
pub(super) const LAST_TTL: Duration = Duration::from_secs(3);

/// One of the keys, the hot ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Spot(pub(super) u16);

impl Spot {
    /// The hot keys.
    pub(super) fn hot() -> impl Iterator<Item = Self> + Clone {
        (0..HOT).map(Self)
    }

    /// All keys.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..HOT + COLD).map(Self)
    }

    /// A hot key seven times of ten.
    pub(super) fn draw(dice: &mut Dice) -> Self {
        if dice.within(0..10) < 7 { Self::within(0..HOT, dice) } else { Self::cold(dice) }
    }

    /// One of the others.
    pub(super) fn cold(dice: &mut Dice) -> Self {
        Self::within(HOT..HOT + COLD, dice)
    }

    fn within(keys: Range<u16>, dice: &mut Dice) -> Self {
        let key = dice.within(keys.start.into()..keys.end.into());
        Self(u16::try_from(key).unwrap_or_default())
    }

    /// What is locked.
    pub(super) fn key(self) -> LockKey {
        crate::key(&self.to_string())
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number) = self;
        if *number < HOT { write!(f, "hot:{number}") } else { write!(f, "cold:{}", number - HOT) }
    }
}
