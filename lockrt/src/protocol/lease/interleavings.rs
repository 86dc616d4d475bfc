//! Every order in which the threads that share a lease can take their steps. loom runs them all,
//! also those that only a machine with weaker memory than ours would show.

use loom::sync::Arc;
use loom::thread;

use crate::clock::Moment;
use crate::error::LossReason;

mod atomic {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
}

/// The source of the real word, on loom's atomics.
#[allow(dead_code, clippy::duplicate_mod, reason = "compiled twice on purpose, and not all of it is needed")]
#[path = "../lease.rs"]
mod lease;

use lease::{End, LeaseWord, Standing};

const DEADLINE: u64 = 10;
const RENEWED: u64 = 20;

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * 1_000_000)
}

/// What one thread does with the word.
type Part = fn(&LeaseWord) -> Option<Did>;

/// What one thread was told that it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    /// It moved the deadline.
    Extend,
    /// It ended the lease, or was the first to see its deadline pass.
    End,
}

fn renew(word: &LeaseWord) -> Option<Did> {
    word.extend(at(5), at(RENEWED)).then_some(Did::Extend)
}

/// Two renewals whose answers overtook each other.
fn renew_twice(word: &LeaseWord) -> Option<Did> {
    let first = renew(word);
    let second = word.extend(at(6), at(RENEWED - 5));
    assert!(first.is_some() || !second, "nothing follows an end");
    first
}

/// A renewal that left before another one and is answered at any time.
fn renew_less(word: &LeaseWord) -> Option<Did> {
    assert!(word.extend(at(5), at(RENEWED - 5)), "nobody ends the lease");
    None
}

fn release(word: &LeaseWord) -> Option<Did> {
    word.end(at(5), End::Released).then_some(Did::End)
}

fn gone(word: &LeaseWord) -> Option<Did> {
    word.end(at(5), End::Lost(LossReason::Gone)).then_some(Did::End)
}

/// Looks at a moment that is past the first deadline, before that of a renewal.
fn expire(word: &LeaseWord) -> Option<Did> {
    word.at(at(DEADLINE)).1.then_some(Did::End)
}

/// Looks twice, before any deadline.
fn watch(word: &LeaseWord) -> Option<Did> {
    match (word.at(at(5)).0, word.at(at(5)).0) {
        (Standing::Held(first), Standing::Held(second)) => assert!(first <= second, "it moves forward only"),
        (Standing::Held(_), Standing::Ended(_)) => {}
        (first, second) => assert_eq!(first, second, "an end is final"),
    }
    None
}

/// Runs `own` and the other parts, each on a thread of its own, in every order, and judges each
/// run.
fn in_every_order(own: Part, others: &'static [Part]) {
    loom::model(move || {
        let word = Arc::new(LeaseWord::new(at(DEADLINE)));
        let start = |part: &'static Part| {
            let word = Arc::clone(&word);
            thread::spawn(move || part(&word))
        };
        let threads: Vec<_> = others.iter().map(start).collect();
        let mut did = vec![own(&word)];
        did.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
        judge(&word, &did);
    });
}

fn judge(word: &LeaseWord, did: &[Option<Did>]) {
    let ends = did.iter().filter(|did| **did == Some(Did::End)).count();
    let ended = word.deadline().is_none();
    assert_eq!(ends, usize::from(ended), "an end has one author, who knows it");
    let extended = did.contains(&Some(Did::Extend));
    assert_eq!(
        word.last_deadline() == at(RENEWED),
        extended,
        "who was told of a renewal has it, nobody else"
    );
}

#[test]
fn a_renewal_a_release_and_a_reader_agree_in_every_order() {
    in_every_order(renew, &[release, watch]);
}

#[test]
fn a_renewal_a_deadline_and_a_release_have_one_winner_in_every_order() {
    in_every_order(renew, &[expire, release]);
}

#[test]
fn a_deadline_that_three_threads_see_is_told_once_in_every_order() {
    in_every_order(expire, &[expire, expire]);
}

#[test]
fn a_loss_a_release_and_a_deadline_have_one_winner_in_every_order() {
    in_every_order(gone, &[release, expire]);
}

#[test]
fn a_late_renewal_never_revives_a_lease_in_any_order() {
    loom::model(|| {
        let word = Arc::new(LeaseWord::new(at(DEADLINE)));
        let other = Arc::clone(&word);
        let late = thread::spawn(move || other.extend(at(DEADLINE), at(RENEWED)));
        expire(&word);
        assert!(!late.join().unwrap(), "its answer came at the deadline");
        assert_eq!(word.at(at(0)), (Standing::Ended(End::Lost(LossReason::Expired)), false));
    });
}

#[test]
fn renewals_that_overtake_each_other_move_the_deadline_forward_only_in_every_order() {
    in_every_order(renew_twice, &[watch]);
    in_every_order(renew_twice, &[gone]);
    in_every_order(renew, &[renew_less, watch]);
}
