//! The short form of the table in docs/fencing.md: what each way to write is worth when its holder is stopped
//! between read and write while somebody else writes.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::process::Command;

/// Whether the program is content, and what it prints.
fn run(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_stopped_writers")).args(arguments).output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

/// The rows of the table: how the counter is written, stops, stale writes tried, refused, applied, lost updates.
fn rows(table: &str) -> Vec<(String, [u64; 5])> {
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells = rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let parsed = cells.map(|cells| {
        let numbers: Vec<u64> = cells[1..].iter().map(|cell| cell.parse().unwrap()).collect();
        (cells[0].to_owned(), numbers.try_into().unwrap())
    });
    parsed.collect()
}

#[test]
fn no_fence_lets_a_stale_write_pass_and_without_one_each_loses_an_update() {
    let (content, table) = run(&["--stops", "10", "--pairs", "5"]);
    assert!(content, "{table}");
    let rows = rows(&table);
    assert_eq!(rows.len(), 14, "{table}");
    for (way, numbers) in rows {
        let unsafe_one = way.contains("lock alone") || way.contains("check()");
        let expected = if unsafe_one { [10, 10, 0, 10, 10] } else { [10, 10, 10, 0, 0] };
        assert_eq!(numbers, expected, "{way}\n{table}");
    }
}

#[test]
fn a_fence_that_lets_stale_writes_pass_is_found() {
    let (content, table) = run(&["--stops", "2", "--pairs", "1", "--way", "forgetful"]);
    assert!(!content, "{table}");
    assert!(table.contains("forgetful: a stale write was applied"), "{table}");
}
