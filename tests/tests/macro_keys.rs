//! Different arguments never give the same key, and equal ones always do.
#![allow(clippy::unwrap_used)]

use lockrt::{LockError, distributed_lock};
use proptest::prelude::*;

struct Order {
    id: String,
    line: i64,
}

#[distributed_lock(key = "order:{tenant}:{order.id}-x/{order.line}#{flag}|{letter:display}", ttl_ms = 5_000, lease = held)]
async fn key(tenant: &str, order: &Order, flag: bool, letter: u8) -> Result<String, LockError> {
    Ok(held.key().as_str().to_owned())
}

#[distributed_lock(key = "{a}:{b}", ttl_ms = 5_000, lease = held)]
async fn pair(a: &str, b: String) -> Result<String, LockError> {
    Ok(held.key().as_str().to_owned())
}

fn now<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Strings near each other, made of what a key gives a meaning to; a few are long enough to be stored as a digest.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![8 => "[a%:/|#,{} -]{1,4}", 1 => "\\PC{1,6}", 1 => "a{300,301}:?"]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn keys_are_equal_exactly_when_their_arguments_are(
        one in (text(), text(), -2_i64..2, any::<bool>(), 0_u8..2),
        two in (text(), text(), -2_i64..2, any::<bool>(), 0_u8..2),
    ) {
        let _locks = lockrt::testing::memory();
        let of = |(tenant, id, line, flag, letter): (String, String, i64, bool, u8)| {
            let order = Order { id, line };
            now(key(&tenant, &order, flag, letter)).unwrap()
        };
        prop_assert_eq!(of(one.clone()) == of(two.clone()), one == two);
    }

    #[test]
    fn moving_a_letter_from_one_value_to_the_next_gives_another_key(a in text(), b in text()) {
        let _locks = lockrt::testing::memory();
        let whole = format!("{a}{b}");
        let keys: std::collections::HashSet<String> = whole
            .char_indices()
            .skip(1)
            .map(|(at, _)| now(pair(&whole[..at], whole[at..].to_owned())).unwrap())
            .collect();
        prop_assert_eq!(keys.len(), whole.chars().count() - 1);
    }
}
