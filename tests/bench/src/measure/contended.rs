//! 32 contenders for one key, each turn 2 ms long.

use std::time::Duration;

use super::team::{Pace, Seen, Shape, Team};
use crate::Result;
use crate::bench::Bench;
use crate::contestant::Name;
use crate::row::{Found, Goal, Panel};
use crate::server::Server;
use crate::stats::{median, ratio};

/// 32 tasks in all.
const fn eight_by_four(name: Name) -> Shape {
    Shape { name, processes: 8, clients: 1, tasks: 4 }
}

const LOCKRT: [Shape; 3] = [
    eight_by_four(Name::Lockrt),
    Shape { name: Name::Lockrt, processes: 8, clients: 4, tasks: 4 },
    Shape { name: Name::Lockrt, processes: 1, clients: 1, tasks: 32 },
];

const PEERS: [Shape; 6] = [
    eight_by_four(Name::Rslock),
    eight_by_four(Name::AsyncRedisLock),
    eight_by_four(Name::RedisPy),
    eight_by_four(Name::PythonRedisLock),
    eight_by_four(Name::NodeRedlock),
    eight_by_four(Name::RedisSemaphore),
];

/// A round, and the commands that it has taken.
struct Round {
    seen: Seen,
    commands: f64,
}

/// With 40 ms on average between two turns of a task, so that those who barge gain nothing by it.
pub(super) fn with_thinking(bench: &Bench) -> Result<Found> {
    let shapes = [LOCKRT.as_slice(), &PEERS].concat();
    let lasts = Duration::from_millis(bench.either(1_500, 400));
    let pace = Pace { section_ms: 2, think_ms: 40, lasts };
    let rounds = measure(bench, &shapes, bench.either(7, 1), pace)?;
    let mut found = Found::default();
    let rates: Vec<Vec<f64>> = rounds.iter().map(|rounds| of(rounds, |seen| seen.per_second)).collect();
    let rslock = LOCKRT.len();
    for (at, shape) in shapes.iter().enumerate() {
        let used = median(&of(&rounds[at], |seen| seen.used)) * 100.0;
        let (p50, p99) = waits(&rounds[at]);
        let asked =
            median(&rounds[at].iter().map(|round| round.commands / round.seen.turns).collect::<Vec<_>>());
        found.tell(
            shape.title(),
            format!(
                "{:.0}/s, wait p50 {p50:.0} ms, p99 {p99:.0} ms, {asked:.1} commands each",
                median(&rates[at])
            ),
        );
        if at < rslock {
            found.judge("... of the ideal", format!("{used:.1} %"), Goal::at_least(used, 95.0, " %"));
            let times = ratio(&rates[at], &rates[rslock]);
            found.judge("... : rslock", format!("{times:.2}"), Goal::at_least(times, 1.5, ""));
            let spread =
                ratio(&of(&rounds[at], |seen| seen.wait_p99_ms), &of(&rounds[at], |seen| seen.wait_p50_ms));
            found.judge("... wait p99 : p50", format!("{spread:.2}"), Goal::at_most(spread, 1.4, ""));
        } else {
            found.tell("... of the ideal", format!("{used:.1} %"));
        }
        // The first form stands for lockrt.
        if at == 0 || at >= rslock {
            found.bar(Panel::Use, shape.name.title(), used);
            found.bar(Panel::Wait, shape.name.title(), p99);
        }
    }
    Ok(found)
}

/// Without a pause between turns, for about 50 turns each.
pub(super) fn without_thinking(bench: &Bench) -> Result<Found> {
    let shapes = [LOCKRT.as_slice(), &PEERS[..1]].concat();
    let lasts = Duration::from_millis(bench.either(5_200, 1_200));
    let pace = Pace { section_ms: 2, think_ms: 0, lasts };
    let rounds = measure(bench, &shapes, bench.either(3, 1), pace)?;
    let mut found = Found::default();
    for (at, shape) in shapes.iter().enumerate() {
        let of_each = rounds[at].iter().map(|round| round.seen.least / round.seen.most).collect::<Vec<_>>();
        let (least, most) =
            (median(&of(&rounds[at], |seen| seen.least)), median(&of(&rounds[at], |seen| seen.most)));
        let what = format!("{}, no pause: least and most served", shape.title());
        let figure = format!("{least:.0} : {most:.0}");
        if shape.name == Name::Lockrt {
            let even = median(&of_each);
            let goal = Goal::at_least(even, 0.97, "");
            found.judge(what, format!("{figure} = {even:.2}"), goal);
            let spread =
                ratio(&of(&rounds[at], |seen| seen.wait_p99_ms), &of(&rounds[at], |seen| seen.wait_p50_ms));
            found.judge("... wait p99 : p50", format!("{spread:.2}"), Goal::at_most(spread, 1.4, ""));
        } else {
            let (p50, p99) = waits(&rounds[at]);
            found.tell(what, format!("{figure}, wait p50 {p50:.0} ms, p99 {p99:.0} ms"));
        }
    }
    Ok(found)
}

fn measure(bench: &Bench, shapes: &[Shape], rounds: usize, pace: Pace) -> Result<Vec<Vec<Round>>> {
    let server = Server::start()?;
    let mut teams = Vec::new();
    for &shape in shapes {
        teams.push(Team::start(bench, shape, &server)?);
    }
    let commands = server.count()?;
    bench.rounds(rounds, &mut teams, |team| {
        let before = commands.so_far();
        let seen = team.round(pace)?;
        Ok(Round { seen, commands: (commands.so_far() - before) as f64 })
    })
}

fn of(rounds: &[Round], what: fn(&Seen) -> f64) -> Vec<f64> {
    rounds.iter().map(|round| what(&round.seen)).collect()
}

fn waits(rounds: &[Round]) -> (f64, f64) {
    (median(&of(rounds, |seen| seen.wait_p50_ms)), median(&of(rounds, |seen| seen.wait_p99_ms)))
}
