//! The rules of key templates.

use super::mistakes;

/// The sentences about a key, on a function with a few arguments.
fn refusals(key: &str) -> Vec<String> {
    let item =
        "async fn f(&self, tenant: &str, id: u64, Path((from, to)): Path<(u8, u8)>, r#type: u8) -> R {}";
    mistakes(&format!("key = {key}, ttl_ms = 10"), item)
}

fn assert_accepted(keys: &[&str]) {
    for key in keys {
        assert_eq!(refusals(key), Vec::<String>::new(), "{key}");
    }
}

fn assert_refused(key: &str, part_of_sentence: &str) {
    let sentences = refusals(key);
    assert_eq!(sentences.len(), 1, "{key}: {sentences:?}");
    assert!(sentences[0].contains(part_of_sentence), "{key}: {sentences:?}");
}

#[test]
fn expressions_over_the_arguments_are_accepted() {
    assert_accepted(&[
        r#""gc""#,
        r#""q:{tenant}:{id}""#,
        r#""q:{self.name}""#,
        r#""q:{self.0}/{tenant.len()}""#,
        r#""q:{*id}""#,
        r#""q:{Self::NAME}|{MAX}""#,
        r#""q:{from}#{to}""#,
        r#""q:{id:display}""#,
        r#""q:{ id : display }""#,
        r#""q:{id:hash}""#,
        r#""q:{std::any::type_name::<T>()}""#,
        r#""q:{lower(tenant)}""#,
        r#""q:{tenant.split('}').map(|part| part.len()).sum::<usize>()}""#,
        r##"r#"q:{tenant.replace("}", "'")}:{tenant.find('"').map_or(0, |at| at)}"#"##,
        r#""q:{Uuid::new_v5(id, tenant)}""#,
        r#""q:{Id { id }.text()}""#,
    ]);
}

#[test]
fn a_keyword_names_the_raw_argument() {
    assert_accepted(&[r#""q:{type}""#, r#""q:{r#type}""#]);
    assert_refused(r#""q:{loop}""#, "no argument is called `loop`");
}

#[test]
fn concat_of_literals_and_names_is_a_key() {
    assert_accepted(&[
        r#"concat!("q:", 7, ":", true, '/', stringify!(method), "{id}")"#,
        r#"::std::concat!("q:", concat!("a", "b"))"#,
    ]);
    assert_refused(r#"concat!("q:", stringify!(a b))"#, "takes one name");
    assert_refused(r#"concat!("q:", env!("HOME"))"#, "takes literals");
    assert_refused("KEY", "is a string literal");
    assert_refused(r#"b"q""#, "is a string literal");
}

#[test]
fn an_unknown_name_lists_the_arguments_and_the_nearest() {
    let sentence = "no argument is called `tenat`: did you mean `tenant`? the arguments are `self`, `tenant`, `id`, `from`, `to`, `type`";
    assert_refused(r#""q:{tenat}""#, sentence);
    assert_refused(r#""q:{x.y.z}""#, "no argument is called `x`: the arguments are");
    assert_refused(r#""q:{f(x)}""#, "no argument is called `x`");
    assert_refused(r#""q:{_}""#, "no argument is called `_`");
    let none = mistakes(r#"key = "q:{self.a}:{b}", ttl_ms = 10"#, "async fn f() {}");
    assert!(none[0].contains("this function has no `self`"), "{none:?}");
    assert!(none[1].contains("no argument is called `b`: there are none"), "{none:?}");
}

#[test]
fn two_values_need_a_separator() {
    assert_refused(r#""q:{tenant}{id}""#, "nothing separates `{tenant}` from `{id}`");
    assert_refused(r#""q:{tenant}-{id}""#, "nothing separates");
    assert_refused(r#""q:{tenant}.x_{id}""#, "nothing separates");
    assert_accepted(&[r#""{tenant}-x|{id}""#, r#""{tenant},{id}-x""#]);
}

#[test]
fn text_is_printable_ascii_without_space_percent_and_braces() {
    assert_refused(r#""q {id}""#, "' ' cannot stand");
    assert_refused(r#""q%{id}""#, "'%' cannot stand");
    assert_refused(r#""qü{id}""#, "'ü' cannot stand");
    assert_refused(r#""q\n{id}""#, "cannot stand");
    assert_refused(r#""""#, "the key is empty");
    assert_refused(r#""q{{id}}""#, "a key holds no braces");
    assert_refused(r#""q}""#, "closes nothing");
    assert_refused(r#""q:{id""#, "never closed");
}

#[test]
fn only_display_or_hash_may_follow_a_value() {
    assert_refused(r#""q:{id:?}""#, "must not depend on a `Debug` form");
    assert_refused(r#""q:{id:#?}""#, "must not depend on a `Debug` form");
    assert_refused(r#""q:{id:08x}""#, "knows no format but `:display` and `:hash`");
    assert_refused(r#""q:{id:}""#, "knows no format");
    assert_refused(r#""q:{}""#, "names nothing");
    assert_refused(r#""q:{ }""#, "names nothing");
    assert_refused(r#""q:{:display}""#, "names nothing");
    assert_refused(r#""q:{0}""#, "is no argument");
    assert_refused(r#""q:{id id}""#, "no Rust expression");
}

#[test]
fn what_cannot_be_part_of_a_key_is_refused_wherever_it_stands() {
    assert_refused(r#""q:{tenant.get(0)?}""#, "`?` cannot be used");
    assert_refused(r#""q:{format!(\"{}\", tenant.get(0)?)}""#, "`?` cannot be used");
    assert_refused(r#""q:{id.load().await}""#, "neither wait nor return");
    assert_refused(r#""q:{$name}""#, "is not replaced inside a string");
    assert_refused(r#""q:{stringify!($name)}""#, "is not replaced inside a string");
    for fresh in [
        "Uuid::new_v4()",
        "Utc::now().timestamp()",
        "rand::random::<u64>()",
        "SystemTime::now()",
        "nanoid!()",
    ] {
        assert_refused(&format!("\"q:{{{fresh}}}\""), "exclude nobody");
    }
}

#[test]
fn every_mistake_of_a_key_is_reported() {
    let sentences = refusals(r#""q:{id:?}:{tenant?}:{}""#);
    assert_eq!(sentences.len(), 3, "{sentences:?}");
}
