//! The script of the benchmark, as far as it goes without building that: see docs/decisions/0015.

#![allow(clippy::unwrap_used)] // a script that cannot be run ends the test

use std::path::Path;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/run");
    Command::new(script).args(arguments).output().unwrap()
}

/// The names in `fn name` of the workloads.
fn workloads() -> Vec<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/src/measure.rs");
    let source = std::fs::read_to_string(source).unwrap();
    let names = source.split("fn name(self)").nth(1).unwrap().split("fn ").next().unwrap();
    names.split('"').skip(1).step_by(2).map(String::from).collect()
}

#[test]
fn help_names_every_workload() {
    let help = run(&["--help"]);
    assert!(help.status.success());
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(workloads().len() > 5);
    for workload in workloads() {
        assert!(help.contains(&workload), "{workload} is missing in {help}");
    }
}

#[test]
fn every_workload_can_be_chosen() {
    for workload in workloads() {
        assert!(run(&["--only", &workload, "--help"]).status.success(), "{workload}");
    }
}

#[test]
fn a_mistake_in_the_arguments_is_told_before_anything_is_built() {
    for mistake in [["--only"].as_slice(), &["--only", "everything"], &["--fast"], &["floor"]] {
        let refused = run(mistake);
        assert_eq!(refused.status.code(), Some(2), "{mistake:?}");
        assert!(String::from_utf8(refused.stderr).unwrap().contains("usage:"), "{mistake:?}");
    }
}
