//! The suite for locks finds every flaw that is put into the runtime.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on fails, and says why")]

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Each flaw, as `lockrt/src/mutant.rs` calls it, and the case that is there to find it.
const FLAWS: [(&str, &str); 11] = [
    ("DeadlineFromReply", "a_deadline_is_counted_from_before_the_request_left"),
    ("UnknownIsContended", "a_service_that_answers_nobody_is_unavailable_and_never_contended"),
    ("UnknownIsGranted", "a_service_that_answers_nobody_is_unavailable_and_never_contended"),
    ("RunsOnContention", "the_body_does_not_run_while_somebody_else_holds_the_lock"),
    ("CleanUpStopsAtNotHeld", "an_acquire_that_arrives_after_its_release_leaves_nothing"),
    ("ReleaseBySpawnInDrop", "the_lock_is_free_after_its_runtime_was_shut_down"),
    ("KeeperOnUsersRuntime", "a_body_that_blocks_its_thread_keeps_a_renewed_lease"),
    ("FailedRenewalReleases", "a_lease_survives_two_renewal_errors_in_a_row"),
    ("RenewalErrorEndsRenewal", "a_lease_survives_two_renewal_errors_in_a_row"),
    ("RenewalOutlivesGuard", "nothing_is_renewed_after_a_drop"),
    ("LateExtendedRevives", "an_extension_that_comes_after_the_deadline_revives_nothing"),
];

/// A flaw may well make a case hang; those that have failed by then count.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn the_suite_fails_on_each_flaw_and_passes_without_one() {
    let suite = built();
    let (passed, failing) = run(&suite, None);
    assert!(passed && failing.is_empty(), "without a flaw: {failing:?}");
    let missed = Mutex::new(Vec::new());
    // Most of a run is waiting, so a few at a time.
    let left = Mutex::new(FLAWS.iter());
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some((flaw, finder)) = { left.lock().unwrap().next() } {
                    let (passed, failing) = run(&suite, Some(flaw));
                    eprintln!("{flaw}: {} cases fail", failing.len());
                    if passed || !failing.iter().any(|case| case == finder) {
                        missed.lock().unwrap().push(format!("{flaw}: {finder} passes; failing: {failing:?}"));
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// The suite's test program, in a build that has the flaws.
fn built() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--package", "lockrt-mutants", "--test", "suite", "--no-run"]);
    cargo.args(["--offline", "--message-format", "json"]);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    // Beside the other builds, which have other flags.
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mutants");
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    cargo.env("CARGO_TARGET_DIR", target).env("RUSTFLAGS", format!("{flags} --cfg lockrt_mutants"));
    cargo.env_remove("CARGO_ENCODED_RUSTFLAGS").env("CARGO_INCREMENTAL", "0");
    cargo.env("CARGO_PROFILE_TEST_DEBUG", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
    let output = cargo.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "the suite does not build: {}", output.status);
    let messages = String::from_utf8(output.stdout).unwrap();
    let program = messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        message["executable"].as_str().map(PathBuf::from)
    });
    program.unwrap()
}

/// Runs the suite with this flaw; whether it passed, and the cases that failed.
fn run(suite: &PathBuf, flaw: Option<&str>) -> (bool, Vec<String>) {
    let mut command = Command::new(suite);
    command.arg("--test-threads=8").env("RUST_BACKTRACE", "0");
    command.env_remove("LOCKRT_MUTANT").envs(flaw.map(|flaw| ("LOCKRT_MUTANT", flaw)));
    let mut process =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = process.stdout.take().unwrap();
    let reader = thread::spawn(move || {
        let mut told = Vec::new();
        stdout.read_to_end(&mut told).unwrap();
        String::from_utf8_lossy(&told).into_owned()
    });
    let started = Instant::now();
    let passed = loop {
        if let Some(status) = process.try_wait().unwrap() {
            break status.success();
        }
        if started.elapsed() > PATIENCE {
            process.kill().unwrap();
            process.wait().unwrap();
            break false;
        }
        thread::sleep(Duration::from_millis(20));
    };
    let told = reader.join().unwrap();
    let failing = told.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    (passed, failing.map(str::to_owned).collect())
}
