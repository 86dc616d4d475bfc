//! The chaos run against workers that are broken on purpose: each is found out, on Redis and on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

/// How often chance may favour a broken worker.
const TRIES: u64 = 8;

const TWO_HOLDERS: &str = "grants while an earlier holder was still at work";

const LEAKS: &str = "locks or managers left behind";

/// Runs the workers broken like `how` for `seconds` under `class` on each service, until a run fails with all of `complaints`.
fn is_found_out(how: &str, class: &str, seconds: &str, complaints: &[&str]) {
    for scene in [class.to_owned(), format!("postgres-{class}")] {
        is_found_out_in(&scene, how, seconds, complaints);
    }
}

fn is_found_out_in(scene: &str, how: &str, seconds: &str, complaints: &[&str]) {
    let mut told = String::new();
    for seed in 1..=TRIES {
        let mut chaos = Command::new(env!("CARGO_BIN_EXE_chaos"));
        chaos.args(["--break", how, "--class", scene, "--seconds", seconds, "--seed", &seed.to_string()]);
        let output = chaos.output().unwrap();
        told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_ne!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
        if !output.status.success() && complaints.iter().all(|complaint| told.contains(complaint)) {
            return;
        }
    }
    panic!("{how} went unnoticed {TRIES} times in {scene}:\n{told}");
}

#[test]
fn a_refusal_that_is_taken_for_a_grant_lets_two_in() {
    is_found_out("no-lock", "none", "1", &[TWO_HOLDERS]);
}

#[test]
fn a_lease_that_goes_on_without_its_renewals_outlives_its_lock() {
    is_found_out("no-renewal", "none", "2", &[TWO_HOLDERS]);
}

#[test]
fn a_release_that_is_repeated_whoever_holds_the_lock_lets_two_in() {
    is_found_out("release-of-others", "none", "1", &[TWO_HOLDERS]);
}

#[test]
fn a_lease_counted_from_too_late_outlives_its_lock() {
    is_found_out("late-deadline", "none", "1", &[TWO_HOLDERS]);
}

#[test]
fn tokens_that_each_worker_counts_by_itself_repeat_and_fall() {
    let complaints = ["fencing tokens given twice", "fencing tokens below an earlier one"];
    is_found_out("own-tokens", "none", "1", &complaints);
}

#[test]
fn a_store_that_does_not_compare_tokens_loses_updates() {
    is_found_out("blind-store", "flushed", "3", &["updates lost in spite of the fence"]);
}

#[test]
fn one_lock_of_ten_that_lasts_to_its_ttl_in_place_of_a_release_is_a_leak() {
    is_found_out("lost-release", "none", "1", &[LEAKS]);
}

#[test]
fn locks_that_nobody_holds_and_that_stay_are_leaks() {
    is_found_out("endless-locks", "none", "1", &[LEAKS]);
}
