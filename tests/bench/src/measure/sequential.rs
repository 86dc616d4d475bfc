//! One caller that acquires and releases, again and again: what the lock costs where nobody contends.

use crate::Result;
use crate::bench::Bench;
use crate::command::{Command, Cycles};
use crate::contestant::Name;
use crate::process::Start;
use crate::row::{Found, Goal, Panel};
use crate::server::Server;
use crate::stats::{median, ratio};

const CONTESTANTS: [Name; 11] = [
    Name::Lockrt,
    Name::LockrtStarted,
    Name::Raw,
    Name::Lean,
    Name::Rslock,
    Name::AsyncRedisLock,
    Name::Redlock,
    Name::RedisPy,
    Name::PythonRedisLock,
    Name::NodeRedlock,
    Name::RedisSemaphore,
];

pub(super) fn measure(bench: &Bench) -> Result<Found> {
    let server = Server::start()?;
    let mut drivers = Vec::new();
    for name in CONTESTANTS {
        drivers.push(bench.start(Start::one(name, 0), &server)?);
    }
    let ms = bench.either(100, 60);
    let rounds = bench.rounds(bench.either(21, 7), &mut drivers, |driver| {
        Ok(driver.ask::<Cycles>(Command::Cycles { ms })?.p50_us)
    })?;
    Ok(report(&rounds))
}

fn report(rounds: &[Vec<f64>]) -> Found {
    let of = |name| &rounds[CONTESTANTS.iter().position(|other| *other == name).unwrap_or_default()];
    let to = |name| ratio(of(Name::Lockrt), of(name));
    let mut found = Found::default();
    found.tell("lockrt, acquire and awaited release: p50", format!("{:.1} us", median(of(Name::Lockrt))));
    let raw = to(Name::Raw);
    found.judge(
        "lockrt : redis-rs with the same commands",
        format!("{raw:.2}"),
        Goal::at_most(raw, 1.0, "").steady(),
    );
    let rslock = to(Name::Rslock);
    found.judge(
        "lockrt : rslock, which has no fence",
        format!("{rslock:.2}"),
        Goal::at_most(rslock, 1.05, "").steady(),
    );
    let started = ratio(of(Name::LockrtStarted), of(Name::Rslock));
    found.judge(
        "lockrt, release not awaited : rslock",
        format!("{started:.2}"),
        Goal::at_most(started, 0.6, "").steady(),
    );
    for name in CONTESTANTS {
        let p50 = median(of(name));
        found.bar(Panel::Cycle, name.title(), p50);
        if name != Name::Lockrt {
            found.tell(name.title(), format!("{p50:.1} us, {:.2} x lockrt", 1.0 / to(name)));
        }
    }
    found
}
