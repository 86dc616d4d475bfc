//! What becomes of a key when its caller goes, or never comes.

use super::*;

#[test]
fn hold_on_cancel_keeps_the_key_of_a_dropped_body_only() {
    let kept = Terms { hold_on_cancel: true, ..terms() };
    let (mut keeping, _) = held(kept);
    assert!(matches!(release(&mut keeping, Parting::Dropped, 1).as_slice(), [Action::Forget(1)]));
    for parting in [Parting::Ended, Parting::Unused] {
        let (mut keeping, _) = held(kept);
        assert!(matches!(release(&mut keeping, parting, 1).as_slice(), [Action::Free(1)]));
    }
}

/// A claim whose first attempt got no answer by 300, and whose second was granted at 310.
fn held_in_doubt(terms: Terms) -> Keeping {
    let (mut keeping, record) = (Keeping::default(), record());
    try_with(&mut keeping, 1, terms, &record, 0);
    keeping.step(Event::Tried { id: 1, sent: at(0), result: Err(no_answer()) }, at(300));
    try_one(&mut keeping, 1, terms, 300);
    let actions = granted(&mut keeping, 1, 300, 310);
    let [Action::Tell(1, Told::Granted { .. })] = actions.as_slice() else { panic!("{actions:?}") };
    record.word().take();
    keeping
}

#[test]
fn a_grant_whose_caller_never_comes_is_not_renewed_for_longer_than_its_ttl() {
    let mut keeping = Keeping::default();
    try_one(&mut keeping, 1, Terms { renew_for: Some(ms(60_000)), ..terms() }, 0);
    granted(&mut keeping, 1, 0, 0);
    let (mut renewal, mut lost) = (0, None);
    while let Some(due) = keeping.next_due() {
        let now = u64::try_from(due.since(at(0)).as_millis()).unwrap();
        for action in tick(&mut keeping, now) {
            match action {
                Action::Renew(_) => renewal = now,
                Action::Lost(1, LossReason::Expired) => lost = Some(now),
                other => panic!("{other:?}"),
            }
        }
        if renewal == now {
            renewed(&mut keeping, now, Renewed::Extended, now);
        }
    }
    assert!(renewal > 0 && renewal < TTL, "{renewal}");
    assert_eq!(lost, Some(renewal + 889));
}

#[test]
fn a_caller_that_comes_late_for_its_grant_is_renewed_from_then_on() {
    let (mut keeping, record) = (Keeping::default(), record());
    try_with(&mut keeping, 1, Terms { renew_for: Some(ms(60_000)), ..terms() }, &record, 0);
    granted(&mut keeping, 1, 0, 0);
    for now in [300, 600] {
        tick(&mut keeping, now);
        renewed(&mut keeping, now, Renewed::Extended, now);
    }
    assert!(tick(&mut keeping, 900).is_empty());
    record.word().take();
    assert!(matches!(tick(&mut keeping, 975).as_slice(), [Action::Renew(_)]));
}

#[test]
fn a_shutdown_frees_a_grant_whose_caller_never_came_whatever_its_policy_keeps() {
    let mut keeping = Keeping::default();
    try_one(&mut keeping, 1, Terms { hold_on_cancel: true, ..terms() }, 0);
    granted(&mut keeping, 1, 0, 0);
    close(&mut keeping, 100, 0);
    assert!(matches!(tick(&mut keeping, 100).as_slice(), [Action::Lost(..), Action::Free(1)]));
    assert_eq!(remains(&freed(&mut keeping, Released::Freed, 101)), Some((0, 0)));
}

#[test]
fn hold_on_cancel_keeps_a_key_in_doubt_to_its_ttl_and_frees_what_comes_later() {
    let mut keeping = held_in_doubt(Terms { hold_on_cancel: true, ..terms() });
    let actions = release(&mut keeping, Parting::Dropped, 320);
    assert!(matches!(actions.as_slice(), [Action::TellReleased(1, Released::Deferred)]), "{actions:?}");
    // The service granted it by 310.
    assert_eq!(keeping.next_due(), Some(at(310 + TTL)));
    assert!(matches!(tick(&mut keeping, 310 + TTL).as_slice(), [Action::Free(1)]));
    let (mut now, mut releases) = (310 + TTL, 1);
    while !keeping.is_empty() {
        freed(&mut keeping, Released::NotHeld, now);
        if let Some(due) = keeping.next_due() {
            now = u64::try_from(due.since(at(0)).as_millis()).unwrap();
            assert!(matches!(tick(&mut keeping, now).as_slice(), [Action::Free(1)]));
            releases += 1;
        }
    }
    assert_eq!(now, 300 + TTL + TTL / 3, "ttl and attempt time-out after the latest attempt");
    assert!(releases > 3, "{releases}");
}

#[test]
fn a_shutdown_tells_once_of_a_key_in_doubt_that_cancellation_keeps() {
    let mut keeping = held_in_doubt(Terms { hold_on_cancel: true, ..terms() });
    close(&mut keeping, 400, 350);
    assert_eq!(remains(&tick(&mut keeping, 400)), Some((0, 1)));
    assert!(!keeping.is_empty(), "the keeper goes on");
    assert!(matches!(tick(&mut keeping, 310 + TTL).as_slice(), [Action::Free(1)]));
}

#[test]
fn min_hold_rests_then_frees() {
    let (mut keeping, word) = held(Terms { min_hold: Some(ms(800)), ..terms() });
    word.end(at(10), End::Released);
    assert!(matches!(
        release(&mut keeping, Parting::Ended, 10).as_slice(),
        [Action::TellReleased(1, Released::Deferred)]
    ));
    assert_eq!(keeping.next_due(), Some(at(800)));
    assert!(matches!(tick(&mut keeping, 800).as_slice(), [Action::Free(1)]));
}

#[test]
fn min_hold_renews_once_where_the_key_would_not_live_so_long() {
    let (mut keeping, word) = held(Terms { min_hold: Some(ms(895)), ..terms() });
    word.end(at(10), End::Released);
    let actions = release(&mut keeping, Parting::Ended, 10);
    assert!(actions.iter().any(|action| matches!(action, Action::Renew(_))), "{actions:?}");
    renewed(&mut keeping, 10, Renewed::Extended, 11);
    assert!(matches!(tick(&mut keeping, 895).as_slice(), [Action::Free(1)]));
}

#[test]
fn a_lock_nobody_used_is_freed_whatever_min_hold_says() {
    let (mut keeping, _) = held(Terms { min_hold: Some(ms(800)), ..terms() });
    assert!(matches!(release(&mut keeping, Parting::Unused, 1).as_slice(), [Action::Free(1)]));
}
