//! Different arguments never give the same key, and equal ones always do.
#![allow(clippy::unwrap_used)]

use lockrt::{LockError, distributed_lock};
use proptest::prelude::*;

struct Order {
    id: String,
    line: i64,
}

#[distributed_lock(key = "{tenant}:{order.id}/{order.line}#{flag}|{letter:display}", ttl_ms = 5_000, lease = held)]
async fn key(tenant: &str, order: &Order, flag: bool, letter: u8) -> Result<String, LockError> {
    Ok(held.key().as_str().to_owned())
}

/// Runs a future with locks of its own.
fn now<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let _locks = lockrt::testing::memory();
        future.await
    })
}

type Arguments = (String, String, i64, bool, u8);

/// Strings near each other, made of what a key gives a meaning to, so that a wrong encoding makes two of them meet.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![8 => "[a:/]{1,3}", 4 => "[a%:|#,{}3A -]{1,4}", 1 => "\\PC{1,6}", 1 => "a{300,301}:?"]
}

fn arguments() -> impl Strategy<Value = Arguments> {
    (text(), text(), -1_i64..2, any::<bool>(), 0_u8..2)
}

/// Two lists of arguments: equal, or alike, or of one text cut in two places.
fn pairs() -> impl Strategy<Value = (Arguments, Arguments)> {
    let moved = ("[a:]{2,5}", 0_usize..9, 0_usize..9, arguments()).prop_map(|(text, one, two, rest)| {
        let cut = |at: usize| {
            let (tenant, id) = text.split_at(1 + at % (text.len() - 1));
            (tenant.to_owned(), id.to_owned(), rest.2, rest.3, rest.4)
        };
        (cut(one), cut(two))
    });
    prop_oneof![arguments().prop_map(|one| (one.clone(), one)), (arguments(), arguments()), moved]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn keys_are_equal_exactly_when_their_arguments_are((one, two) in pairs()) {
        let of = |(tenant, id, line, flag, letter): Arguments| {
            let order = Order { id, line };
            now(key(&tenant, &order, flag, letter)).unwrap()
        };
        prop_assert_eq!(of(one.clone()) == of(two.clone()), one == two);
    }
}
