//! Three holders of one lock, each of which may be paused at any step: without a registration before
//! the first read an update is lost, with it none is.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::cell::Cell;

use lockrt::FencingToken;
use lockrt::fence::redis::{RedisFence, Write};
use lockrt::fence::{Fence, FenceError};
use lockrt_tests::RedisServer;
use proptest::collection::vec;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;

const HOLDERS: usize = 3;
/// As many steps as all holders take if none is refused, and some for those that have ended.
const STEPS: usize = 18;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Idiom {
    /// Each holder reads and writes twice.
    Write,
    /// Each holder reads and writes, once.
    Once,
}

/// A counter that holders raise by reading it and writing back what they read and one.
trait Counter {
    async fn register(&self, token: FencingToken) -> Result<(), FenceError>;
    async fn read(&self) -> u64;
    async fn write(&self, token: FencingToken, idiom: Idiom, value: u64) -> Result<(), FenceError>;
}

#[derive(Default)]
struct InProcess {
    fence: Fence,
    value: Cell<u64>,
}

impl Counter for InProcess {
    async fn register(&self, token: FencingToken) -> Result<(), FenceError> {
        self.fence.register("n", token)
    }

    async fn read(&self) -> u64 {
        self.value.get()
    }

    async fn write(&self, token: FencingToken, idiom: Idiom, value: u64) -> Result<(), FenceError> {
        let write = || self.value.set(value);
        match idiom {
            Idiom::Write => self.fence.write("n", token, write),
            Idiom::Once => self.fence.write_once("n", token, write),
        }
    }
}

struct OnRedis {
    fence: RedisFence,
    key: String,
    connection: MultiplexedConnection,
}

impl Counter for OnRedis {
    async fn register(&self, token: FencingToken) -> Result<(), FenceError> {
        self.fence.register(&mut self.connection.clone(), token).await
    }

    async fn read(&self) -> u64 {
        let value: Option<u64> = self.connection.clone().get(&self.key).await.unwrap();
        value.unwrap_or_default()
    }

    async fn write(&self, token: FencingToken, idiom: Idiom, value: u64) -> Result<(), FenceError> {
        let mut connection = self.connection.clone();
        let answer = match idiom {
            Idiom::Write => self.fence.write(&mut connection, token, Write::set(value)).await,
            Idiom::Once => self.fence.write_once(&mut connection, token, Write::set(value)).await,
        };
        answer.map(drop)
    }
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
async fn play(counter: &impl Counter, idiom: Idiom, registers: bool, schedule: &[usize]) -> u64 {
    let first = if registers { Step::Register } else { Step::Read { writes: 0 } };
    let mut holders = [first; HOLDERS];
    let mut passed = 0;
    for holder in schedule {
        // Granted in this order; all but the last may have been paused past their lease.
        let token = FencingToken::new(1_790_000_000_000_000 + *holder as u64);
        let next = match holders[*holder] {
            Step::Register => counter.register(token).await.map(|()| Step::Read { writes: 0 }),
            Step::Read { writes } => Ok(Step::Write { writes, value: counter.read().await + 1 }),
            Step::Write { writes, value } => counter.write(token, idiom, value).await.map(|()| {
                passed += 1;
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
    passed
}

/// Plays `cases` random schedules, each on a counter of its own; the shortest one found that loses an
/// update, or none.
fn lost_update<C: Counter>(
    cases: u32,
    (idiom, registers): (Idiom, bool),
    new: impl Fn() -> C,
) -> Option<Vec<usize>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Cases of the off-switch are meant to fail, so they are not kept.
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let played = TestRunner::new(config).run(&vec(0..HOLDERS, 0..STEPS), |schedule| {
        let counter = new();
        let (passed, value) = runtime
            .block_on(async { (play(&counter, idiom, registers, &schedule).await, counter.read().await) });
        if value == passed { Ok(()) } else { Err(TestCaseError::fail(format!("{value} of {passed}"))) }
    });
    match played {
        Ok(()) => None,
        Err(TestError::Fail(_, schedule)) => Some(schedule),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

fn on_redis(cases: u32, rules: (Idiom, bool)) -> Option<Vec<usize>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = RedisServer::start();
    let raw = runtime.block_on(server.raw());
    let counters = Cell::new(0);
    lost_update(cases, rules, || {
        counters.set(counters.get() + 1);
        let key = format!("n:{}", counters.get());
        let fence = RedisFence::beside(&key).unwrap();
        OnRedis { fence, key, connection: raw.clone() }
    })
}

/// Between two steps of a newer holder, its read and its write, stands one of the paused one.
fn is_the_classic(schedule: &[usize]) -> bool {
    let around = |newer: &usize| {
        let mut steps = schedule.iter().enumerate().filter(|(_, holder)| *holder == newer);
        Some(steps.next()?.0..steps.next_back()?.0)
    };
    schedule.iter().any(|newer| around(newer).is_some_and(|span| schedule[span].iter().any(|h| h < newer)))
}

#[test]
fn in_process_a_write_without_registration_loses_an_update() {
    let found = lost_update(1_000, (Idiom::Write, false), InProcess::default).expect("found");
    assert!(is_the_classic(&found), "{found:?}");
}

#[test]
fn in_process_one_write_per_grant_without_registration_loses_an_update() {
    let found = lost_update(1_000, (Idiom::Once, false), InProcess::default).expect("found");
    assert!(is_the_classic(&found), "{found:?}");
}

#[test]
fn in_process_a_write_after_a_registration_loses_none() {
    assert_eq!(lost_update(5_000, (Idiom::Write, true), InProcess::default), None);
}

#[test]
fn in_process_one_write_per_grant_after_a_registration_loses_none() {
    assert_eq!(lost_update(5_000, (Idiom::Once, true), InProcess::default), None);
}

#[test]
fn on_redis_a_write_without_registration_loses_an_update() {
    let found = on_redis(500, (Idiom::Write, false)).expect("found");
    assert!(is_the_classic(&found), "{found:?}");
}

#[test]
fn on_redis_one_write_per_grant_without_registration_loses_an_update() {
    let found = on_redis(500, (Idiom::Once, false)).expect("found");
    assert!(is_the_classic(&found), "{found:?}");
}

#[test]
fn on_redis_a_write_after_a_registration_loses_none() {
    assert_eq!(on_redis(300, (Idiom::Write, true)), None);
}

#[test]
fn on_redis_one_write_per_grant_after_a_registration_loses_none() {
    assert_eq!(on_redis(300, (Idiom::Once, true)), None);
}
