//! What the compiler prints for each mistake. A file is named after its mistake; `TRYBUILD=overwrite` writes the answers.

#[test]
fn every_mistake_has_its_sentence_at_its_place() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
