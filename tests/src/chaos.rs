//! The chaos run: worker processes that lock, count and write under one class of faults after the
//! other, and checkers that say whether what they told may have happened.
//!
//! The director starts for each class an `arena`: a lock server, a store that stays healthy, and
//! a crew of `worker` processes, each behind a proxy of its own. The `nemesis` breaks things
//! until time is up, then everything is healed, and the workers are asked to stop. What they told
//! on the way, line by line, is the `history` that the checkers of `checks` judge.

mod arena;
mod broken;
mod checks;
mod class;
mod crew;
mod director;
mod history;
mod ledger;
mod nemesis;
mod options;
mod raw;
mod record;
mod row;
mod scene;
mod server;
mod spot;
mod task;
mod visitor;
mod witness;
mod worker;

use std::process::ExitCode;

use options::Options;

/// The program `chaos`, director or worker as its arguments say.
#[must_use]
pub fn main() -> ExitCode {
    match Options::parse(lexopt::Parser::from_env()) {
        Ok(Options::Worker(orders)) => worker::work(&orders),
        Ok(Options::Director(plan)) => director::direct(&plan),
        Ok(Options::Help) => options::explain(None),
        Err(mistake) => options::explain(Some(&mistake)),
    }
}
