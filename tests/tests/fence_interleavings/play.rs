//! Holders that take their steps in the order of a schedule, and the search for one that loses an update.

use std::cell::Cell;

use lockrt::FencingToken;
use lockrt::fence::FenceError;
use proptest::collection::vec;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

pub(crate) const HOLDERS: usize = 3;
/// As many steps as all holders take if none is refused, and some for those that have ended.
const STEPS: usize = 18;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idiom {
    /// Each holder reads and writes twice.
    Write,
    /// Each holder reads and writes, once.
    Once,
}

/// A counter that holders raise by reading it and writing back what they read and one.
pub(crate) trait Counter {
    async fn register(&self, token: FencingToken) -> Result<(), FenceError>;
    async fn read(&self) -> u64;
    async fn write(&self, token: FencingToken, idiom: Idiom, value: u64) -> Result<(), FenceError>;
}

/// The token of a holder. Granted in this order; all but the last may have been paused past their lease.
pub(crate) fn token_of(holder: usize) -> FencingToken {
    FencingToken::new(1_790_000_000_000_000 + holder as u64)
}

/// What a holder does next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Register,
    Read { writes: u32 },
    Write { writes: u32, value: u64 },
    Ended,
}

/// Lets the holders take their steps in the order of `schedule`; the number of writes that passed.
async fn play(counter: &impl Counter, (idiom, registers): (Idiom, bool), schedule: &[usize]) -> u64 {
    let first = if registers { Step::Register } else { Step::Read { writes: 0 } };
    let mut holders = [first; HOLDERS];
    let passed = Cell::new(0);
    for holder in schedule {
        let token = token_of(*holder);
        let next = match holders[*holder] {
            Step::Register => counter.register(token).await.map(|()| Step::Read { writes: 0 }),
            Step::Read { writes } => Ok(Step::Write { writes, value: counter.read().await + 1 }),
            Step::Write { writes, value } => counter.write(token, idiom, value).await.map(|()| {
                passed.set(passed.get() + 1);
                if writes == 0 { Step::Read { writes: 1 } } else { Step::Ended }
            }),
            Step::Ended => Ok(Step::Ended),
        };
        holders[*holder] = next.unwrap_or_else(|refused| {
            let by_its_own = refused.is_repeated() && idiom == Idiom::Once;
            assert!(refused.is_stale() || by_its_own, "{refused}");
            Step::Ended
        });
    }
    passed.get()
}

/// Plays `cases` random schedules, each on a counter of its own; the shortest one found that loses an
/// update, or none.
pub(crate) fn lost_update<C: Counter>(
    cases: u32,
    rules: (Idiom, bool),
    new: impl AsyncFn() -> C,
) -> Option<Vec<usize>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    searched(cases, STEPS, |schedule| {
        runtime.block_on(async {
            let counter = new().await;
            (play(&counter, rules, schedule).await, counter.read().await)
        })
    })
}

/// Tries `cases` random schedules; the shortest one found in which `played` gives two different numbers, of the
/// writes that passed and the counter, or none.
pub(crate) fn searched(
    cases: u32,
    steps: usize,
    played: impl Fn(&[usize]) -> (u64, u64),
) -> Option<Vec<usize>> {
    // Cases of the off-switch are meant to fail, so they are not kept.
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let found = TestRunner::new(config).run(&vec(0..HOLDERS, 0..steps), |schedule| {
        let (passed, value) = played(&schedule);
        if value == passed { Ok(()) } else { Err(TestCaseError::fail(format!("{value} of {passed}"))) }
    });
    match found {
        Ok(()) => None,
        Err(TestError::Fail(_, schedule)) => Some(schedule),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

/// Between two steps of a newer holder, its read and its write, stands one of the paused one.
pub(crate) fn is_the_classic(schedule: &[usize]) -> bool {
    let around = |newer: &usize| {
        let mut steps = schedule.iter().enumerate().filter(|(_, holder)| *holder == newer);
        Some(steps.next()?.0..steps.next_back()?.0)
    };
    schedule.iter().any(|newer| around(newer).is_some_and(|span| schedule[span].iter().any(|h| h < newer)))
}
