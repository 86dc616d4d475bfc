//! Every promise and every fault that the page on guarantees lists is shown by a test that exists.

#![allow(clippy::unwrap_used, reason = "a page that cannot be read ends the test")]

use std::fs;
use std::path::{Path, PathBuf};

/// A link to a test: the file, as seen from the page, and the name of its function.
type Link<'a> = (&'a str, &'a str);

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// What stands below the headings that begin so, until the next one of their rank.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, section) = page.split_once(&format!("\n## {heading}")).unwrap();
    section.split("\n## ").next().unwrap()
}

/// The rows of the tables below a heading, but for those that name the columns.
fn rows<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
    let lines: Vec<&str> = section(page, heading).lines().collect();
    let names = |place: usize| lines.get(place + 1).is_some_and(|next| next.starts_with("|---"));
    let rows = lines.iter().enumerate().filter(|(place, line)| line.starts_with("| ") && !names(*place));
    rows.map(|(_, line)| *line).collect()
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

/// Cases of the two suites are listed by their macros.
fn is_of_the_suite(file: &str, name: &str) -> bool {
    let conformance = "../lockrt/src/conformance/";
    let Some(case) = file.strip_prefix(conformance) else { return false };
    let list = if case.starts_with("lock/") { "lock.rs" } else { "suite.rs" };
    let list = fs::read_to_string(docs().join(conformance).join(list)).unwrap();
    list.split_whitespace().any(|word| word.trim_end_matches(',') == name)
}

#[test]
fn every_fault_is_shown_by_a_test_that_exists() {
    let page = fs::read_to_string(docs().join("guarantees.md")).unwrap();
    let rows = rows(&page, "What goes wrong");
    assert!(rows.len() >= 35, "the tables have moved: {} rows", rows.len());
    let without = rows.iter().filter(|row| links(row).is_empty()).map(|row| format!("no test: {row}"));
    let faults: Vec<String> = without.chain(links(&page).into_iter().filter_map(fault)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_test_that_the_page_of_a_backend_names_exists() {
    let pages: Vec<PathBuf> =
        fs::read_dir(docs().join("backends")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!pages.is_empty());
    for page in pages {
        let page = fs::read_to_string(page).unwrap();
        let faults = rows(&page, "What can go wrong");
        let without: Vec<&&str> = faults.iter().filter(|row| !row.contains(".rs#")).collect();
        assert!(faults.len() >= 10 && without.is_empty(), "no test: {without:?}");
        // They stand one folder deeper.
        let links: Vec<Link<'_>> = links(&page)
            .into_iter()
            .filter_map(|(file, name)| Some((file.strip_prefix("../")?, name)))
            .collect();
        assert!(!links.is_empty());
        let faults: Vec<String> = links.into_iter().filter_map(fault).collect();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}

#[test]
fn every_promise_every_step_of_a_lease_and_every_limit_is_shown_by_a_test() {
    let page = fs::read_to_string(docs().join("guarantees.md")).unwrap();
    let (promises, steps) = (rows(&page, "What holds"), rows(&page, "The life of a lease"));
    let limits = section(&page, "What is not promised").lines().filter(|line| line.starts_with("- "));
    let limits: Vec<&str> = limits.collect();
    assert!(
        promises.len() >= 12 && steps.len() >= 14 && limits.len() >= 7,
        "the tables have moved: {} {} {}",
        promises.len(),
        steps.len(),
        limits.len()
    );
    let lines = promises.into_iter().chain(steps).chain(limits);
    let without: Vec<&str> = lines.filter(|line| links(line).is_empty()).collect();
    assert!(without.is_empty(), "no test: {}", without.join("\n"));
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
    let case = "a_stranger_can_neither_release_nor_renew";
    assert_eq!(fault(("../lockrt/src/conformance/owning", case)), None, "one of the suite");
    assert!(fault(("../lockrt/src/conformance/asking", "released")).is_some(), "no case of the suite");
    assert_eq!(links("| a | [test](x/y.rs#z) [b](c.md) |"), [("x/y", "z")]);
    assert_eq!(
        rows("\n## What goes wrong\n\n| fault | x |\n|---|---|\n| a | b |\n\n## Next\n\n| c |\n", "What"),
        ["| a | b |"]
    );
}
