//! 256 tasks of one process, each on a key of its own: what client and server can do at most.

use std::collections::BTreeMap;

use crate::Result;
use crate::bench::Bench;
use crate::command::{Command, Cycles};
use crate::contestant::Name;
use crate::monitor::Monitor;
use crate::process::{Driver, Start};
use crate::row::{Found, Goal};
use crate::server::{Server, Spent};
use crate::stats::{median, ratio};

const CONTESTANTS: [Name; 4] = [Name::Lockrt, Name::Raw, Name::Rslock, Name::AsyncRedisLock];
const TASKS: usize = 256;

/// Below this the client was the bottleneck, so the figure says nothing about the server.
const BUSY: f64 = 0.95;

/// What one round has shown.
#[derive(Clone, Copy, Debug)]
struct Round {
    per_second: f64,
    /// What the server spent on commands, by its own account; 0 where it was not asked.
    command_us: f64,
    /// The same with reading and writing.
    cpu_us: f64,
    busy: f64,
}

pub(super) fn measure(bench: &Bench) -> Result<Found> {
    let mut server = Server::start()?;
    let mut drivers = Vec::new();
    for name in CONTESTANTS {
        drivers.push((name, bench.start(Start::one(name, 1), &server)?));
    }
    let asked = asked_per_cycle(&server, &mut drivers[0].1)?;
    let ms = bench.either(1_000, 500);
    let rounds = bench.rounds(bench.either(9, 3), &mut drivers, |(name, driver)| {
        let asked = (*name == Name::Lockrt).then_some(&asked);
        round(&mut server, driver, ms, asked)
    })?;
    Ok(report(&rounds))
}

/// Which commands a client sends for one cycle, and how many of each.
fn asked_per_cycle(server: &Server, driver: &mut Driver) -> Result<BTreeMap<String, f64>> {
    const SOME: u64 = 512;
    let mut listener = Monitor::open(&server.address())?;
    driver.ask::<Cycles>(Command::Count { cycles: SOME })?;
    redis::cmd("ECHO").arg("mark").exec(&mut redis::Client::open(server.url())?.get_connection()?)?;
    let mut asked = BTreeMap::new();
    while let Some(command) = listener.next()? {
        let name = String::from_utf8_lossy(&command.words[0]).to_lowercase();
        if name == "echo" {
            break;
        }
        if name != "client" && name != "hello" {
            *asked.entry(name).or_insert(0.0) += 1.0 / SOME as f64;
        }
    }
    Ok(asked)
}

fn round(
    server: &mut Server,
    driver: &mut Driver,
    ms: u64,
    asked: Option<&BTreeMap<String, f64>>,
) -> Result<Round> {
    let names: Vec<&String> = asked.into_iter().flat_map(BTreeMap::keys).collect();
    let before: Vec<Spent> = names.iter().map(|name| server.spent(name)).collect::<Result<_>>()?;
    let work = server.work()?;
    let cycles: Cycles = driver.ask(Command::Parallel { tasks: TASKS, ms })?;
    let (cpu, busy) = server.work()?.since(&work);
    let mut command_us = 0.0;
    for (name, before) in names.iter().zip(before) {
        let spent = server.spent(name)?.since(before);
        // A command that a script calls, too, counts with the average of both.
        command_us += asked.map_or(0.0, |asked| asked[*name]) * spent.us as f64 / spent.calls.max(1) as f64;
    }
    let count = cycles.cycles as f64;
    Ok(Round { per_second: count * 1e6 / cycles.wall_us, command_us, cpu_us: cpu / count, busy })
}

fn report(rounds: &[Vec<Round>]) -> Found {
    let all = |rounds: &[Round], what: fn(&Round) -> f64| rounds.iter().map(what).collect::<Vec<f64>>();
    let rates: Vec<Vec<f64>> = rounds.iter().map(|rounds| all(rounds, |round| round.per_second)).collect();
    let mut found = Found::default();
    for (at, name) in CONTESTANTS.into_iter().enumerate() {
        let busy = median(&all(&rounds[at], |round| round.busy));
        let cpu = median(&all(&rounds[at], |round| round.cpu_us));
        let bound = if busy < BUSY { ": bound by the client" } else { "" };
        found.tell(
            format!("{}, 256 tasks on 256 keys", name.title()),
            format!(
                "{:.0} thousand cycles/s; Redis {cpu:.1} us per cycle, {:.0} % busy{bound}",
                median(&rates[at]) / 1e3,
                busy * 100.0
            ),
        );
    }
    let to_rslock = ratio(&rates[0], &rates[2]);
    found.judge(
        "lockrt : rslock, cycles/s",
        format!("{to_rslock:.2}"),
        Goal::at_least(to_rslock, 1.0, "").steady(),
    );
    let us = median(&all(&rounds[0], |round| round.command_us));
    found.judge(
        "lockrt, Redis time per cycle by commandstats",
        format!("{us:.1} us"),
        Goal::at_most(us, 6.0, " us"),
    );
    found
}
