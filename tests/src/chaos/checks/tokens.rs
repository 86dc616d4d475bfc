//! Fencing tokens that repeat, or fall in the order of grants.

use std::collections::HashSet;

use super::super::history::Grant;

/// How many tokens were given twice for one key.
pub(in super::super) fn repeated(grants: &[Grant]) -> u64 {
    let mut seen = HashSet::new();
    grants.iter().map(|grant| u64::from(!seen.insert((grant.spot, grant.token)))).sum()
}

/// How many grants have a smaller token than one that came before them.
///
/// A grant that was answered before another was asked for came before it, whatever the service has
/// lost. Where it has lost no lock, uses exclude each other, and their order is that of the grants.
pub(in super::super) fn disorder(grants: &[Grant], loses_locks: bool) -> u64 {
    let answered = order(grants, |grant| Some((grant.asked_ns, grant.answered_ns)));
    if loses_locks {
        return answered;
    }
    answered + order(grants, |grant| grant.used.map(|used| (used.first_ns, used.first_ns)))
}

/// How many grants have a smaller token than one whose span ended before theirs began.
fn order(grants: &[Grant], span: impl Fn(&Grant) -> Option<(u64, u64)>) -> u64 {
    let spans = grants.iter().filter_map(|grant| Some((grant.spot, span(grant)?, grant.token)));
    let mut by_begin: Vec<_> = spans.collect();
    let mut by_end = by_begin.clone();
    by_begin.sort_by_key(|(spot, (begin, _), _)| (*spot, *begin));
    by_end.sort_by_key(|(spot, (_, end), _)| (*spot, *end));
    let mut ended = by_end.into_iter().peekable();
    let mut greatest = None;
    let mut found = 0;
    for (spot, (begin, _), token) in by_begin {
        while let Some((of, _, before)) = ended.next_if(|(of, (_, end), _)| (*of, *end) < (spot, begin)) {
            greatest = match greatest {
                Some((key, most)) if key == of && most > before => Some((key, most)),
                _ => Some((of, before)),
            };
        }
        found += u64::from(greatest.is_some_and(|(of, most)| of == spot && most > token));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::written::{elsewhere, unused, used};
    use super::*;

    #[test]
    fn rising_tokens_are_in_order() {
        let grants = [used(1, 10, 20), used(3, 30, 40), used(2, 25, 28), elsewhere(used(1, 50, 60))];
        assert_eq!((repeated(&grants), disorder(&grants, false), disorder(&grants, true)), (0, 0, 0));
    }

    #[test]
    fn a_token_given_twice_is_seen() {
        assert_eq!(repeated(&[used(1, 10, 20), used(2, 30, 40), used(1, 50, 60)]), 1);
    }

    #[test]
    fn a_token_below_one_of_an_earlier_use_is_seen() {
        let grants = [used(5, 10, 20), used(6, 22, 25), used(4, 30, 40), used(7, 50, 60)];
        assert!(disorder(&grants, false) > 0);
        assert_eq!(disorder(&grants, true), 1);
    }

    #[test]
    fn answers_in_any_order_are_fine_while_both_ask() {
        assert_eq!(disorder(&[unused(2, 10, 30), unused(1, 20, 40)], true), 0);
        assert_eq!(disorder(&[unused(2, 10, 30), unused(1, 31, 40)], true), 1);
    }

    #[test]
    fn uses_that_overlap_have_no_order_where_data_was_lost() {
        let grants = [used(2, 10, 50), used(1, 12, 40)].map(|grant| Grant { asked_ns: 5, ..grant });
        assert_eq!((disorder(&grants, true), disorder(&grants, false)), (0, 1));
    }
}
