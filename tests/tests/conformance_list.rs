//! The list of the conformance suite names every case that there is.

#![allow(clippy::unwrap_used, reason = "a tree that cannot be read ends the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use lockrt::conformance::{Case, Fault, cases, cases_under};
use lockrt_tests::RedisPower;

/// The public functions of the suite's files that take a service.
fn written() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lockrt/src/conformance");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let sources = files.filter(|path| path.is_file()).map(|path| fs::read_to_string(path).unwrap());
    sources.flat_map(|source| names_in(&source)).collect()
}

fn names_in(source: &str) -> Vec<String> {
    let functions = source.split("\npub async fn ").skip(1);
    let cases = functions.filter_map(|rest| {
        let (name, parameters) = rest.split_once('(')?;
        parameters.split(')').next()?.contains("service: &impl ").then(|| name.to_owned())
    });
    cases.collect()
}

#[test]
fn every_case_that_is_written_is_listed_and_run_by_the_tests() {
    let power = Fault::ALL.into_iter().flat_map(cases_under);
    let all: Vec<Case<RedisPower>> = cases().into_iter().chain(power).collect();
    let mut listed: BTreeSet<String> = all.iter().map(|case| case.name().to_owned()).collect();
    assert_eq!(listed.len(), all.len(), "a case is listed twice");
    // Ignored unless it is asked for.
    listed.insert("a_million_keys_leave_nothing_behind".to_owned());
    let written = written();
    assert!(written.len() > 50, "the sources have moved");
    assert_eq!(listed, written);
}

#[test]
fn a_case_says_which_fault_it_inflicts() {
    for fault in Fault::ALL {
        let cases = cases_under::<RedisPower>(fault);
        assert!(!cases.is_empty() && cases.iter().all(|case| case.fault() == Some(fault)), "{fault:?}");
    }
    assert!(cases::<RedisPower>().iter().all(|case| case.fault().is_none()));
}
