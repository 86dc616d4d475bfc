//! No input makes the macro panic.

use proc_macro2::TokenStream;
use proptest::prelude::*;

use super::mutation::{Dice, attributes, pieces};

const ITEMS: [&str; 15] = [
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
    "fn f(&self, __arg1: u8) -> Pin<Box<dyn Future<Output = u8>>> { Box::pin(async move { if let Some(r) = None::<u8> { return r; } let __self = self; let (a, _) = { let __arg1 = __arg1; __arg1 }; a }) }",
    "fn f() -> Pin<Box<dyn Future<Output = impl X>>> { let a = 1; Box::pin(async { let a = a; let }) }",
    "async unsafe fn f(self: Arc<Self>, [a, .., b]: [u8; 3], ref c: u8) -> impl IntoResponse { 'x' }",
    "|a| a",
    "",
];

fn item() -> impl Strategy<Value = TokenStream> {
    prop::sample::select(ITEMS.to_vec()).prop_map(super::tokens)
}

fn mutated_attribute() -> impl Strategy<Value = String> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(pieces())), 0..4);
    (prop::sample::select(attributes()), changes).prop_map(|(mut attribute, changes)| {
        for (at, piece) in changes {
            let at = at.index(attribute.len());
            attribute[at] = piece;
        }
        attribute.join(" ")
    })
}

#[test]
fn a_hundred_thousand_mutated_attributes_do_not_panic() {
    let items = ITEMS.map(super::tokens).map(|item| item.to_string());
    let search = |seed: u64| {
        let mut dice = Dice(seed);
        for _ in 0..25_000 {
            let changes = dice.below(5);
            let (text, _) = dice.attribute(changes);
            let item = dice.of(&items.each_ref().map(String::as_str)).parse::<TokenStream>();
            if let (Ok(args), Ok(item)) = (text.parse(), item) {
                let panicked = std::panic::catch_unwind(|| drop(crate::expand(args, item))).is_err();
                assert!(!panicked, "#[distributed_lock({text})]");
            }
        }
    };
    std::thread::scope(|threads| {
        for seed in 0..4 {
            threads.spawn(move || search(seed));
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

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
