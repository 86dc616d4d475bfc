//! Acquires step by step.

use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(ms: u64) -> Moment {
    Moment::from_nanos((10_000 + ms) * 1_000_000)
}

fn waiting(contention: Contention, ttl: u64) -> Waiting {
    Waiting::new(contention, ms(ttl), 7, at(0))
}

fn held(free_in: u64) -> Event {
    Event::Held { free_in: Some(ms(free_in)) }
}

fn silent() -> Event {
    Event::Unanswered(BackendError::unknown("silent"))
}

#[test]
fn fail_gives_up_at_the_first_answer() {
    let mut acquire = waiting(Contention::Fail, 900);
    assert!(matches!(acquire.start(at(0)), Step::Try { within } if within == ms(300)));
    let step = acquire.step(held(500), at(4));
    assert!(
        matches!(step, Step::Contended { waited, free_in } if waited == ms(4) && free_in == Some(ms(500))),
        "{step:?}"
    );
}

#[test]
fn fail_repeats_unanswered_attempts_within_its_bound() {
    let mut acquire = waiting(Contention::Fail, 900);
    let (mut now, mut step) = (0, acquire.start(at(0)));
    let mut attempts = 0;
    loop {
        step = match step {
            Step::Try { within } => {
                attempts += 1;
                now += u64::try_from(within.as_millis()).unwrap();
                acquire.step(silent(), at(now))
            }
            Step::Pause { until, listen } => {
                assert!(!listen);
                now = u64::try_from(until.since(at(0)).as_millis()).unwrap() + 1;
                acquire.step(Event::Paused { woken: false }, at(now))
            }
            Step::Unavailable(_) => break,
            Step::Contended { .. } => panic!("silence read as contention"),
        };
    }
    assert!(attempts >= 3, "{attempts}");
    assert!((600..=901).contains(&now), "{now}");
}

#[test]
fn a_hurried_attempt_without_an_answer_does_not_hide_what_the_service_said() {
    let refused = || Event::Unanswered(BackendError::not_applied("loading"));
    for late in [0, 1, 50] {
        let mut acquire = waiting(Contention::Fail, 900);
        let mut step = acquire.start(at(0));
        for now in [10, 890 + late] {
            step = acquire.step(refused(), at(now));
            let Step::Pause { .. } = step else { break };
            step = acquire.step(Event::Paused { woken: false }, at(890 + late));
        }
        if let Step::Try { within } = step {
            assert!(within <= ms(10), "{within:?}");
            step = acquire.step(silent(), at(900));
        }
        let Step::Unavailable(error) = step else { panic!("{step:?}") };
        assert_eq!(error.to_string(), "loading", "{late} ms late");
    }
}

#[test]
fn a_hurried_attempt_without_an_answer_leaves_the_outcome_open() {
    let mut acquire = waiting(Contention::Fail, 900);
    acquire.start(at(0));
    acquire.step(Event::Unanswered(BackendError::not_applied("loading")), at(10));
    let step = acquire.step(Event::Paused { woken: false }, at(890));
    assert!(matches!(step, Step::Try { within } if within == ms(10)), "{step:?}");
    let Step::Unavailable(error) = acquire.step(silent(), at(900)) else { panic!() };
    assert_eq!((error.to_string().as_str(), error.outcome()), ("loading", Outcome::Unknown));
}

#[test]
fn a_stale_grant_after_the_end_of_a_wait_does_not_prolong_it() {
    let mut acquire = waiting(Contention::Wait(ms(10)), 900);
    assert!(matches!(acquire.start(at(0)), Step::Try { within } if within == ms(40)));
    let step = acquire.step(Event::Stale, at(40));
    assert!(matches!(step, Step::Unavailable(_)), "{step:?}");
    let mut acquire = waiting(Contention::Wait(ms(60)), 900);
    acquire.start(at(0));
    assert!(matches!(acquire.step(Event::Stale, at(40)), Step::Try { .. }), "there is time left");
}

#[test]
fn a_permanent_error_is_not_repeated() {
    let mut acquire = waiting(Contention::WaitForever, 900);
    acquire.start(at(0));
    let wrong = Event::Unanswered(BackendError::not_applied("wrong password").permanent());
    assert!(matches!(acquire.step(wrong, at(1)), Step::Unavailable(_)));
}

#[test]
fn a_pause_ends_at_the_holders_end_or_two_thirds_of_the_ttl() {
    let mut acquire = waiting(Contention::WaitForever, 900);
    acquire.start(at(0));
    let Step::Pause { until, listen: true } = acquire.step(held(50), at(0)) else { panic!() };
    assert_eq!(until, at(51));
    acquire.step(Event::Paused { woken: false }, at(51));
    let Step::Pause { until, listen: true } = acquire.step(held(60_000), at(51)) else { panic!() };
    assert!((at(51 + 450)..=at(51 + 750)).contains(&until));
    acquire.step(Event::Paused { woken: false }, at(900));
    let endless = acquire.step(Event::Held { free_in: None }, at(900));
    assert!(matches!(endless, Step::Pause { until, .. } if (at(1_050)..=at(1_150)).contains(&until)));
}

#[test]
fn a_long_pause_takes_nothing_from_the_next_attempt() {
    let mut acquire = waiting(Contention::WaitForever, 60_000);
    acquire.start(at(0));
    acquire.step(held(60_000), at(0));
    let step = acquire.step(Event::Paused { woken: false }, at(40_000));
    assert!(matches!(step, Step::Try { within } if within == ATTEMPT), "{step:?}");
    assert!(matches!(acquire.step(silent(), at(41_000)), Step::Pause { listen: false, .. }));
}

#[test]
fn a_wait_ends_at_its_deadline_as_contended() {
    let mut acquire = waiting(Contention::Wait(ms(100)), 900);
    acquire.start(at(0));
    let Step::Pause { until, .. } = acquire.step(held(60_000), at(0)) else { panic!() };
    assert_eq!(until, at(100));
    assert!(matches!(
        acquire.step(Event::Paused { woken: false }, at(100)),
        Step::Contended { waited, .. } if waited == ms(100)
    ));
}

#[test]
fn the_last_attempt_of_a_wait_is_cut_short_and_no_outage() {
    let mut acquire = waiting(Contention::Wait(ms(100)), 900);
    acquire.start(at(0));
    acquire.step(held(90), at(0));
    let Step::Try { within } = acquire.step(Event::Paused { woken: true }, at(90)) else { panic!() };
    assert_eq!(within, ms(40));
    assert!(matches!(acquire.step(silent(), at(130)), Step::Contended { .. }));
}

#[test]
fn a_wait_for_a_silent_service_ends_as_unavailable() {
    let mut acquire = waiting(Contention::Wait(ms(100)), 900);
    assert!(matches!(acquire.start(at(0)), Step::Try { within } if within == ms(100)));
    assert!(matches!(acquire.step(silent(), at(100)), Step::Unavailable(_)));
}

#[test]
fn a_holder_whose_end_is_beyond_counting_is_waited_for() {
    let mut acquire = waiting(Contention::WaitForever, 900);
    acquire.start(at(0));
    let step = acquire.step(Event::Held { free_in: Some(Duration::MAX) }, at(2));
    assert!(matches!(step, Step::Pause { until, .. } if until <= at(2 + 750)), "{step:?}");
}

#[test]
fn vain_wake_ups_slow_down_and_never_spin() {
    let mut acquire = waiting(Contention::WaitForever, 900);
    acquire.start(at(0));
    let (mut now, mut attempts) = (0, 0);
    while now < 1_000 {
        assert!(matches!(acquire.step(held(60_000), at(now)), Step::Pause { listen: true, .. }));
        // The backend wakes at once, always.
        let mut step = acquire.step(Event::Paused { woken: true }, at(now));
        if let Step::Pause { until, listen } = step {
            assert!(!listen);
            now = u64::try_from(until.since(at(0)).as_millis()).unwrap();
            step = acquire.step(Event::Paused { woken: false }, at(now));
        }
        assert!(matches!(step, Step::Try { .. }), "{step:?}");
        attempts += 1;
    }
    assert!(attempts < 60, "{attempts}");
}

#[test]
fn a_stale_grant_is_refreshed_once() {
    let mut acquire = waiting(Contention::Fail, 900);
    acquire.start(at(0));
    assert!(matches!(acquire.step(Event::Stale, at(500)), Step::Try { .. }));
    assert!(matches!(acquire.step(Event::Stale, at(1_000)), Step::Unavailable(_)));
}
