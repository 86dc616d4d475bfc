use crate::clock::Moment;
use crate::error::LossReason;
use crate::protocol::lease::{End, LeaseWord, Standing};

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * 1_000_000)
}

#[test]
fn the_deadline_ends_a_lease_once_and_for_all() {
    let word = LeaseWord::new(at(10));
    assert_eq!(word.at(at(9)), (Standing::Held(at(10)), false));
    assert_eq!(word.at(at(10)), (Standing::Ended(End::Lost(LossReason::Expired)), true));
    assert_eq!(word.at(at(9)), (Standing::Ended(End::Lost(LossReason::Expired)), false));
    assert!(!word.extend(at(9), at(50)));
    assert!(!word.end(at(9), End::Released));
}

#[test]
fn an_extension_moves_the_deadline_forward_only() {
    let word = LeaseWord::new(at(10));
    assert!(word.extend(at(5), at(20)));
    assert!(word.extend(at(5), at(15)));
    assert_eq!(word.at(at(19)).0, Standing::Held(at(20)));
    assert!(!word.extend(at(20), at(40)), "an answer after the deadline changes nothing");
}

#[test]
fn the_first_end_wins() {
    for end in [
        End::Released,
        End::Lost(LossReason::Gone),
        End::Lost(LossReason::RenewalCap),
        End::Lost(LossReason::ShuttingDown),
    ] {
        let word = LeaseWord::new(at(10));
        assert!(word.end(at(1), end));
        assert!(!word.end(at(1), End::Released));
        assert_eq!(word.at(at(99)), (Standing::Ended(end), false));
    }
}

#[test]
fn a_release_after_the_deadline_is_a_loss() {
    let word = LeaseWord::new(at(10));
    assert!(!word.end(at(10), End::Released));
    assert_eq!(word.at(at(0)).0, Standing::Ended(End::Lost(LossReason::Expired)));
}
