//! Few and many waiters for one key whose section is empty: what each of them costs the others.

use std::thread::sleep;
use std::time::Duration;

use super::team::{Pace, Shape, Team};
use crate::Result;
use crate::bench::Bench;
use crate::command::{At, Command};
use crate::contestant::Name;
use crate::process::Start;
use crate::row::{Found, Goal};
use crate::server::Server;
use crate::stats::{median, ratio};

/// Each waiter is a client of its own, eight processes in all.
const SIZES: [usize; 4] = [8, 32, 128, 512];
const PROCESSES: usize = 8;

pub(super) fn measure(bench: &Bench) -> Result<Found> {
    let mut server = Server::start()?;
    let pace = Pace { section_ms: 0, think_ms: 0, lasts: Duration::from_millis(bench.either(3_000, 400)) };
    let mut teams = Vec::new();
    for size in SIZES {
        let each = size / PROCESSES;
        let shape = Shape { name: Name::Lockrt, processes: PROCESSES, clients: each, tasks: each };
        teams.push(Team::start(bench, shape, &server)?);
    }
    teams.push(Team::start(
        bench,
        Shape { name: Name::Lockrt, processes: 1, clients: 1, tasks: 512 },
        &server,
    )?);
    let rounds = bench.rounds(bench.either(7, 1), &mut teams, |team| Ok(team.round(pace)?.per_second))?;
    // To listen costs the server, so that is a round of its own.
    let counted = counted(&server, &mut teams, pace)?;
    let silent = while_waiting(bench, &mut server, &mut teams[SIZES.len() - 1], pace)?;

    let mut found = Found::default();
    for (at, calls) in counted.into_iter().enumerate() {
        let what = match SIZES.get(at) {
            Some(size) => format!("lockrt, {size} clients wait for one key"),
            None => String::from("lockrt, 512 tasks of one client wait for one key"),
        };
        let figure = format!("{:.1} thousand grants/s, {calls:.2} commands each", median(&rounds[at]) / 1e3);
        if at + 1 == SIZES.len() {
            found.judge(what, figure, Goal::at_most(calls, 2.2, " commands").steady());
        } else {
            found.tell(what, figure);
        }
    }
    let keeps = ratio(&rounds[SIZES.len() - 1], &rounds[0]) * 100.0;
    found.judge(
        "lockrt, grants/s of 512 clients : 8 clients",
        format!("{keeps:.0} %"),
        Goal::at_least(keeps, 65.0, " %"),
    );
    found.judge(
        "lockrt, commands/s while 512 clients wait",
        format!("{silent:.1}"),
        Goal::at_most(silent, 0.0, "").steady(),
    );
    Ok(found)
}

/// Commands per grant of each team: the difference of a long and a short round, since in each every client
/// comes once more than it is served in time.
fn counted(server: &Server, teams: &mut [Team], pace: Pace) -> Result<Vec<f64>> {
    let commands = server.count()?;
    let mut each = Vec::new();
    for team in teams {
        let mut round = |times: u32| -> Result<(f64, f64)> {
            let before = commands.so_far();
            let turns = team.round(Pace { lasts: pace.lasts * times, ..pace })?.turns;
            // What was asked may still be on its way to the listener.
            sleep(Duration::from_millis(100));
            Ok(((commands.so_far() - before) as f64, turns))
        };
        let (short, long) = (round(1)?, round(3)?);
        each.push((long.0 - short.0) / (long.1 - short.1).max(1.0));
    }
    Ok(each)
}

/// Waits until nobody asks any more, for ten seconds at most.
fn settle(server: &mut Server) -> Result<()> {
    let mut last = 0.0;
    for _ in 0..20 {
        sleep(Duration::from_millis(500));
        let asked = server.number("stats", "total_commands_processed")?;
        if asked - last <= 1.0 {
            return Ok(());
        }
        last = asked;
    }
    Ok(())
}

/// What a whole team asks per second while somebody else has the lock.
fn while_waiting(bench: &Bench, server: &mut Server, team: &mut Team, pace: Pace) -> Result<f64> {
    let mut holder = bench.start(Start::one(Name::Lockrt, 0), server)?;
    holder.ask::<At>(Command::Acquire)?;
    team.begin(pace)?;
    settle(server)?;
    let watched = Duration::from_secs(bench.either(4, 2));
    let before = server.number("stats", "total_commands_processed")?;
    sleep(watched);
    // One of them is the question itself.
    let asked = server.number("stats", "total_commands_processed")? - before - 1.0;
    holder.ask::<At>(Command::Release)?;
    team.end(pace)?;
    Ok(asked / watched.as_secs_f64())
}
