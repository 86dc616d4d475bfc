//! A holder dies, or the one whose turn it is sleeps: when does the next one hold?

use std::thread::sleep;
use std::time::Duration;

use crate::Result;
use crate::bench::Bench;
use crate::command::{At, Command, now_ns};
use crate::contestant::Name;
use crate::process::Start;
use crate::row::{Found, Goal};
use crate::server::Server;
use crate::stats::{median, quantile};

const PEERS: [Name; 6] = [
    Name::Rslock,
    Name::AsyncRedisLock,
    Name::RedisPy,
    Name::PythonRedisLock,
    Name::NodeRedlock,
    Name::RedisSemaphore,
];

/// Whole seconds, since one of the peers counts so.
const TTL: Duration = Duration::from_secs(1);

/// For how long lockrt offers a lock, see `lockrt/src/backend/redis`.
const OFFER: Duration = Duration::from_millis(200);

/// Time for a waiter to be parked.
const PARK: Duration = Duration::from_millis(100);

pub(super) fn measure(bench: &Bench) -> Result<Found> {
    let server = Server::start()?;
    let mut found = Found::default();
    let over: Vec<f64> =
        (0..bench.either(9, 2)).map(|_| dies(bench, &server, Name::Lockrt)).collect::<Result<_>>()?;
    let worst = quantile(&over, 1.0);
    found.judge(
        "lockrt, a holder dies: the next holds after the ttl and",
        format!("{:.1} ms, at most {worst:.1} ms", median(&over)),
        Goal::at_most(worst, 10.0, " ms"),
    );
    let over: Vec<f64> = (0..bench.either(9, 2)).map(|_| sleeps(bench, &server)).collect::<Result<_>>()?;
    let worst = quantile(&over, 1.0);
    found.judge(
        "lockrt, the first in the queue is frozen: the next holds after the offer and",
        format!("{:.1} ms, at most {worst:.1} ms", median(&over)),
        Goal::at_most(worst, 10.0, " ms"),
    );
    for name in PEERS {
        let over: Vec<f64> =
            (0..bench.either(5, 1)).map(|_| dies(bench, &server, name)).collect::<Result<_>>()?;
        found.tell(format!("{}, a holder dies", name.title()), format!("{:.1} ms", median(&over)));
    }
    Ok(found)
}

/// How long after the ttl of a killed holder the next one holds, in ms.
fn dies(bench: &Bench, server: &Server, name: Name) -> Result<f64> {
    let start = Start { ttl: TTL, ..Start::one(name, 0) };
    let (mut holder, mut waiter) = (bench.start(start, server)?, bench.start(start, server)?);
    let held: At = holder.ask(Command::Acquire)?;
    // Not in step with the polls of those who poll.
    sleep(Duration::from_millis(now_ns() / 1_000 % 211));
    waiter.tell(Command::Acquire)?;
    sleep(PARK);
    holder.kill();
    let next: At = waiter.answer()?;
    waiter.ask::<At>(Command::Release)?;
    Ok(between_ms(held, next) - TTL.as_secs_f64() * 1e3)
}

/// How long after a release whose offer goes to a stopped process the one behind it holds, beyond the offer, in ms.
fn sleeps(bench: &Bench, server: &Server) -> Result<f64> {
    let start = Start { ttl: Duration::from_secs(10), ..Start::one(Name::Lockrt, 0) };
    let mut holder = bench.start(start, server)?;
    let (mut first, mut second) = (bench.start(start, server)?, bench.start(start, server)?);
    holder.ask::<At>(Command::Acquire)?;
    first.tell(Command::Acquire)?;
    sleep(PARK);
    second.tell(Command::Acquire)?;
    sleep(PARK);
    first.freeze(true)?;
    let released: At = holder.ask(Command::Release)?;
    let next: At = second.answer()?;
    first.freeze(false)?;
    second.ask::<At>(Command::Release)?;
    first.answer::<At>()?;
    first.ask::<At>(Command::Release)?;
    Ok(between_ms(released, next) - OFFER.as_secs_f64() * 1e3)
}

fn between_ms(from: At, to: At) -> f64 {
    (to.at_ns as f64 - from.at_ns as f64) / 1e6
}
