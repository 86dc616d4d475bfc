//! Every fault that the page on guarantees lists is shown by a test that exists.

#![allow(clippy::unwrap_used, reason = "a page that cannot be read ends the test")]

use std::fs;
use std::path::{Path, PathBuf};

/// A link to a test: the file, as seen from the page, and the name of its function.
type Link<'a> = (&'a str, &'a str);

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// The rows of the tables below the heading on what goes wrong.
fn rows(page: &str) -> Vec<&str> {
    let (_, section) = page.split_once("\n## What goes wrong").unwrap();
    let section = section.split("\n## ").next().unwrap();
    section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| fault |")).collect()
}

fn links(text: &str) -> Vec<Link<'_>> {
    let targets = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    targets.filter_map(|target| target.split_once(".rs#")).collect()
}

/// Why `link` shows nothing, if so.
fn fault((file, name): Link<'_>) -> Option<String> {
    let Ok(source) = fs::read_to_string(docs().join(format!("{file}.rs"))) else {
        return Some(format!("there is no {file}.rs"));
    };
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let head = format!("fn {name}");
    let begins = |line: &&str| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        let line = line.strip_prefix("async ").unwrap_or(line);
        line.strip_prefix(&head).is_some_and(|rest| rest.starts_with(['(', '<']))
    };
    let Some(place) = lines.iter().position(begins) else {
        return Some(format!("{file}.rs has no function {name}"));
    };
    let attributes = lines[..place].iter().rev().take_while(|line| line.starts_with('#'));
    let marked =
        attributes.into_iter().any(|line| line.starts_with("#[test") || line.starts_with("#[tokio::test"));
    // Cases that run on each backend stand in a list.
    let listed = lines.contains(&format!("{name},").as_str()) || is_of_the_suite(file, name);
    (!marked && !listed).then(|| format!("{name} of {file}.rs is no test"))
}

/// Cases of the suite for a lock are listed by its macro.
fn is_of_the_suite(file: &str, name: &str) -> bool {
    let suite = docs().join("../lockrt/src/conformance/lock.rs");
    let list = fs::read_to_string(suite).unwrap();
    let names: Vec<&str> = list.split_whitespace().map(|word| word.trim_end_matches(',')).collect();
    file.starts_with("../lockrt/src/conformance/lock/") && names.contains(&name)
}

#[test]
fn every_fault_is_shown_by_a_test_that_exists() {
    let page = fs::read_to_string(docs().join("guarantees.md")).unwrap();
    let rows = rows(&page);
    assert!(rows.len() >= 25, "the tables have moved: {} rows", rows.len());
    let without = rows.iter().filter(|row| links(row).is_empty()).map(|row| format!("no test: {row}"));
    let faults: Vec<String> = without.chain(links(&page).into_iter().filter_map(fault)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_link_that_shows_nothing_is_seen() {
    let here = "../tests/tests/fault_table";
    assert_eq!(fault((here, "every_fault_is_shown_by_a_test_that_exists")), None);
    assert!(fault((here, "every_fault_is_shown_by_a_test")).is_some(), "the beginning of a name");
    assert!(fault((here, "rows")).is_some(), "no test");
    assert!(fault(("../tests/tests/none", "rows")).is_some(), "no file");
    assert_eq!(
        fault(("../tests/tests/cancel_runtime", "a_runtime_that_ends_with_waiters_leaves_nothing")),
        None,
        "one of a list"
    );
    assert_eq!(links("| a | [test](x/y.rs#z) [b](c.md) |"), [("x/y", "z")]);
    assert_eq!(
        rows("\n## What goes wrong\n\n| fault | x |\n|---|---|\n| a | b |\n\n## Next\n\n| c |\n"),
        ["| a | b |"]
    );
}
