//! What a cycle costs the client: instructions, and calls of the allocator.

use std::path::Path;

use crate::Result;
use crate::bench::Bench;
use crate::command::{Command, Cycles};
use crate::contestant::Name;
use crate::process::{Driver, Start};
use crate::row::{Found, Goal};
use crate::server::Server;

const CONTESTANTS: [Name; 5] = [Name::Lockrt, Name::Raw, Name::Lean, Name::Rslock, Name::AsyncRedisLock];

/// Cycles that both runs make before their lengths differ.
const FIRST: u64 = 200;

pub(super) fn measure(bench: &Bench) -> Result<Found> {
    let server = Server::start()?;
    let more = bench.either(1_200, 200);
    let mut found = Found::default();
    for name in CONTESTANTS {
        let mut driver = bench.start(Start::one(name, 0), &server)?;
        driver.ask::<Cycles>(Command::Count { cycles: 1_000 })?;
        let counted: Cycles = driver.ask(Command::Count { cycles: 10_000 })?;
        let allocations = counted.allocations as f64 / counted.cycles as f64;
        let short = instructions(bench, name, &server, FIRST)?;
        let long = instructions(bench, name, &server, FIRST + more)?;
        let thousands = (long.saturating_sub(short)) as f64 / more as f64 / 1e3;
        let what = format!("{}, instructions per cycle", name.title());
        let also = format!("{}, allocations per cycle", name.title());
        let (figure, other) = (format!("{thousands:.1} thousand"), format!("{allocations:.1}"));
        if name == Name::Lockrt {
            found.judge(what, figure, Goal::at_most(thousands, 24.0, " thousand").steady());
            found.judge(also, other, Goal::at_most(allocations, 20.0, "").steady());
        } else {
            found.tell(what, figure);
            found.tell(also, other);
        }
    }
    Ok(found)
}

/// The instructions of a driver that makes so many cycles, from its start to its end.
fn instructions(bench: &Bench, name: Name, server: &Server, cycles: u64) -> Result<u64> {
    let log = bench.scratch.join("callgrind.log");
    let mut driver = Driver::counted(&bench.programs, Start::one(name, 0), &server.url(), &log)?;
    driver.ask::<Cycles>(Command::Count { cycles })?;
    driver.finish()?;
    read(&log)
}

/// The line `==123== Collected : 456`.
fn read(log: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(log)?;
    let line = text.lines().find_map(|line| line.split_once("Collected :"));
    Ok(line.ok_or("callgrind has collected nothing")?.1.trim().parse()?)
}
