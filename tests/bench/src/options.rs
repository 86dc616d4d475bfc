//! What the program is asked to do.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

use crate::contestant::Name;
use crate::measure::Workload;

/// The program's two roles.
pub(crate) enum Options {
    Direct(Plan),
    Drive(Orders),
    Help,
}

/// What the director measures.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Fewer and shorter rounds.
    pub(crate) quick: bool,
    /// The workloads, in order.
    pub(crate) workloads: Vec<Workload>,
    /// Write table and chart into this folder.
    pub(crate) docs: Option<PathBuf>,
    /// Fail if a count or a ratio misses its goal.
    pub(crate) check: bool,
    /// The interpreter that has the Python peers.
    pub(crate) python: PathBuf,
    /// The folder with the packages of the Node peers.
    pub(crate) node_modules: PathBuf,
    /// The folder with the drivers of both.
    pub(crate) peers: PathBuf,
}

/// What a driver is told when it is started.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    pub(crate) name: Name,
    pub(crate) url: String,
    /// Clients of the lock service that share nothing but this process.
    pub(crate) clients: usize,
    pub(crate) ttl: Duration,
}

/// The arguments, as `tests/bench/run` passes them on.
pub(crate) fn usage() -> String {
    let names = Workload::ALL.map(Workload::name).join(", ");
    format!(
        "usage: tests/bench/run [--quick] [--only WORKLOAD].. [--write-docs] [--check]
  --quick          fewer and shorter rounds: two minutes instead of ten
  --only WORKLOAD  one of {names}; may be repeated
  --write-docs     write table and chart into docs/; needs all workloads, in full
  --check          exit with 3 if a count or a ratio that should not depend on the machine misses its goal"
    )
}

impl Options {
    /// Reads the arguments.
    pub(crate) fn parse(mut arguments: Parser) -> Result<Self, lexopt::Error> {
        let mut plan = Plan {
            quick: false,
            workloads: Vec::new(),
            docs: None,
            check: false,
            python: PathBuf::from("python3"),
            node_modules: PathBuf::new(),
            peers: PathBuf::new(),
        };
        let mut write = None;
        while let Some(argument) = arguments.next()? {
            match argument {
                Arg::Value(word) if word == "drive" => return drive(&mut arguments).map(Self::Drive),
                Arg::Long("help") => return Ok(Self::Help),
                Arg::Long("quick") => plan.quick = true,
                Arg::Long("check") => plan.check = true,
                Arg::Long("write-docs") => write = Some(()),
                Arg::Long("only") => plan.workloads.push(arguments.value()?.parse_with(Workload::named)?),
                Arg::Long("python") => plan.python = arguments.value()?.into(),
                Arg::Long("node-modules") => plan.node_modules = arguments.value()?.into(),
                Arg::Long("peers") => plan.peers = arguments.value()?.into(),
                Arg::Long("docs") => plan.docs = Some(arguments.value()?.into()),
                other => return Err(other.unexpected()),
            }
        }
        if write.is_none() {
            plan.docs = None;
        } else if plan.quick || !plan.workloads.is_empty() {
            return Err("--write-docs needs all workloads, in full: leave out --quick and --only".into());
        }
        if plan.workloads.is_empty() {
            plan.workloads.extend(Workload::ALL);
        }
        Ok(Self::Direct(plan))
    }
}

/// `drive <contestant> <url> <clients> <ttl in ms>`, as the director writes it.
fn drive(arguments: &mut Parser) -> Result<Orders, lexopt::Error> {
    Ok(Orders {
        name: arguments.value()?.parse_with(Name::named)?,
        url: arguments.value()?.string()?,
        clients: arguments.value()?.parse()?,
        ttl: Duration::from_millis(arguments.value()?.parse()?),
    })
}
