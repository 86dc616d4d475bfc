//! Counts what each way to write under a lock is worth when its holder is stopped between read and write:
//! `tests/stale-writes`, or `cargo run -p lockrt-tests --bin stopped_writers`.
//!
//! Pairs of processes raise counters by reading them and writing them back. In each injection the first one stops
//! itself by `SIGSTOP` between its read and its write, and stands still until its lease is over and the second one
//! has read and written. Then it goes on, and its write is a stale one: it is refused, or it undoes the other's.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program to be watched, which ends when it fails"
)]

mod objects;
mod pair;
mod redis_key;
mod rows;
mod way;
mod writer;

use std::process::ExitCode;
use std::time::Instant;

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use lexopt::prelude::*;

use crate::pair::{Counts, Servers};
use crate::way::{WAYS, Way};

const HELP: &str = "\
stopped_writers [--stops N] [--pairs N] [--way WAY]
  --stops N  how many injections each way gets (500)
  --pairs N  how many pairs of processes work at once (12)
  --way WAY  how the counter is written, such as `row-fence`; all unless given, but `forgetful`, a fence that
             is wrong on purpose";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == "writer") {
        let arguments: Vec<String> = arguments.map(|argument| argument.into_string().unwrap()).collect();
        writer::write(&arguments);
        return ExitCode::SUCCESS;
    }
    match counted(lexopt::Parser::from_env()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}\n\n{HELP}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the table; whether it is as it must be.
fn counted(mut parser: lexopt::Parser) -> Result<bool, lexopt::Error> {
    let (mut stops, mut pairs) = (500, 12);
    let mut ways: Vec<Way> = WAYS.into_iter().filter(|way| *way != Way::Forgetful).collect();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("stops") => stops = parser.value()?.parse()?,
            Long("pairs") => pairs = parser.value()?.parse()?,
            Long("way") => ways = vec![parser.value()?.parse()?],
            Long("help") => {
                println!("{HELP}");
                return Ok(true);
            }
            _ => return Err(argument.unexpected()),
        }
    }
    let servers = Servers::start();
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["written by", "stops", "stale writes tried", "refused", "applied", "lost updates"]);
    let mut faults = Vec::new();
    for way in ways {
        let began = Instant::now();
        let counts = servers.inject(way, stops, pairs);
        println!("{}: {} stops in {} s", way.word(), counts.stops, began.elapsed().as_secs());
        let Counts { stops: stopped, refused, applied, lost, .. } = counts;
        let numbers = [stopped, refused + applied, refused, applied, lost].map(|number| number.to_string());
        table.add_row([way.label().to_owned()].into_iter().chain(numbers));
        faults.extend(fault(way, stops, &counts).map(|fault| format!("{}: {fault}", way.word())));
    }
    println!("{table}");
    for fault in &faults {
        println!("{fault}");
    }
    Ok(faults.is_empty())
}

/// What is not as it must be: a fence lets no stale write pass, and without one an update is lost each time.
fn fault(way: Way, stops: u64, counts: &Counts) -> Option<String> {
    if counts.stops < stops {
        let Counts { stops, uncounted, .. } = counts;
        return Some(format!("{stops} stops counted; in {uncounted} others nobody was late"));
    }
    if way.is_safe() && (counts.applied > 0 || counts.lost > 0) {
        return Some(String::from("a stale write was applied"));
    }
    (!way.is_safe() && counts.lost == 0)
        .then(|| String::from("no lost update was seen, so this shows nothing"))
}
