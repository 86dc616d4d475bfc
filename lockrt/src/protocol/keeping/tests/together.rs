//! Leases that are due one shortly after the other.

use super::*;

const LONG: u64 = 30_000;

/// So many leases, each granted 10 ms after the one before it, whose renewals are due 10 s later.
fn held_in_turn(leases: u64, terms: Terms) -> Keeping {
    let mut keeping = Keeping::default();
    for id in 0..leases {
        let (record, claim) = (record(), claim().with_ttl(ms(LONG)));
        keeping.step(Event::Try { id, claim, terms, record: Arc::clone(&record) }, at(10 * id));
        granted(&mut keeping, id, 10 * id, 10 * id);
        record.word().take();
    }
    keeping
}

/// The leases that are renewed, call by call.
fn calls(actions: &[Action]) -> Vec<Vec<Id>> {
    let call = |action: &Action| match action {
        Action::Renew(ids) => ids.clone(),
        other => panic!("{other:?}"),
    };
    actions.iter().map(call).collect()
}

#[test]
fn a_call_takes_those_along_that_are_due_within_a_thirtieth_of_their_ttl() {
    let mut keeping = held_in_turn(300, Terms { renew_for: Some(ms(600_000)), ..terms() });
    let first = calls(&tick(&mut keeping, 10_000));
    assert_eq!(first, [(0..=100).collect::<Vec<_>>()], "those that are due by 11 s");
    assert!(tick(&mut keeping, 10_500).is_empty(), "they are on their way");
    assert_eq!(keeping.next_due(), Some(at(11_010)));
    // 150 are late: a call of 128, and the rest with others behind it.
    let second = calls(&tick(&mut keeping, 12_500));
    let sizes: Vec<usize> = second.iter().map(Vec::len).collect();
    assert_eq!(sizes, [BATCH, 299 - 100 - BATCH]);
}

#[test]
fn leases_that_were_renewed_together_are_due_together() {
    let mut keeping = held_in_turn(50, Terms { renew_for: Some(ms(600_000)), ..terms() });
    let [ids] = &calls(&tick(&mut keeping, 10_000))[..] else { panic!("not one call") };
    let answers = ids.iter().map(|id| (*id, Some(Renewed::Extended))).collect();
    keeping.step(Event::Renewed { sent: at(10_000), answers }, at(10_005));
    assert!(tick(&mut keeping, 19_999).is_empty());
    assert_eq!(calls(&tick(&mut keeping, 20_000))[0].len(), 50);
}

#[test]
fn a_lease_whose_renewal_ends_before_is_not_taken_along() {
    let mut keeping = held_in_turn(2, Terms { renew_for: Some(ms(10_900)), ..terms() });
    assert_eq!(calls(&tick(&mut keeping, 10_000)), [[0]]);
}
