//! What the program is asked to do.

use std::process::ExitCode;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

use super::broken::Break;
use super::scene::Scene;
use super::worker::Orders;

/// The program's two sides.
pub(super) enum Options {
    Director(Plan),
    Worker(Orders),
    Help,
}

/// What the director runs.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// What is run, in order.
    pub(super) scenes: Vec<Scene>,
    /// How long the faults of each class last.
    pub(super) faults: Duration,
    /// What decides every random number.
    pub(super) seed: u64,
    /// How the workers are broken.
    pub(super) how: Option<Break>,
}

/// How long the faults of a class last in the short form.
const SHORT: Duration = Duration::from_secs(2);

/// What a class takes beside its faults: to start, heal and stop.
const AROUND: Duration = Duration::from_secs(3);

const USAGE: &str = "usage: chaos [--minutes N | --seconds N] [--class NAME].. [--seed N] [--break NAME]
  --minutes N   share this time between the classes; without it, 2 s of faults for each
  --seconds N   so many seconds of faults for each class
  --class NAME  only this class; may be repeated
  --seed N      repeat the random choices of an earlier run
  --break NAME  break the workers, to see the checkers turn red";

impl Options {
    /// Reads the arguments.
    pub(super) fn parse(mut arguments: Parser) -> Result<Self, lexopt::Error> {
        let mut plan = Plan { scenes: Vec::new(), faults: SHORT, seed: random_seed(), how: None };
        let mut minutes = None;
        while let Some(argument) = arguments.next()? {
            match argument {
                Arg::Value(word) if word == "worker" => {
                    return worker(&mut arguments).map(Self::Worker);
                }
                Arg::Long("help") => return Ok(Self::Help),
                Arg::Long("minutes") => minutes = Some(arguments.value()?.parse::<f64>()?),
                Arg::Long("seconds") => plan.faults = Duration::from_secs(arguments.value()?.parse()?),
                Arg::Long("seed") => plan.seed = arguments.value()?.parse()?,
                Arg::Long("class") => plan.scenes.push(arguments.value()?.parse_with(scene)?),
                Arg::Long("break") => plan.how = Some(arguments.value()?.parse_with(breakage)?),
                other => return Err(other.unexpected()),
            }
        }
        if plan.scenes.is_empty() {
            plan.scenes.extend(Scene::all());
        }
        if let Some(minutes) = minutes {
            let classes = u32::try_from(plan.scenes.len()).unwrap_or(u32::MAX);
            let each =
                Duration::try_from_secs_f64(minutes * 60.0).map_err(|error| error.to_string())? / classes;
            plan.faults = each.saturating_sub(AROUND).max(SHORT);
        }
        Ok(Self::Director(plan))
    }
}

/// `worker <lock url> <store url> <seed> <cancels> <break>`, as the crew writes it.
fn worker(arguments: &mut Parser) -> Result<Orders, lexopt::Error> {
    let locks = arguments.value()?.string()?;
    let store = arguments.value()?.string()?;
    let seed = arguments.value()?.parse()?;
    let cancels = arguments.value()?.parse()?;
    let how = match arguments.value()?.string()?.as_str() {
        "-" => None,
        name => Some(breakage(name)?),
    };
    Ok(Orders { locks, store, seed, cancels, how })
}

impl Orders {
    /// The arguments that [`worker`] reads.
    pub(super) fn arguments(&self) -> [String; 6] {
        let how = self.how.map_or("-", Break::name);
        let [seed, cancels] = [self.seed.to_string(), self.cancels.to_string()];
        ["worker".into(), self.locks.clone(), self.store.clone(), seed, cancels, how.into()]
    }
}

fn scene(name: &str) -> Result<Scene, String> {
    let found = Scene::all().find(|scene| scene.name() == name);
    found.ok_or_else(|| {
        let names: Vec<String> = Scene::all().map(Scene::name).collect();
        format!("no class `{name}`; there are {}", names.join(", "))
    })
}

fn breakage(name: &str) -> Result<Break, String> {
    let found = Break::ALL.into_iter().find(|how| how.name() == name);
    found.ok_or_else(|| {
        format!("nothing breaks `{name}`; there are {}", Break::ALL.map(Break::name).join(", "))
    })
}

/// Some seed, to be printed and so repeated.
fn random_seed() -> u64 {
    super::record::now_ns() % 1_000_000
}

/// Lists the arguments, after what is wrong with those given.
#[allow(clippy::print_stderr, reason = "the program's answer to a mistake in its arguments")]
pub(super) fn explain(mistake: Option<&lexopt::Error>) -> ExitCode {
    if let Some(mistake) = mistake {
        eprintln!("{mistake}");
    }
    eprintln!("{USAGE}");
    ExitCode::from(if mistake.is_some() { 2 } else { 0 })
}
