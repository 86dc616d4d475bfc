//! Expansions as files: a change of the expansion is a change somebody reads.

use super::expand;

fn assert_golden(name: &str, args: &str, item: &str) {
    let file = syn::parse_str(&expand(args, item)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_snapshot_path("snapshots");
    settings.set_omit_expression(true);
    settings.set_description(format!("#[distributed_lock({args})]\n{item}"));
    settings.bind(|| insta::assert_snapshot!(name, prettyplease::unparse(&file)));
}

#[test]
fn the_smallest_attribute_fails_on_every_refusal() {
    assert_golden(
        "smallest",
        r#"key = "quote:{tenant}:{id}", ttl_ms = 10_000"#,
        "async fn f(tenant: &str, id: u64) -> Result<u8, Error> { work(tenant, id).await? }",
    );
}

#[test]
fn every_argument_has_its_place() {
    assert_golden(
        "every_argument",
        r#"key = "q:{self.name}/{id:display}", ttl_ms = TTL, on_contention = wait(timeout_ms = 500), renew = auto(max_ms = limits::CAP),
           on_lost = report, lease = held, manager = &self.locks, name = "quotes", crate = crate::facade"#,
        "pub(crate) async fn f<T: Display>(&mut self, id: T) -> Result<u8, Error> { held.check()?; Ok(1) }",
    );
}

#[test]
fn skip_answers_contention_alone() {
    assert_golden(
        "skip",
        r#"key = "gc", ttl_ms = 10, on_contention = skip"#,
        "async fn gc() { sweep().await }",
    );
}

#[test]
fn a_skip_value_may_move_the_arguments() {
    assert_golden(
        "skip_value",
        r#"key = "q:{a}", ttl_ms = 10, on_contention = skip(Ok(later(a).await))"#,
        "async fn f(a: String) -> Result<String, Error> { Ok(a) }",
    );
}

#[test]
fn patterns_and_ignored_arguments_are_captured_in_reverse() {
    assert_golden(
        "patterns",
        r#"key = "q:{b.c}:{_d}", ttl_ms = 10, on_contention = wait(forever)"#,
        r#"#[doc = "x"] async fn f(State(S { ref a, b, .. }): State<S>, _: Body, #[cfg(feature = "x")] (_d, _): (u8, u8), mut e: u8)
           -> Result<impl IntoResponse, Error> { #![allow(unused)] e += 1; Ok(e) }"#,
    );
}

#[test]
fn a_mistake_leaves_the_function_in_place() {
    assert_golden(
        "mistake",
        r#"key = "q:{b}", ttl = 10, lease = held"#,
        "async fn f(a: String) -> Result<String, Error> { held.check()?; Ok(a) }",
    );
}
