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

#[test]
fn on_error_answers_what_nothing_else_answers() {
    assert_golden(
        "on_error",
        r#"key = "room:{id:hash}", ttl_ms = 10, on_error = |error| { log(&error); false }"#,
        "async fn exists(&self, id: &str) -> bool { self.rooms.contains(id) }",
    );
}

#[test]
fn skip_may_see_the_holder() {
    assert_golden(
        "skip_busy",
        r#"key = "job:{id}", ttl_ms = 10, on_contention = skip(|busy| Ok(Outcome::Later(busy.retry_after())))"#,
        "async fn job(id: u64) -> Result<Outcome, Error> { Ok(Outcome::Done) }",
    );
}

#[test]
fn a_started_release_is_no_point_of_waiting() {
    assert_golden(
        "release_started",
        r#"key = "job", ttl_ms = 10, release = started, on_cancel = hold, min_hold_ms = 5, fencing = required"#,
        "async fn job() -> Result<Rc<u8>, Box<dyn Error>> { Ok(Rc::new(1)) }",
    );
}

#[test]
fn a_hidden_type_is_wrapped() {
    assert_golden(
        "impl_trait",
        r#"key = "page:{id}", ttl_ms = 10"#,
        "pub async fn page(Path(id): Path<u64>) -> impl IntoResponse { id.to_string() }",
    );
}

#[test]
fn a_function_that_never_returns_has_an_uninhabited_value() {
    assert_golden(
        "never",
        r#"key = "bridge", ttl_ms = 10, on_contention = wait(forever), on_error = |error| panic!("{error}")"#,
        "async fn bridge() -> ! { loop { poll().await } }",
    );
}

#[test]
fn what_async_trait_leaves_is_locked_inside_its_block() {
    assert_golden(
        "async_trait",
        r#"key = "task:{self.number}:{from}", ttl_ms = 10, manager = &self.locks, on_contention = skip(self.busy())"#,
        r"fn run<'life0, 'async_trait>(&'life0 self, client: &'life0 dyn Queue, __arg1: (u8, u8))
               -> ::core::pin::Pin<Box<dyn ::core::future::Future<Output = Result<(), Error>> + ::core::marker::Send + 'async_trait>>
           where 'life0: 'async_trait, Self: 'async_trait {
               Box::pin(async move {
                   if let ::core::option::Option::Some(__ret) = ::core::option::Option::None::<Result<(), Error>> {
                       #[allow(unreachable_code)]
                       return __ret;
                   }
                   let __self = self;
                   let (from, to) = { let __arg1 = __arg1; __arg1 };
                   let __ret: Result<(), Error> = { client.push(__self, from, to).await };
                   #[allow(unreachable_code)]
                   __ret
               })
           }",
    );
}

#[test]
fn no_expansion_holds_what_the_user_wrote_twice() {
    let args = r#"key = "q:{key_once}", ttl_ms = 10, manager = manager_once(), on_contention = skip(|busy| skip_once()), on_error = |error| error_once()"#;
    for item in [
        "async fn f(key_once: u8) -> u8 { body_once() }",
        "async fn f(key_once: u8) -> impl Display { body_once() }",
        "fn f(key_once: u8) -> Pin<Box<dyn Future<Output = u8>>> { Box::pin(async move { body_once() }) }",
    ] {
        let expansion = expand(args, item);
        for once in ["body_once", "manager_once", "skip_once", "error_once"] {
            assert_eq!(expansion.matches(once).count(), 1, "{once}: {expansion}");
        }
    }
}
