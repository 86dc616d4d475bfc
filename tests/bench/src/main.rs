//! Measures lockrt beside every peer; `tests/bench/run` builds and starts it.
//!
//! One program in two roles. The director starts a Redis server and one *driver* process per contestant, pins each to
//! a core, and asks the drivers in turn, round by round, so that whatever disturbs the machine disturbs all of them. A
//! driver locks with one library and tells what it saw. Drivers in Python and JavaScript stand in `peers/` and obey
//! the same lines.

mod bench;
mod chart;
mod command;
mod contestant;
mod driver;
mod measure;
mod monitor;
mod options;
mod page;
mod process;
mod row;
mod server;
mod stats;

use std::error::Error;
use std::process::ExitCode;

use options::Options;

/// What can go wrong on the way: nothing here is handled, all of it is told.
type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Counts what a driver allocates; the director does not look at it.
#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    let done = match Options::parse(lexopt::Parser::from_env()) {
        Ok(Options::Drive(orders)) => driver::run(&orders).map(|()| true),
        Ok(Options::Direct(plan)) => bench::run(&plan),
        Ok(Options::Help) => {
            println!("{}", options::usage());
            Ok(true)
        }
        Err(mistake) => {
            eprintln!("{mistake}\n{}", options::usage());
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(error) => {
            eprintln!("cannot measure: {error}");
            ExitCode::FAILURE
        }
    }
}
