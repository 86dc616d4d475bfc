//! What each mistake is answered with.

use super::mistakes;

const ITEM: &str = "async fn f(id: u64) -> Result<u8, Error> { Ok(1) }";

fn assert_argument(args: &str, part_of_sentence: &str) {
    assert_only(&mistakes(&format!(r#"key = "q:{{id}}", {args}"#), ITEM), part_of_sentence);
}

fn assert_item(item: &str, part_of_sentence: &str) {
    assert_only(&mistakes(r#"key = "q", ttl_ms = 10"#, item), part_of_sentence);
}

fn assert_only(sentences: &[String], part: &str) {
    assert_eq!(sentences.len(), 1, "{sentences:?}");
    assert!(sentences[0].contains(part), "{sentences:?}");
}

#[test]
fn a_time_is_a_positive_number_or_a_constant() {
    for short in ["0", "1", "9"] {
        assert_argument(&format!("ttl_ms = {short}"), "must be at least 10");
    }
    assert_argument("ttl_ms = 2_678_400_001", "must be at most 2678400000, which is 31 days");
    assert_argument("ttl_ms = 10_000_000_000_000", "is this in milliseconds?");
    for right in ["10", "2_678_400_000", "TTL"] {
        assert_eq!(mistakes(&format!("key = \"q\", ttl_ms = {right}"), ITEM), Vec::<String>::new());
    }
    for wrong in [r#""10s""#, "10s", "-1", "1.5", "5 * 60", "99999999999999999999"] {
        assert_argument(&format!("ttl_ms = {wrong}"), "whole number of milliseconds");
    }
    assert_argument("ttl_ms = id", "is a constant, not an argument");
    assert_argument("ttl_ms = 10, on_contention = wait(timeout_ms = id)", "is a constant, not an argument");
    assert_argument("ttl_ms = 10, renew = auto(max_ms = 100)", "too short to be renewed");
    assert_argument("ttl_ms = 100, renew = auto(max_ms = 99)", "less than `ttl_ms`");
    assert_argument("ttl_ms = 100, renew = auto", "write the longest time");
    assert_argument("ttl_ms = 100, renew = auto(900)", "write the longest time");
    assert_argument("ttl_ms = 100, renew = true", "`renew` is `off` or");
    assert_argument("ttl_ms = 100, on_contention = wait(timeout_ms = 0)", "`on_contention = fail`");
    assert_argument("ttl_ms = 100, on_contention = wait", "how long");
    assert_argument("ttl_ms = 100, on_contention = wait(500)", "how long");
}

#[test]
fn a_wrong_value_is_answered_with_a_right_one() {
    assert_argument("ttl_ms = 10, on_contention = \"skip\"", "without quotes");
    assert_argument("ttl_ms = 10, on_contention = skip(|busy, more| 1)", "write `skip(|busy| value)`");
    assert_argument("ttl_ms = 10, on_contention = skip(async |busy| 1)", "remove `async`");
    assert_argument("ttl_ms = 10, on_error = 1", "write `on_error = |error| value`");
    assert_argument("ttl_ms = 10, on_error = || 1", "write `on_error = |error| value`");
    assert_argument("ttl_ms = 10, on_error = |error| Err(id)", "cannot use `id`");
    assert_argument("ttl_ms = 10, on_error = |error| self.answer(error)", "cannot use `self`");
    assert_argument("ttl_ms = 10, on_cancel = keep", "`on_cancel = hold`");
    assert_argument("ttl_ms = 10, release = later", "`release = started`");
    assert_argument("ttl_ms = 10, fencing = true", "`fencing = required`");
    assert_argument("ttl_ms = 10, min_hold_ms = 10", "outlive its lease");
    assert_argument("ttl_ms = 10, min_hold_ms = 0", "must be at least 1");
    assert_argument("ttl_ms = 10, min_hold_ms = \"5\"", "whole number");
    assert_argument("ttl_ms = 10, on_contention = skip()", "write `skip`");
    assert_argument("ttl_ms = 10, on_contention = skip(1, 2)", "takes one value");
    assert_argument("ttl_ms = 10, on_lost = stop", "`on_lost = cancel`");
    assert_argument("ttl_ms = 10, lease = \"held\"", "write `lease = held`");
    assert_argument("ttl_ms = 10, lease = id", "would hide the argument `id`");
    assert_argument("ttl_ms = 10, name = \"\"", "`name` is empty");
    assert_argument("ttl_ms = 10, crate = \"x\"", "write `crate = ::lockrt`");
    assert_argument("ttl_ms = 10, manager = ", "no value for `manager`");
}

#[test]
fn an_unknown_argument_says_which_exist() {
    assert_argument("ttl = 10", "did you mean `ttl_ms`?");
    assert_argument("ttl_ms = 10, colour = 3", "the arguments are `key`");
    assert_argument("ttl_ms = 10, ttl_ms = 20", "stands here twice");
    assert_argument("ttl_ms(10)", "`ttl_ms` needs a value");
    assert_argument("ttl_ms = 10, 7", "is written `name = value`");
    assert_argument("ttl_ms = 10 lease = held", "separated by commas");
    assert_only(&mistakes("", ITEM), "`key` and `ttl_ms` must be given");
}

#[test]
fn all_mistakes_of_one_attribute_are_reported_at_once() {
    let sentences =
        mistakes(r#"key = "q {idd}{id}", ttl_ms = 0, on_contention = wait, lease = 1, bogus = 1"#, ITEM);
    let expected = [
        "cannot stand",
        "nothing separates",
        "at least 10",
        "how long",
        "lease = held",
        "no argument `bogus`",
    ];
    assert_eq!(sentences.len(), expected.len(), "{sentences:#?}");
    for (sentence, part) in sentences.iter().zip(expected) {
        assert!(sentence.contains(part), "{sentence}");
    }
}

#[test]
fn what_is_no_async_function_gets_one_sentence() {
    for item in ["struct S { f: fn(u8) -> u8 }", "impl S { async fn f() {} }", "", "mod m { fn f() {} }"] {
        assert_item(item, "goes on an `async fn`");
    }
    assert_item("fn f() {}", "is not `async`");
    assert_item("const fn f() {}", "runs at compile time");
    assert_item("async extern \"C\" fn f() {}", "foreign caller");
    assert_item("async fn f();", "`f` has no body here");
    assert_item("fn f() -> impl Future<Output = u8> { async { 1 } }", "only makes a future");
    assert_item("fn f() -> BoxFuture<'static, u8> { async { 1 }.boxed() }", "only makes a future");
    for made_by_hand in [
        "async move { 1 }.boxed()",
        "if early { work() } Box::pin(async move { 1 })",
        "return Box::pin(async move { 1 })",
        "let x = 1; Box::pin(async move { x })",
        "Box::pin(work())",
    ] {
        let item = format!("fn f() -> Pin<Box<dyn Future<Output = u8> + Send>> {{ {made_by_hand} }}");
        assert_item(&item, "only makes a future");
    }
    assert_item("async fn f() -> impl Display { 1 }", "write `on_error = |error| value`");
    assert_item("async fn f() -> ! { loop {} }", "never returns");
}

#[test]
fn two_locks_on_one_key_are_seen_in_whatever_words() {
    let below = |key: &str, name: &str| {
        let item = format!("#[{name}(ttl_ms = 50, key = {key})] async fn f(a: u8, r#type: u8, b: S) {{}}");
        mistakes(r#"key = "q:{a}:{type}/{b.c(1)}", ttl_ms = 10, on_contention = skip"#, &item)
    };
    for same in [
        r#""q:{a}:{type}/{b.c(1)}""#,
        r#""q:{ a }:{ r#type }/{b . c( 1 )}""#,
        r#""q:{a /* same */}:{type}/{ b.c(1)}""#,
        r#"concat!("q:", "{a}:{", stringify!(type), "}/{b.c(1)}")"#,
    ] {
        for name in ["distributed_lock", "lockrt::distributed_lock"] {
            assert_only(&below(same, name), "already takes a lock with the same key");
        }
    }
    for other in [
        r#""q:{a}:{type}/{b.c(2)}""#,
        r#""q:{type}:{a}/{b.c(1)}""#,
        r#""q:{a:hash}:{type}/{b.c(1)}""#,
        r#""q:{a}/{type}/{b.c(1)}""#,
        r#""q:{a}:{type}""#,
    ] {
        assert_eq!(below(other, "distributed_lock"), Vec::<String>::new(), "{other}");
    }
}

#[test]
fn what_the_compiler_refuses_by_itself_is_only_linted() {
    for item in ["let f = async || 1;", "async move |a| a", "|| 1", "{ 1 }"] {
        assert_eq!(mistakes(r#"key = "q", ttl_ms = 10"#, item), Vec::<String>::new(), "{item}");
        let expansion = super::expand(r#"key = "q", ttl_ms = 10"#, item);
        assert!(expansion.contains("deny (unused_must_use)"), "{expansion}");
        assert!(expansion.contains("goes on an `async fn`"), "{expansion}");
        assert!(!expansion.contains("compile_error"), "{expansion}");
    }
    let both = super::expand(r#"key = "q", ttl_ms = 10"#, "pub const async fn f() {}");
    assert!(both.starts_with("pub async fn f"), "{both}");
    assert_eq!(both.matches("compile_error").count(), 1, "{both}");
}

#[test]
fn an_attribute_beyond_reason_is_refused_before_it_is_parsed() {
    let attribute =
        |value: String| format!(r#"key = "q:{{id}}", ttl_ms = 10, on_contention = skip({value})"#);
    for value in
        ["!".repeat(60_000) + "1", "(".repeat(60_000) + &")".repeat(60_000), "[".repeat(40) + &"]".repeat(40)]
    {
        assert_only(&mistakes(&attribute(value), ITEM), "this attribute is too long");
    }
    let key = |value: String| format!(r#"key = "q:{{{value}}}", ttl_ms = 10"#);
    assert_only(&mistakes(&key("!".repeat(900) + "id"), ITEM), "is too long");
    assert_only(&mistakes(&key("(".repeat(400) + "id" + &")".repeat(400)), ITEM), "is too long");
    assert_only(&mistakes(&key("!".repeat(2_000) + "id"), ITEM), "longer than 1000 bytes");
}

#[test]
fn the_longest_attribute_fits_the_stack_of_the_compiler() {
    let all_levels = || {
        for level in ["!", "&mut ", "|| ", "return ", "-"] {
            let value = level.repeat(180) + "id";
            let args = format!(r#"key = "q:{{id}}", ttl_ms = 10, on_contention = skip({value})"#);
            let _ = mistakes(&args, ITEM);
            let _ = mistakes(&format!(r#"key = "q:{{{value}}}", ttl_ms = 10"#), ITEM);
        }
    };
    // 8 MiB is what rustc gives itself.
    let compiler = std::thread::Builder::new().stack_size(8 << 20).spawn(all_levels);
    assert!(compiler.is_ok_and(|thread| thread.join().is_ok()));
}
