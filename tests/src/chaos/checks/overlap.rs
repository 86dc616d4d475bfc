//! Two holders of one key at one moment.

use super::super::history::{Grant, Use};

/// Each grant that was in use when an earlier one of its key still was, after that one: from the
/// first moment at which its lease said that it was valid to the last.
pub(in super::super) fn overlaps(grants: &[Grant]) -> Vec<(Grant, Grant)> {
    let mut uses: Vec<_> = grants.iter().filter_map(|grant| Some((*grant, grant.used?))).collect();
    uses.sort_by_key(|(grant, used)| (grant.spot, used.first_ns));
    let mut found = Vec::new();
    let mut longest: Option<(Grant, Use)> = None;
    for (grant, used) in uses {
        match longest {
            Some((holder, held)) if holder.spot == grant.spot && used.first_ns < held.last_ns => {
                found.push((holder, grant));
                if used.last_ns > held.last_ns {
                    longest = Some((grant, used));
                }
            }
            _ => longest = Some((grant, used)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::written::{elsewhere, unused, used};
    use super::*;

    fn tokens(grants: &[Grant]) -> Vec<(u64, u64)> {
        overlaps(grants).iter().map(|(holder, grant)| (holder.token, grant.token)).collect()
    }

    #[test]
    fn holders_one_after_the_other_do_not_overlap() {
        assert_eq!(tokens(&[used(2, 20, 30), used(1, 10, 19), elsewhere(used(3, 15, 25))]), []);
    }

    #[test]
    fn two_holders_at_one_moment_overlap() {
        assert_eq!(tokens(&[used(1, 10, 21), used(2, 20, 30)]), [(1, 2)]);
    }

    #[test]
    fn a_long_holder_overlaps_each_that_comes_meanwhile() {
        let grants = [used(1, 10, 100), used(2, 20, 30), used(3, 40, 50), used(4, 101, 102)];
        assert_eq!(tokens(&grants), [(1, 2), (1, 3)]);
        assert_eq!(tokens(&[used(1, 10, 30), used(2, 20, 50), used(3, 40, 45)]), [(1, 2), (2, 3)]);
    }

    #[test]
    fn a_grant_whose_lease_never_said_it_was_valid_overlaps_nobody() {
        assert_eq!(tokens(&[used(1, 10, 100), unused(2, 20, 30)]), []);
    }
}
