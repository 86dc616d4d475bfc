//! Measures what a lock alone, a check before the write, and a fence are worth when holders are stopped:
//! `cargo run -p lockrt-tests --bin stale_writes -- --seconds 60`.
//!
//! Worker processes raise one counter, each time under the lock, by reading it and writing it back. Some
//! are stopped by `SIGSTOP` for longer than their lease. What is missing from the counter at the end was
//! lost.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program to be watched, which ends when it fails"
)]

mod measure;
mod stops;
mod worker;

use std::fmt;
use std::process::ExitCode;
use std::str::FromStr;

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use lexopt::prelude::*;

use crate::measure::{Measured, Plan};

const HELP: &str = "\
stale_writes [--seconds N | --rounds N] [--workers N] [--stops between|random] [--store naive|checked|fenced]
  --seconds N   how long each row is measured (20)
  --rounds N    how many increments each process tries, in place of a time
  --workers N   how many processes raise the counter (6)
  --stops KIND  between check and write, or at random points; both unless given
  --store KIND  how the counter is written; all three unless given";

/// How the counter is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Store {
    /// The lock alone.
    Naive,
    /// The lease is checked right before the write.
    Checked,
    /// Registered before the read, and compared with the write.
    Fenced,
    /// Compared with the write, without a registration.
    Compared,
    /// Once per grant, without a registration.
    Once,
}

/// Where workers are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stops {
    /// Between the check and the write, each worker on every tenth round.
    Between,
    /// Anywhere, about every two seconds.
    Random,
}

const STORES: [(&str, Store); 5] = [
    ("naive", Store::Naive),
    ("checked", Store::Checked),
    ("fenced", Store::Fenced),
    ("compared", Store::Compared),
    ("once", Store::Once),
];
const STOPS: [(&str, Stops); 2] = [("between", Stops::Between), ("random", Stops::Random)];

fn named<T: Copy>(kinds: &[(&str, T)], name: &str) -> Result<T, String> {
    let found = kinds.iter().find(|(known, _)| *known == name);
    found.map(|(_, kind)| *kind).ok_or_else(|| {
        let known: Vec<&str> = kinds.iter().map(|(known, _)| *known).collect();
        format!("write one of {}", known.join(", "))
    })
}

impl FromStr for Store {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        named(&STORES, name)
    }
}

impl FromStr for Stops {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        named(&STOPS, name)
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = STORES.iter().find(|(_, store)| store == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

impl fmt::Display for Stops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Between => "between check and write",
            Self::Random => "at random points",
        })
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let ended = match arguments.next() {
        Some(first) if first == "worker" => worker::work(lexopt::Parser::from_args(arguments)),
        _ => measure_all(lexopt::Parser::from_env()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}\n\n{HELP}");
            ExitCode::FAILURE
        }
    }
}

fn measure_all(mut parser: lexopt::Parser) -> Result<(), lexopt::Error> {
    let (mut seconds, mut rounds, mut workers) = (20, u32::MAX, 6);
    let mut stores = vec![Store::Naive, Store::Checked, Store::Fenced];
    let mut stops = vec![Stops::Between, Stops::Random];
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seconds") => seconds = parser.value()?.parse()?,
            Long("rounds") => (rounds, seconds) = (parser.value()?.parse()?, u64::MAX),
            Long("workers") => workers = parser.value()?.parse()?,
            Long("stops") => stops = vec![parser.value()?.parse()?],
            Long("store") => stores = vec![parser.value()?.parse()?],
            Long("help") => {
                println!("{HELP}");
                return Ok(());
            }
            _ => return Err(argument.unexpected()),
        }
    }
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header([
        "counter written",
        "stopped",
        "stops",
        "increments done",
        "counter",
        "lost",
        "refused",
    ]);
    for stops in stops {
        for &store in &stores {
            let plan = Plan { store, stops, workers, seconds, rounds };
            let Measured { stops: stopped, done, counter, refused } = measure::measure(plan);
            let numbers = [stopped, done, counter, done - counter, refused].map(|number| number.to_string());
            table.add_row([store.to_string(), stops.to_string()].into_iter().chain(numbers));
        }
    }
    println!("{table}");
    Ok(())
}
