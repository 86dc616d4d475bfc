//! Increments that were overwritten by somebody who had not read them.

/// One counter: what became of it, and what its writers know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Tally {
    /// Its value at the end.
    pub(in super::super) count: u64,
    /// How many writes the store has carried out, by the list that each adds to.
    pub(in super::super) carried_out: u64,
    /// How many writes it has acknowledged, by what the workers told. Fewer than carried out where a
    /// worker was killed in between.
    pub(in super::super) acknowledged: u64,
}

/// How many increments are missing: carried out or acknowledged, and not part of the count. Each
/// write stores what it read plus one, so a counter that nobody overwrote equals the writes.
pub(in super::super) fn lost(tallies: impl IntoIterator<Item = Tally>) -> u64 {
    let missing = |tally: Tally| tally.carried_out.max(tally.acknowledged).saturating_sub(tally.count);
    tallies.into_iter().map(missing).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_equals_its_writes_has_lost_nothing() {
        let exact = Tally { count: 7, carried_out: 7, acknowledged: 7 };
        let unacknowledged = Tally { acknowledged: 6, ..exact };
        assert_eq!(lost([exact, unacknowledged]), 0);
    }

    #[test]
    fn an_overwritten_increment_is_lost() {
        assert_eq!(lost([Tally { count: 5, carried_out: 7, acknowledged: 7 }]), 2);
    }

    #[test]
    fn an_acknowledged_increment_that_the_store_does_not_have_is_lost() {
        assert_eq!(lost([Tally { count: 6, carried_out: 6, acknowledged: 7 }]), 1);
    }
}
