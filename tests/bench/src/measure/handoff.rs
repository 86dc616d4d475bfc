//! From the release of one process to the grant of another that waits for it.

use std::thread::sleep;
use std::time::Duration;

use crate::Result;
use crate::bench::Bench;
use crate::command::{At, Command, Cycles, now_ns};
use crate::contestant::Name;
use crate::process::{Driver, Start};
use crate::row::{Found, Goal, Panel};
use crate::server::Server;
use crate::stats::{median, ratio};

const CONTESTANTS: [Name; 7] = [
    Name::Lockrt,
    Name::Rslock,
    Name::AsyncRedisLock,
    Name::RedisPy,
    Name::PythonRedisLock,
    Name::NodeRedlock,
    Name::RedisSemaphore,
];

/// Those who ask again and again, rather than being told.
const POLLERS: [Name; 5] =
    [Name::Rslock, Name::AsyncRedisLock, Name::RedisPy, Name::NodeRedlock, Name::RedisSemaphore];

/// Two processes that hand a lock to and fro.
struct Pair {
    name: Name,
    holder: Driver,
    waiter: Driver,
}

pub(super) fn measure(bench: &Bench) -> Result<Found> {
    let server = Server::start()?;
    let mut floor = bench.start(Start::one(Name::Raw, 0), &server)?;
    let mut pairs = Vec::new();
    for name in CONTESTANTS {
        let start = Start::one(name, 0);
        let (holder, waiter) = (bench.start(start, &server)?, bench.start(start, &server)?);
        pairs.push(Pair { name, holder, waiter });
    }
    let mut trips = Vec::new();
    let rounds = bench.rounds(bench.either(7, 2), &mut pairs, |pair| {
        if pair.name == Name::Lockrt {
            let (hand_off, trip) = beside(bench.either(40, 12), pair, &mut floor)?;
            trips.push(trip);
            return Ok(hand_off);
        }
        let samples: Vec<f64> = (0..bench.either(8, 4)).map(|_| pair.sample()).collect::<Result<_>>()?;
        Ok(median(&samples))
    })?;
    // The first round is thrown away with the others' first.
    Ok(report(&rounds, &trips[1..]))
}

/// Hand-offs and single round trips in turn, both after the same silence.
fn beside(samples: usize, pair: &mut Pair, floor: &mut Driver) -> Result<(f64, f64)> {
    let (mut hand_offs, mut trips) = (Vec::new(), Vec::new());
    for _ in 0..samples {
        hand_offs.push(pair.sample()?);
        pause();
        trips.push(floor.ask::<Cycles>(Command::Ping)?.p50_us);
    }
    Ok((median(&hand_offs), median(&trips)))
}

impl Pair {
    /// One hand-off, in microseconds.
    fn sample(&mut self) -> Result<f64> {
        self.holder.ask::<At>(Command::Acquire)?;
        self.waiter.tell(Command::Acquire)?;
        pause();
        let released: At = self.holder.ask(Command::Release)?;
        let granted: At = self.waiter.answer()?;
        self.waiter.ask::<At>(Command::Release)?;
        Ok(granted.at_ns.saturating_sub(released.at_ns) as f64 / 1e3)
    }
}

/// Long enough that the waiter is parked, and not in step with anybody's polls.
fn pause() {
    sleep(Duration::from_micros(15_000 + now_ns() / 1_000 % 10_007));
}

fn report(rounds: &[Vec<f64>], trips: &[f64]) -> Found {
    let of = |name| &rounds[CONTESTANTS.iter().position(|other| *other == name).unwrap_or_default()];
    let lockrt = of(Name::Lockrt);
    let mut found = Found::default();
    found.tell("lockrt, from release to grant: p50", format!("{:.0} us", median(lockrt)));
    let round_trips = ratio(lockrt, trips);
    found.judge(
        format!("... in round trips after the same silence, {:.1} us", median(trips)),
        format!("{round_trips:.2}"),
        Goal::at_most(round_trips, 2.6, "").steady(),
    );
    let fastest = POLLERS.into_iter().min_by(|a, b| median(of(*a)).total_cmp(&median(of(*b))));
    if let Some(fastest) = fastest {
        let times = ratio(of(fastest), lockrt);
        let what = format!("{} (the fastest poller) : lockrt", fastest.title());
        found.judge(what, format!("{times:.0}"), Goal::at_least(times, 40.0, ""));
    }
    let times = ratio(of(Name::Rslock), lockrt);
    found.judge("rslock : lockrt", format!("{times:.0}"), Goal::at_least(times, 500.0, ""));
    for name in CONTESTANTS {
        found.bar(Panel::HandOff, name.title(), median(of(name)));
        if name != Name::Lockrt {
            found.tell(name.title(), format!("{:.2} ms", median(of(name)) / 1e3));
        }
    }
    found
}
