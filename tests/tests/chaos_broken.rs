//! The chaos run against workers that are broken on purpose: each is found out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

/// How often chance may favour a broken worker.
const TRIES: u64 = 4;

/// Runs the workers broken like `how` under `class`, until a run fails with all of `complaints`.
fn is_found_out(how: &str, class: &str, complaints: &[&str]) {
    let mut told = String::new();
    for seed in 1..=TRIES {
        let mut chaos = Command::new(env!("CARGO_BIN_EXE_chaos"));
        chaos.args(["--break", how, "--class", class, "--seed", &seed.to_string()]);
        let output = chaos.output().unwrap();
        told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_ne!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
        if !output.status.success() && complaints.iter().all(|complaint| told.contains(complaint)) {
            return;
        }
    }
    panic!("{how} went unnoticed {TRIES} times:\n{told}");
}

#[test]
fn a_release_of_whoever_holds_the_key_lets_two_in() {
    is_found_out("release-by-del", "worker-stopped", &["grants while an earlier holder was still at work"]);
}

#[test]
fn a_lease_counted_from_too_late_outlives_its_key() {
    is_found_out("late-deadline", "none", &["grants while an earlier holder was still at work"]);
}

#[test]
fn tokens_that_each_worker_counts_by_itself_repeat_and_fall() {
    is_found_out(
        "own-tokens",
        "none",
        &["fencing tokens given twice", "fencing tokens below an earlier one"],
    );
}

#[test]
fn a_store_that_does_not_compare_tokens_loses_updates() {
    is_found_out("blind-store", "worker-stopped", &["updates lost in spite of the fence"]);
}

#[test]
fn keys_that_nobody_holds_and_that_stay_are_leaks() {
    is_found_out("endless-keys", "none", &["locks or managers left behind"]);
}
