//! What is due next, of many claims whose moments change often.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::clock::Moment;
use crate::protocol::kept::Id;

/// How many moments are kept without asking which of them still count.
const FEW: usize = 64;

/// Moments in their order, those at one moment in the order of their claims.
///
/// A moment that was replaced by another one is not looked for: it stays until its turn comes, or until most
/// of them are such. So setting one costs next to nothing, and a lock that is given back long before its
/// deadline costs no search for it.
#[derive(Debug, Default)]
pub(crate) struct Due {
    moments: BinaryHeap<Reverse<(Moment, Id)>>,
    /// How many were left when the others were last forgotten.
    counted: usize,
}

impl Due {
    pub(crate) fn set(&mut self, at: Moment, id: Id) {
        self.moments.push(Reverse((at, id)));
    }

    /// Forgets moments that do not count any more: all that come first, and the others if they are many.
    /// To be called after each change, so that [`first`](Self::first) is one that counts.
    pub(crate) fn tidy(&mut self, counts: impl Fn(Moment, Id) -> bool) {
        if self.moments.len() > FEW + 2 * self.counted {
            self.moments.retain(|Reverse((at, id))| counts(*at, *id));
            self.counted = self.moments.len();
            self.moments.shrink_to(FEW + 4 * self.counted);
        }
        while let Some(Reverse((at, id))) = self.moments.peek()
            && !counts(*at, *id)
        {
            self.moments.pop();
        }
    }

    pub(crate) fn first(&self) -> Option<(Moment, Id)> {
        self.moments.peek().map(|Reverse(first)| *first)
    }

    /// Takes the first one out if its moment has come.
    pub(crate) fn take(&mut self, now: Moment) -> Option<(Moment, Id)> {
        self.first().filter(|(at, _)| *at <= now)?;
        self.moments.pop().map(|Reverse(first)| first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> Moment {
        Moment::from_nanos(nanos)
    }

    #[test]
    fn moments_come_in_their_order_then_in_that_of_their_claims() {
        let mut due = Due::default();
        for (moment, id) in [(3, 1), (1, 9), (2, 4), (1, 2)] {
            due.set(at(moment), id);
        }
        assert_eq!(due.take(at(0)), None);
        let taken: Vec<_> = std::iter::from_fn(|| due.take(at(2))).collect();
        assert_eq!(taken, [(at(1), 2), (at(1), 9), (at(2), 4)]);
        assert_eq!(due.first(), Some((at(3), 1)));
    }

    #[test]
    fn moments_that_do_not_count_any_more_neither_come_first_nor_pile_up() {
        let mut due = Due::default();
        due.set(at(1_000_000), 0);
        for id in 1..100_000 {
            due.set(at(id), id);
            due.tidy(|_, id| id == 0);
            assert_eq!(due.first(), Some((at(1_000_000), 0)));
        }
        for id in 1..100_000 {
            due.set(at(2_000_000 + id), id);
            due.tidy(|_, id| id == 0);
        }
        assert!(due.moments.len() <= FEW + 2, "{}", due.moments.len());
        assert!(due.moments.capacity() <= 4 * FEW, "{}", due.moments.capacity());
    }
}
