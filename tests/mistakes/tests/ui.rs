//! What the compiler prints for each mistake. A file is named after its mistake; `TRYBUILD=overwrite` writes the answers.

use lockrt_mistakes::{RECORDED, answers_are_recorded};

#[test]
#[allow(clippy::print_stderr, reason = "a run that compares nothing says so")]
fn every_mistake_has_its_sentence_at_its_place() {
    if answers_are_recorded() {
        trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
    } else {
        eprintln!(
            "Not compared: whole answers are recorded for {RECORDED}; tests/cases compares sentences and numbers."
        );
    }
}
