mod parting;
mod together;

use super::*;
use crate::protocol::kept::Bare;
use crate::protocol::lease::{End, LeaseWord, Standing};
use crate::token::{FencingToken, OwnerLabel, OwnerToken, ProcessRandom};

const TTL: u64 = 900;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(time: u64) -> Moment {
    Moment::from_nanos(0) + ms(time)
}

fn terms() -> Terms {
    Terms {
        renew_for: None,
        min_hold: None,
        hold_on_cancel: false,
        offset_margin: Duration::ZERO,
        queues: false,
    }
}

fn claim() -> Claim {
    let owner = OwnerToken::fresh(&OwnerLabel::new("test", ProcessRandom::get().unwrap()), 1);
    Claim::new(LockKey::new("k").unwrap(), owner, ms(TTL), true)
}

fn record() -> Arc<dyn Record> {
    Bare::of(LockKey::new("k").unwrap())
}

fn try_one(keeping: &mut Keeping, id: Id, terms: Terms, now: u64) -> Vec<Action> {
    try_with(keeping, id, terms, &record(), now)
}

fn try_with(keeping: &mut Keeping, id: Id, terms: Terms, record: &Arc<dyn Record>, now: u64) -> Vec<Action> {
    keeping.step(Event::Try { id, claim: claim(), terms, record: Arc::clone(record) }, at(now))
}

fn granted(keeping: &mut Keeping, id: Id, sent: u64, now: u64) -> Vec<Action> {
    let result = Ok(Attempt::Granted { fencing: Some(FencingToken::new(1)) });
    keeping.step(Event::Tried { id, sent: at(sent), result }, at(now))
}

/// A claim that was granted at 0, and whose caller has come for it.
fn held(terms: Terms) -> (Keeping, Word) {
    let (mut keeping, record) = (Keeping::default(), record());
    try_with(&mut keeping, 1, terms, &record, 0);
    let actions = granted(&mut keeping, 1, 0, 0);
    let [Action::Tell(1, Told::Granted { .. })] = actions.as_slice() else { panic!("{actions:?}") };
    record.word().take();
    (keeping, Word(record))
}

/// The word of a record.
struct Word(Arc<dyn Record>);

impl std::ops::Deref for Word {
    type Target = LeaseWord;

    fn deref(&self) -> &LeaseWord {
        self.0.word()
    }
}

fn release(keeping: &mut Keeping, parting: Parting, now: u64) -> Vec<Action> {
    keeping.step(Event::Release { id: 1, parting }, at(now))
}

fn freed(keeping: &mut Keeping, released: Released, now: u64) -> Vec<Action> {
    keeping.step(Event::Freed { id: 1, result: Ok(released) }, at(now))
}

fn renewed(keeping: &mut Keeping, sent: u64, answer: Renewed, now: u64) -> Vec<Action> {
    keeping.step(Event::Renewed { sent: at(sent), answers: vec![(1, Some(answer))] }, at(now))
}

fn no_answer() -> BackendError {
    BackendError::unknown("silent")
}

fn tick(keeping: &mut Keeping, now: u64) -> Vec<Action> {
    keeping.step(Event::Tick, at(now))
}

#[test]
fn the_deadline_counts_from_before_the_request() {
    let (keeping, word) = held(terms());
    // 900 ms less 1 % and 2 ms.
    assert_eq!(word.deadline(), Some(at(889)));
    assert_eq!(keeping.next_due(), Some(at(889)));
}

#[test]
fn a_lease_is_lost_at_its_deadline_and_its_guard_still_frees_it() {
    let (mut keeping, word) = held(terms());
    assert!(tick(&mut keeping, 888).is_empty());
    assert!(matches!(tick(&mut keeping, 889).as_slice(), [Action::Lost(1, LossReason::Expired)]));
    assert_eq!(keeping.next_due(), None);
    assert!(!word.end(at(889), End::Released));
    assert!(matches!(release(&mut keeping, Parting::Ended, 890).as_slice(), [Action::Free(1)]));
    assert!(matches!(
        freed(&mut keeping, Released::NotHeld, 891).as_slice(),
        [Action::TellReleased(1, Released::NotHeld), Action::Forget(1)]
    ));
    assert!(keeping.is_empty());
}

#[test]
fn a_renewal_moves_the_deadline_from_when_it_left() {
    let (mut keeping, word) = held(Terms { renew_for: Some(ms(60_000)), ..terms() });
    assert_eq!(keeping.next_due(), Some(at(300)));
    assert!(matches!(tick(&mut keeping, 300).as_slice(), [Action::Renew(ids)] if ids == &[1]));
    renewed(&mut keeping, 300, Renewed::Extended, 420);
    assert_eq!(word.deadline(), Some(at(300 + 889)));
    assert_eq!(keeping.next_due(), Some(at(600)));
}

#[test]
fn a_renewal_that_is_answered_after_the_deadline_tells_the_loss() {
    let (mut keeping, word) = held(Terms { renew_for: Some(ms(60_000)), ..terms() });
    // Its process was stopped until shortly before the deadline.
    assert!(matches!(tick(&mut keeping, 888).as_slice(), [Action::Renew(_)]));
    let actions = renewed(&mut keeping, 888, Renewed::Extended, 890);
    assert!(matches!(actions.as_slice(), [Action::Lost(1, LossReason::Expired)]), "{actions:?}");
    assert_eq!(word.at(at(890)), (Standing::Ended(End::Lost(LossReason::Expired)), false));
    assert_eq!(keeping.next_due(), None);
}

#[test]
fn leases_that_are_due_together_are_renewed_with_those_of_similar_ttls() {
    let mut keeping = Keeping::default();
    // Every one is due by 29 s, when the first are about to end.
    for id in 0..300 {
        let ttl = ms(if id % 3 == 0 { 80_000 } else { 30_000 });
        let terms = Terms { renew_for: Some(ms(600_000)), ..terms() };
        let record = record();
        let claim = claim().with_ttl(ttl);
        keeping.step(Event::Try { id, claim, terms, record: Arc::clone(&record) }, at(0));
        let actions = granted(&mut keeping, id, 0, 0);
        let [Action::Tell(_, Told::Granted { .. })] = actions.as_slice() else { panic!("{actions:?}") };
        record.word().take();
    }
    let actions = tick(&mut keeping, 29_000);
    let mut renewed = Vec::new();
    for action in &actions {
        let Action::Renew(ids) = action else { panic!("{action:?}") };
        let ttls: Vec<_> = ids.iter().map(|id| keeping.claim(*id).unwrap().ttl()).collect();
        let (shortest, longest) = (*ttls.iter().min().unwrap(), *ttls.iter().max().unwrap());
        assert!(longest <= 2 * shortest && ids.len() <= BATCH, "{shortest:?} to {longest:?}");
        renewed.extend_from_slice(ids);
    }
    renewed.sort_unstable();
    assert_eq!(renewed, (0..300).collect::<Vec<_>>());
    assert_eq!(actions.len(), 3, "200 and 100 of them in batches of {BATCH}");
}

#[test]
fn errors_end_neither_renewal_nor_lease_and_leave_room_for_three_attempts() {
    let (mut keeping, word) = held(Terms { renew_for: Some(ms(60_000)), ..terms() });
    let (mut now, mut attempts) = (0, 0);
    while word.deadline().is_some() {
        let due = keeping.next_due().unwrap();
        now = now.max(u64::try_from(due.since(at(0)).as_millis()).unwrap());
        let mut actions = tick(&mut keeping, now);
        if let [Action::Renew(_)] = actions.as_slice() {
            attempts += 1;
            let sent = now;
            now += TTL / 6;
            actions = renewed(&mut keeping, sent, Renewed::Unknown(no_answer()), now);
        }
        assert!(matches!(actions.as_slice(), [] | [Action::Lost(1, LossReason::Expired)]), "{actions:?}");
    }
    assert!(attempts >= 3, "{attempts}");
    assert!((889..=900).contains(&now), "{now}");
}

#[test]
fn gone_is_a_loss_at_once_and_nothing_is_freed_after_it() {
    let (mut keeping, _) = held(Terms { renew_for: Some(ms(60_000)), ..terms() });
    tick(&mut keeping, 300);
    assert!(matches!(
        renewed(&mut keeping, 300, Renewed::Gone, 301).as_slice(),
        [Action::Lost(1, LossReason::Gone)]
    ));
    assert!(matches!(
        release(&mut keeping, Parting::Dropped, 302).as_slice(),
        [Action::TellReleased(1, Released::NotHeld), Action::Forget(1)]
    ));
}

#[test]
fn renewal_ends_at_its_cap() {
    let (mut keeping, word) = held(Terms { renew_for: Some(ms(900)), ..terms() });
    for now in [300, 600] {
        assert!(matches!(tick(&mut keeping, now).as_slice(), [Action::Renew(_)]));
        renewed(&mut keeping, now, Renewed::Extended, now + 1);
    }
    assert!(matches!(tick(&mut keeping, 900).as_slice(), [Action::Lost(1, LossReason::RenewalCap)]));
    assert_eq!(word.at(at(900)).0, Standing::Ended(End::Lost(LossReason::RenewalCap)));
}

#[test]
fn a_release_ends_renewal_and_a_later_gone_is_ignored() {
    let (mut keeping, word) = held(Terms { renew_for: Some(ms(60_000)), ..terms() });
    tick(&mut keeping, 300);
    assert!(word.end(at(301), End::Released));
    assert!(matches!(release(&mut keeping, Parting::Ended, 301).as_slice(), [Action::Free(1)]));
    assert!(renewed(&mut keeping, 300, Renewed::Gone, 302).is_empty());
    assert!(matches!(
        freed(&mut keeping, Released::Freed, 303).as_slice(),
        [Action::TellReleased(1, Released::Freed), Action::Forget(1)]
    ));
}

#[test]
fn a_silent_release_keeps_its_caller_for_250_ms_and_goes_on() {
    let (mut keeping, _) = held(terms());
    release(&mut keeping, Parting::Ended, 0);
    assert!(matches!(tick(&mut keeping, 250).as_slice(), [Action::TellReleased(1, Released::Deferred)]));
    let failed = Event::Freed { id: 1, result: Err(no_answer()) };
    assert!(keeping.step(failed, at(300)).is_empty());
    assert!(matches!(tick(&mut keeping, 305).as_slice(), [Action::Free(1)]));
    assert!(matches!(freed(&mut keeping, Released::Freed, 306).as_slice(), [Action::Forget(1)]));
}

#[test]
fn a_release_that_finds_nothing_after_one_without_an_answer_was_freed_by_that_while_the_lease_lasts() {
    for (answered, told) in [(888, Released::Freed), (889, Released::NotHeld)] {
        let (mut keeping, _) = held(terms());
        release(&mut keeping, Parting::Ended, answered - 100);
        keeping.step(Event::Freed { id: 1, result: Err(no_answer()) }, at(answered - 50));
        tick(&mut keeping, answered - 45);
        let ended = freed(&mut keeping, Released::NotHeld, answered);
        assert!(
            matches!(ended.as_slice(), [Action::TellReleased(1, said), Action::Forget(1)] if *said == told),
            "{answered}: {ended:?}"
        );
    }
    let (mut keeping, _) = held(terms());
    release(&mut keeping, Parting::Ended, 1);
    let ended = freed(&mut keeping, Released::NotHeld, 2);
    assert!(matches!(ended.as_slice(), [Action::TellReleased(1, Released::NotHeld), _]), "{ended:?}");
}

#[test]
fn an_acquire_that_is_given_up_in_mid_attempt_is_freed_however_the_answers_cross() {
    // The release overtakes the attempt, whose grant is then told.
    let mut keeping = Keeping::default();
    try_one(&mut keeping, 1, terms(), 0);
    assert!(matches!(release(&mut keeping, Parting::Unused, 1).as_slice(), [Action::Free(1)]));
    assert!(freed(&mut keeping, Released::NotHeld, 2).is_empty());
    let sent = granted(&mut keeping, 1, 0, 3);
    assert!(matches!(sent.as_slice(), [Action::Free(1)]), "{sent:?}");
    assert!(matches!(freed(&mut keeping, Released::Freed, 4).as_slice(), [Action::Forget(1)]));
    assert!(keeping.is_empty());
}

#[test]
fn an_acquire_in_doubt_is_cleaned_up_past_the_first_not_held() {
    let mut keeping = Keeping::default();
    try_one(&mut keeping, 1, terms(), 0);
    keeping.step(Event::Tried { id: 1, sent: at(0), result: Err(no_answer()) }, at(300));
    release(&mut keeping, Parting::Unused, 300);
    let (mut now, mut releases) = (300, 1);
    while !keeping.is_empty() {
        freed(&mut keeping, Released::NotHeld, now);
        if let Some(due) = keeping.next_due() {
            now = u64::try_from(due.since(at(0)).as_millis()).unwrap();
            assert!(matches!(tick(&mut keeping, now).as_slice(), [Action::Free(1)]));
            releases += 1;
        }
    }
    assert!(now >= TTL, "a grant by the attempt would have expired at {TTL}, clean-up ended at {now}");
    assert!(releases > 5, "{releases}");
}

#[test]
fn a_refused_acquire_that_was_answered_costs_no_release() {
    let mut keeping = Keeping::default();
    try_one(&mut keeping, 1, terms(), 0);
    let held = Ok(Attempt::Held { free_in: None });
    keeping.step(Event::Tried { id: 1, sent: at(0), result: held }, at(1));
    let actions = release(&mut keeping, Parting::Unused, 2);
    assert!(!actions.iter().any(|action| matches!(action, Action::Free(_))), "{actions:?}");
    assert!(keeping.is_empty());
}

#[test]
fn a_grant_that_took_half_its_ttl_is_stale() {
    let mut keeping = Keeping::default();
    try_one(&mut keeping, 1, terms(), 0);
    assert!(matches!(granted(&mut keeping, 1, 0, 440).as_slice(), [Action::Tell(1, Told::Stale)]));
    try_one(&mut keeping, 1, terms(), 440);
    assert!(matches!(granted(&mut keeping, 1, 440, 450).as_slice(), [Action::Tell(1, Told::Granted { .. })]));
}

#[test]
fn a_shutdown_waits_for_bodies_then_takes_their_leases_and_says_what_is_left() {
    let (mut keeping, word) = held(terms());
    assert!(keeping.step(Event::Close { until: at(100) }, at(50)).is_empty());
    let refused = try_one(&mut keeping, 2, terms(), 60);
    assert!(matches!(refused.as_slice(), [Action::Tell(2, Told::ShuttingDown), Action::Forget(2)]));
    assert_eq!(keeping.next_due(), Some(at(100)));
    assert!(matches!(
        tick(&mut keeping, 100).as_slice(),
        [Action::Lost(1, LossReason::ShuttingDown), Action::Free(1)]
    ));
    assert!(word.deadline().is_none());
    let ended = freed(&mut keeping, Released::Freed, 101);
    assert!(
        matches!(ended.as_slice(), [.., Action::Forget(1), Action::Closed(left)] if left.unreleased.is_empty()),
        "{ended:?}"
    );
}

#[test]
fn a_shutdown_does_not_wait_for_ever_and_names_what_it_leaves() {
    let (mut keeping, _) = held(terms());
    keeping.step(Event::Close { until: at(100) }, at(50));
    tick(&mut keeping, 100);
    let ended = tick(&mut keeping, 1_100);
    assert!(
        matches!(ended.as_slice(), [.., Action::Closed(left)] if left.unreleased.len() == 1),
        "{ended:?}"
    );
    let (mut keeping, word) = held(Terms { min_hold: Some(ms(800)), ..terms() });
    word.end(at(10), End::Released);
    release(&mut keeping, Parting::Ended, 10);
    let ended = keeping.step(Event::Close { until: at(100) }, at(50));
    assert!(matches!(ended.as_slice(), [Action::Closed(left)] if left.kept.len() == 1), "{ended:?}");
}

#[test]
fn many_leases_are_renewed_in_few_calls_and_one_answer_concerns_one_lease() {
    let mut keeping = Keeping::default();
    let renewing = Terms { renew_for: Some(ms(60_000)), ..terms() };
    for id in 0..300 {
        try_one(&mut keeping, id, renewing, 0);
        granted(&mut keeping, id, 0, 0);
    }
    let calls = tick(&mut keeping, 300);
    assert_eq!(calls.len(), 3);
    let answers = vec![(0, Some(Renewed::Gone)), (1, None), (2, Some(Renewed::Extended))];
    let actions = keeping.step(Event::Renewed { sent: at(300), answers }, at(310));
    assert!(matches!(actions.as_slice(), [Action::Lost(0, LossReason::Gone)]), "{actions:?}");
}

fn close(keeping: &mut Keeping, until: u64, now: u64) -> Vec<Action> {
    keeping.step(Event::Close { until: at(until) }, at(now))
}

fn remains(actions: &[Action]) -> Option<(usize, usize)> {
    actions.iter().find_map(|action| match action {
        Action::Closed(remains) => Some((remains.unreleased.len(), remains.kept.len())),
        _ => None,
    })
}

#[test]
fn a_later_shutdown_does_not_prolong_an_earlier_one() {
    let (mut keeping, word) = held(terms());
    close(&mut keeping, 100, 0);
    close(&mut keeping, 700, 50);
    assert_eq!(keeping.next_due(), Some(at(100)));
    tick(&mut keeping, 100);
    assert_eq!(word.at(at(100)).0, Standing::Ended(End::Lost(LossReason::ShuttingDown)));
    assert_eq!(remains(&freed(&mut keeping, Released::Freed, 101)), Some((0, 0)));
}

#[test]
fn a_later_shutdown_knows_what_an_earlier_one_keeps() {
    let (mut keeping, _) = held(Terms { hold_on_cancel: true, ..terms() });
    try_one(&mut keeping, 2, terms(), 0);
    granted(&mut keeping, 2, 0, 0);
    close(&mut keeping, 100, 0);
    assert_eq!(remains(&tick(&mut keeping, 100)), None, "one release is not answered yet");
    assert_eq!(remains(&close(&mut keeping, 101, 101)), None);
    assert_eq!(remains(&tick(&mut keeping, 1_100)), Some((1, 1)));
}

#[test]
fn an_acquire_after_a_shutdown_is_refused_and_forgotten() {
    let mut keeping = Keeping::default();
    close(&mut keeping, 100, 0);
    let actions = try_one(&mut keeping, 1, terms(), 1);
    assert!(matches!(actions[..], [Action::Tell(1, Told::ShuttingDown), Action::Forget(1)]), "{actions:?}");
}
