//! No input makes the macro panic.

use proc_macro2::TokenStream;
use proptest::prelude::*;

/// Pieces of attributes, right and wrong, that a mutation puts together.
const PIECES: [&str; 45] = [
    "\"q:{self}:{_}:{super}:{type}\"",
    "key",
    "ttl_ms",
    "on_contention",
    "renew",
    "on_lost",
    "lease",
    "manager",
    "name",
    "crate",
    "on_error",
    "=",
    ",",
    "=",
    ",",
    "fail",
    "skip",
    "(",
    ")",
    "wait",
    "timeout_ms",
    "forever",
    "auto",
    "max_ms",
    "0",
    "10_000",
    "99999999999999999999",
    "\"q:{a}\"",
    "\"{type}:{\"",
    "\"{a:?}{self.b}\"",
    "\"{|x| x}:{'}'}\"",
    "concat!(",
    "stringify!(a)",
    "|busy|",
    "r#type",
    "self",
    "::",
    "&",
    "<",
    ">",
    "'a",
    "#",
    "{",
    "}",
    "-",
];

const ITEMS: [&str; 12] = [
    "async fn f(a: u8) -> Result<u8, E> { a }",
    "pub async fn f(&self, r#type: u8, _: u8, (a, S { b, .. }): T) {}",
    "async fn f(#[cfg(x)] mut a: &str) { #![allow(unused)] }",
    "async fn f()",
    "async fn f();",
    "fn f() -> Pin<Box<dyn Future>> { Box::pin(async move {}) }",
    "const unsafe extern \"C\" fn f() {}",
    "struct S;",
    "#[distributed_lock] async fn f() -> impl X {}",
    "#[distributed_lock(key = \"q\")] async fn f(a: impl X) -> ! {}",
    "|a| a",
    "",
];

fn item() -> impl Strategy<Value = TokenStream> {
    prop::sample::select(ITEMS.to_vec()).prop_map(super::tokens)
}

/// A right attribute, as the pieces that a mutation exchanges.
const ATTRIBUTE: [&str; 31] = [
    "key",
    "=",
    "\"q:{a}\"",
    ",",
    "ttl_ms",
    "=",
    "10_000",
    ",",
    "on_contention",
    "=",
    "wait(",
    "timeout_ms",
    "=",
    "5",
    ")",
    ",",
    "renew",
    "=",
    "auto(",
    "max_ms",
    "=",
    "20_000",
    ")",
    ",",
    "lease",
    "=",
    "held",
    ",",
    "name",
    "=",
    "\"n\"",
];

fn mutated_attribute() -> impl Strategy<Value = String> {
    let changes = prop::collection::vec((0..ATTRIBUTE.len(), prop::sample::select(PIECES.to_vec())), 0..4);
    changes.prop_map(|changes| {
        let mut pieces = ATTRIBUTE.to_vec();
        for (at, piece) in changes {
            pieces[at] = piece;
        }
        pieces.join(" ")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_mutated_attribute_panics(text in mutated_attribute(), item in item()) {
        if let Ok(args) = text.parse() {
            let _ = crate::expand(args, item);
        }
    }

    #[test]
    fn no_key_panics(key in "[a-z{}:?$'\"_ .|/%()!*&<>#0-9é-]{0,24}", item in item()) {
        let args = super::tokens(&format!("key = {key:?}, ttl_ms = 10"));
        let _ = crate::expand(args, item);
    }

    #[test]
    fn no_mutated_item_panics(cut in 0_usize..12, item in item(), more in item()) {
        let args = super::tokens("key = \"q:{a}\", ttl_ms = 10, lease = held");
        let mutated: TokenStream = item.into_iter().skip(cut % 5).take(cut).chain(more).collect();
        let _ = crate::expand(args, mutated);
    }
}
