//! The short form of the table in docs/guarantees.md: what check and fence are worth when holders are
//! stopped between check and write.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::process::Command;

/// A row of the table: stops, increments done, counter, lost, refused.
fn row(store: &str) -> [u64; 5] {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stale_writes"));
    command.args(["--store", store, "--stops", "between", "--rounds", "15", "--workers", "3"]);
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let row = output.lines().find(|line| line.starts_with(&format!("| {store}"))).unwrap();
    let cells: Vec<u64> = row.split('|').filter_map(|cell| cell.trim().parse().ok()).collect();
    cells.try_into().unwrap_or_else(|cells| panic!("{cells:?} in {output}"))
}

#[test]
fn a_lock_without_a_fence_loses_increments() {
    let [stops, done, counter, lost, refused] = row("naive");
    assert!(stops > 0 && lost > 0, "{stops} stops, {lost} lost");
    assert_eq!((done, counter + lost, refused), (45, done, 0));
}

#[test]
fn a_check_before_the_write_loses_increments_too() {
    let [stops, done, counter, lost, _] = row("checked");
    assert!(stops > 0 && lost > 0, "{stops} stops, {lost} lost");
    assert_eq!(counter + lost, done);
}

#[test]
fn a_fence_loses_none_and_refuses_what_would_be_lost() {
    let [stops, done, counter, lost, refused] = row("fenced");
    assert_eq!((lost, counter), (0, done));
    assert!(stops > 0 && refused > 0, "{stops} stops, {refused} refused");
    assert_eq!(done + refused, 45);
}
