//! Two holders of one key at one moment.

use super::super::history::Grant;

/// How many grants were in use when an earlier one of their key still was: from the first moment at
/// which its lease said that it was valid to the last.
pub(in super::super) fn overlaps(grants: &[Grant]) -> u64 {
    let mut uses: Vec<_> = grants.iter().filter_map(|grant| Some((grant.spot, grant.used?))).collect();
    uses.sort_by_key(|(spot, used)| (*spot, used.first_ns));
    let mut found = 0;
    let mut before = None;
    for (spot, used) in uses {
        let free_at = match before {
            Some((earlier, last_ns)) if earlier == spot => last_ns,
            _ => 0,
        };
        found += u64::from(used.first_ns < free_at);
        before = Some((spot, free_at.max(used.last_ns)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::written::{elsewhere, unused, used};
    use super::*;

    #[test]
    fn holders_one_after_the_other_do_not_overlap() {
        assert_eq!(overlaps(&[used(2, 20, 30), used(1, 10, 19), elsewhere(used(3, 15, 25))]), 0);
    }

    #[test]
    fn two_holders_at_one_moment_overlap() {
        assert_eq!(overlaps(&[used(1, 10, 21), used(2, 20, 30)]), 1);
    }

    #[test]
    fn a_long_holder_overlaps_each_that_comes_meanwhile() {
        assert_eq!(overlaps(&[used(1, 10, 100), used(2, 20, 30), used(3, 40, 50), used(4, 101, 102)]), 2);
    }

    #[test]
    fn a_grant_whose_lease_never_said_it_was_valid_overlaps_nobody() {
        assert_eq!(overlaps(&[used(1, 10, 100), unused(2, 20, 30)]), 0);
    }
}
