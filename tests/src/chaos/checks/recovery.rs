//! How soon after the end of all faults every hot key has been granted again.

use super::super::history::Grant;
use super::super::spot::Spot;

/// When the last of `spots` was first granted, counted from `healed_ns`; none while one is missing.
pub(in super::super) fn recovery_ns(
    grants: &[Grant],
    mut spots: impl Iterator<Item = Spot>,
    healed_ns: u64,
) -> Option<u64> {
    let late: Vec<_> = grants.iter().filter(|grant| grant.answered_ns >= healed_ns).collect();
    spots.try_fold(0, |worst: u64, spot| {
        let first = late.iter().filter(|grant| grant.spot == spot).map(|grant| grant.answered_ns).min()?;
        Some(worst.max(first - healed_ns))
    })
}

#[cfg(test)]
mod tests {
    use super::super::written::{elsewhere, used};
    use super::*;

    const BOTH: [Spot; 2] = [Spot(1), Spot(2)];

    #[test]
    fn the_slowest_key_counts_and_of_each_its_first_grant() {
        let grants = [used(1, 90, 99), used(2, 103, 104), used(3, 150, 151), elsewhere(used(4, 120, 121))];
        assert_eq!(recovery_ns(&grants, BOTH.into_iter(), 100), Some(20));
    }

    #[test]
    fn a_key_that_is_never_granted_again_has_not_recovered() {
        let grants = [used(1, 103, 104), elsewhere(used(2, 90, 200))];
        assert_eq!(recovery_ns(&grants, BOTH.into_iter(), 100), None);
    }
}
