//! What the compiler prints for each mistake. A file is named after its mistake; `TRYBUILD=overwrite` writes the answers.

use std::process::Command;

/// The compiler whose words the answers have. What others say is looked at in `tests/cases`: our sentences, and how
/// many errors there are.
const PINNED: &str = "rustc 1.95.";

#[test]
#[allow(clippy::print_stderr, clippy::expect_used, reason = "a run that compares nothing says so, or fails")]
fn every_mistake_has_its_sentence_at_its_place() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version =
        Command::new(rustc).arg("--version").output().expect("the compiler tells its version").stdout;
    if version.starts_with(PINNED.as_bytes()) {
        trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
    } else {
        eprintln!(
            "Not compared: whole answers are recorded for {PINNED}; tests/cases compares sentences and numbers."
        );
    }
}
