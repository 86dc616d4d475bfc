//! The director.

use std::path::PathBuf;
use std::time::Instant;

use crate::Result;
use crate::measure::Workload;
use crate::options::Plan;
use crate::page;
use crate::process::{Driver, Programs, Start};
use crate::row::Found;
use crate::server::Server;

/// What every workload needs to know.
pub(crate) struct Bench {
    pub(crate) quick: bool,
    pub(crate) programs: Programs,
    /// A folder for what ends with the run.
    pub(crate) scratch: PathBuf,
}

/// Measures what is planned and prints the table. False if `--check` was asked for and something failed it.
pub(crate) fn run(plan: &Plan) -> Result<bool> {
    let scratch = std::env::temp_dir().join(format!("lockrt-bench-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let programs = Programs {
        own: std::env::current_exe()?,
        python: plan.python.clone(),
        node_modules: plan.node_modules.clone(),
        peers: plan.peers.clone(),
    };
    let bench = Bench { quick: plan.quick, programs, scratch };
    let load = page::load();
    let (found, failures) = measure(&bench, plan);
    std::fs::remove_dir_all(&bench.scratch)?;
    println!("{}", page::conditions(plan.quick, &load)?);
    println!("{}", page::table(&found));
    println!("{}", page::summary(&found));
    if !failures.is_empty() {
        return Err(failures.join("; ").into());
    }
    if let Some(docs) = &plan.docs {
        page::write(docs, &found, &load)?;
    }
    Ok(!plan.check || page::steady_ones_are_met(&found))
}

/// What was found, and why the rest was not: one workload that cannot be measured does not spoil the others.
fn measure(bench: &Bench, plan: &Plan) -> (Vec<(Workload, Found)>, Vec<String>) {
    let (mut found, mut failures) = (Vec::new(), Vec::new());
    for &workload in &plan.workloads {
        let began = Instant::now();
        match workload.measure(bench) {
            Ok(of_it) => found.push((workload, of_it)),
            Err(error) => failures.push(format!("{}: {error}", workload.name())),
        }
        eprintln!("{}: {} s", workload.name(), began.elapsed().as_secs());
    }
    (found, failures)
}

impl Bench {
    pub(crate) fn start(&self, start: Start, server: &Server) -> Result<Driver> {
        Driver::start(&self.programs, start, &server.url())
    }

    /// One number for a full run, another for a quick one.
    pub(crate) fn either<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Measures all in turn, round by round; a first round is thrown away. Gives the values of each.
    pub(crate) fn rounds<D, T>(
        &self,
        rounds: usize,
        contestants: &mut [D],
        mut one: impl FnMut(&mut D) -> Result<T>,
    ) -> Result<Vec<Vec<T>>> {
        let mut values: Vec<Vec<T>> = contestants.iter().map(|_| Vec::new()).collect();
        for round in 0..=rounds {
            for (contestant, values) in contestants.iter_mut().zip(&mut values) {
                let value = one(contestant)?;
                if round > 0 {
                    values.push(value);
                }
            }
        }
        Ok(values)
    }
}
