//! Each case of the conformance suites stands in the list that its macro writes tests from.

#![allow(clippy::unwrap_used)] // a tree that cannot be read ends the test

use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// The sources of the suites, one after the other.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        text += &if path.is_dir() { sources(&path) } else { fs::read_to_string(&path).unwrap() };
    }
    text
}

#[test]
fn every_case_is_listed_and_every_listed_case_exists() {
    let text = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../lockrt/src/conformance"));
    let text = text + &fs::read_to_string("../lockrt/src/conformance.rs").unwrap();
    // A case takes what it runs on, perhaps on a line of its own; methods are further to the right.
    let cases = text.lines().filter_map(|line| line.strip_prefix("pub async fn ")?.split_once('('));
    let cases =
        cases.filter(|(_, rest)| rest.is_empty() || rest.contains("Service") || rest.contains("Power"));
    let cases: HashSet<&str> = cases.map(|(name, _)| name).collect();
    // A list has one name to a line.
    let name = |line: &str| line.contains('_') && line.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let listed: HashSet<&str> = text.lines().map(str::trim).filter(|line| name(line)).collect();
    assert!(cases.len() > 100, "the suites have moved");
    let unlisted: Vec<_> = cases.difference(&listed).collect();
    assert!(unlisted.is_empty(), "cases that nobody runs: {unlisted:?}");
    let missing: Vec<_> = listed.difference(&cases).collect();
    assert!(missing.is_empty(), "listed, and nowhere to be found: {missing:?}");
}
